# Behind boot.sh: F2FS and ext4 on every disk.
set -e
head -c 6291456 /dev/urandom >/tmp/data
md5sum </tmp/data >/tmp/sum
for disk in /dev/vd?; do
    echo "disk $disk $(cat /sys/block/${disk#/dev/}/queue/write_cache)"
    mkfs.f2fs -q -f "$disk"
    mount -t f2fs -o discard "$disk" /mnt
    for file in 1 2 3 4; do
        dd if=/tmp/data of=/mnt/$file bs=64k conv=fsync 2>/dev/null
    done
    rm /mnt/2 /mnt/3
    sync
    fstrim /mnt
    umount /mnt
    mount -t f2fs "$disk" /mnt
    for file in 1 4; do md5sum </mnt/$file | cmp - /tmp/sum; done
    umount /mnt
    fsck.f2fs -f --dry-run "$disk" >/tmp/fsck
    if grep -q Fail /tmp/fsck; then cat /tmp/fsck; exit 1; fi
    mkfs.ext4 -q -F "$disk"
    mount -t ext4 "$disk" /mnt
    cp /tmp/data /mnt/copy
    fstrim /mnt
    umount /mnt
    e2fsck -f -n "$disk" >/dev/null 2>&1
    echo "passed $disk"
done
echo "all passed"
