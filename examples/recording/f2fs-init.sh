# Runs after crates/papers/guest/boot.sh, in the virtual machine whose device gave examples/f2fs-sample.parquet. It writes files on
# F2FS, rewrites parts of them with fsync, appends, reads, removes files and trims.
next() { block=$(((block * 1103 + 12345 + round) % 512)); }
head -c 2097152 /dev/urandom >/tmp/data
mkfs.f2fs -q -f /dev/vda
mount -t f2fs -o discard /dev/vda /mnt
for file in 1 2 3 4 5 6 7 8; do dd if=/tmp/data of=/mnt/$file bs=64k conv=fsync 2>/dev/null; done
block=0
for round in $(seq 400); do
    next
    dd if=/tmp/data of=/mnt/$((round % 8 + 1)) bs=4k count=1 seek=$block conv=notrunc,fsync 2>/dev/null
done
for round in $(seq 200); do
    dd if=/tmp/data bs=4k count=1 2>/dev/null >>/mnt/log
    if [ $((round % 4)) = 0 ]; then sync; fi
done
echo 3 >/proc/sys/vm/drop_caches
for file in 3 1 8 5; do cat /mnt/$file >/dev/null; done
block=0
for round in $(seq 300); do
    next
    if [ $((round % 50)) = 0 ]; then echo 3 >/proc/sys/vm/drop_caches; fi
    dd if=/mnt/$((round % 8 + 1)) of=/dev/null bs=4k count=1 skip=$block 2>/dev/null
done
rm /mnt/2 /mnt/3 /mnt/7
sync
fstrim /mnt
umount /mnt
echo "all passed"
