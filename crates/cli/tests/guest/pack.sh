#!/bin/sh
# Packs a small Linux system for a virtual machine: boot.sh and INIT (init.sh unless given) behind it, busybox, the tools of F2FS
# and ext4, and the modules they need.
# Usage: pack.sh FOLDER OUT [INIT]; FOLDER holds lib/modules as / does, or as an unpacked kernel package.
set -e
here=$(dirname "$0")
modules=$(ls -d "$1"/lib/modules/*/kernel | tail -n 1)
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/mnt" "$root/tmp" "$root/modules"
cp "$(command -v busybox)" "$root/bin/busybox"
for tool in mkfs.f2fs fsck.f2fs mkfs.ext4 e2fsck; do
    path=$(PATH=$PATH:/usr/sbin:/sbin command -v $tool)
    cp "$(readlink -f "$path")" "$root/bin/$tool"
    for library in $(ldd "$path" | grep -o '/[^ ]*'); do
        mkdir -p "$root$(dirname "$library")"
        cp "$(readlink -f "$library")" "$root$library"
    done
done
# What is built in, or not there in this version, is left out; boot.sh tries until nothing more can be loaded.
for module in virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk crc16 lz4_compress \
    lz4hc_compress zstd_compress crc32_generic crc32c_generic libcrc32c f2fs mbcache jbd2 ext4; do
    found=$(find "$modules" -name "$module.ko*" | head -n 1)
    case "$found" in
    *.ko) cp "$found" "$root/modules/" ;;
    *.ko.xz) xz -dc "$found" >"$root/modules/$module.ko" ;;
    esac
done
cat "$here/boot.sh" "${3:-$here/init.sh}" >"$root/init"
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet) >"$2"
