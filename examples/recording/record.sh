#!/bin/sh
# Records the sample traces again. Run it from the root of the repository, as root: examples/recording/record.sh FTL KERNEL
# FTL is the program. KERNEL is a folder with the boot and lib/modules of a kernel that has F2FS: / or an unpacked
# linux-image-amd64. The script needs db_bench, e2fsprogs, and what `make guest` installs.
set -e
ftl=$(readlink -f "$1")
kernel=$2
root=$(pwd)
work=$(mktemp -d)
cd "$work"
"$ftl" create disk.ftl --device "$root/examples/small-ssd.toml" --scheme page

# RocksDB on ext4 on a loop device. The device model times the answers.
mkdir dir mnt
"$ftl" mount disk.ftl dir --loop --pace --record rocksdb.parquet >said &
server=$!
until grep -q "  mounted " said; do sleep 0.1; done
loop=$(sed -n 's/^ *loop *//p' said)
mkfs.ext4 -q -E nodiscard "$loop"
mount "$loop" mnt
db_bench --benchmarks=fillseq,overwrite,readrandom,readseq --db=mnt/db --num=40000 --value_size=400 --reads=4000 \
    --write_buffer_size=1048576 --target_file_size_base=1048576 --max_bytes_for_level_base=4194304 \
    --compression_type=none --use_direct_reads=true --use_direct_io_for_flush_and_compaction=true --cache_size=262144
fstrim mnt
umount mnt
kill $server
wait $server
cp rocksdb.parquet "$root/examples/rocksdb-ext4-sample.parquet"

# F2FS in a virtual machine, over vhost-user-blk.
"$ftl" create guest.ftl --device "$root/examples/small-ssd.toml" --scheme page
guest="$root/crates/papers/guest/guest.sh"
export FTL_GUEST="$kernel"
sh "$guest" pack packed "$root/examples/recording/f2fs-init.sh" mkfs.f2fs
"$ftl" vhost guest.ftl guest.sock --record f2fs.parquet >said &
server=$!
until grep -q listening said; do sleep 0.1; done
sh "$guest" start packed guest.sock </dev/null
kill $server
wait $server
cp f2fs.parquet "$root/examples/f2fs-sample.parquet"
rm -r "$work"
