#!/bin/sh
# A small Linux with F2FS in QEMU; its disks come from `ftl vhost`. FTL_GUEST names a folder with boot and lib/modules of the
# kernel, as an unpacked linux-image package has them; unless given, it is this machine's own.
#   guest.sh lacks TOOL...               one sentence, and exit code 1, when something is missing on this machine
#   guest.sh pack OUT INIT TOOL...       packs boot.sh, INIT behind it, busybox, TOOLs with their libraries, and modules
#   guest.sh start PACKED SOCKET...      runs it until it switches itself off; its console is standard input and output
set -e
here=$(dirname "$0")
folder=${FTL_GUEST:-/}
PATH=$PATH:/usr/sbin:/sbin

# The folder of modules of kernel $1.
modules() {
    for path in "$folder/lib/modules/$1" "$folder/usr/lib/modules/$1"; do
        if [ -d "$path/kernel/fs/f2fs" ]; then echo "$path"; break; fi
    done
}

# The newest kernel that has its modules.
kernel() {
    for path in "$folder"/boot/vmlinuz-*; do
        if [ -n "$(modules "${path##*/vmlinuz-}")" ]; then echo "${path##*/vmlinuz-}"; fi
    done | sort -V | tail -n 1
}

package() {
    case $1 in
    qemu-*) echo qemu-system-x86 ;;
    busybox) echo busybox-static ;;
    *.f2fs) echo f2fs-tools ;;
    *.ext4 | e2fsck) echo e2fsprogs ;;
    xz) echo xz-utils ;;
    *) echo "$1" ;;
    esac
}

lacks() {
    if [ "$(uname -m)" != x86_64 ]; then
        echo "F2FS on a live device runs in a virtual machine of x86_64, and this machine is $(uname -m)"
        exit 1
    fi
    missing= packages=
    for tool in qemu-system-x86_64 busybox cpio xz "$@"; do
        if ! command -v "$tool" >/dev/null; then
            missing="$missing${missing:+, }$tool"
            case " $packages " in *" $(package "$tool") "*) ;; *) packages="$packages $(package "$tool")" ;; esac
        fi
    done
    if [ -z "$(kernel)" ]; then
        missing="$missing${missing:+, }a kernel with F2FS in $folder"
        packages="$packages linux-image-amd64 (unpacked will do: FTL_GUEST names the folder)"
    fi
    if [ -n "$missing" ]; then
        echo "F2FS on a live device runs in a virtual machine, and this machine lacks $missing;" \
            "\`make guest\` gets it, or install the packages$packages"
        exit 1
    fi
}

pack() {
    out=$1 init=$2
    shift 2
    root=$(mktemp -d)
    trap 'rm -rf "$root"' EXIT
    mkdir -p "$root/bin" "$root/proc" "$root/sys" "$root/dev" "$root/mnt" "$root/tmp" "$root/modules"
    for tool in busybox "$@"; do
        path=$(command -v "$tool")
        cp "$(readlink -f "$path")" "$root/bin/$tool"
        # A static program has none.
        for library in $(ldd "$path" 2>/dev/null | grep -o '/[^ ]*' || true); do
            mkdir -p "$root$(dirname "$library")"
            cp "$(readlink -f "$library")" "$root$library"
        done
    done
    from=$(modules "$(kernel)")
    # What is built in, or not there in this version, is left out; boot.sh tries until nothing more can be loaded.
    for module in virtio virtio_ring virtio_pci_modern_dev virtio_pci_legacy_dev virtio_pci virtio_blk crc16 lz4_compress \
        lz4hc_compress zstd_compress crc32_generic crc32c_generic libcrc32c f2fs mbcache jbd2 ext4; do
        found=$(find "$from/" -name "$module.ko*" | head -n 1)
        case "$found" in
        *.ko) cp "$found" "$root/modules/" ;;
        *.ko.xz) xz -dc "$found" >"$root/modules/$module.ko" ;;
        esac
    done
    cat "$here/boot.sh" "$init" >"$root/init"
    chmod +x "$root/init"
    (cd "$root" && find . | cpio -o -H newc --quiet) >"$out"
}

start() {
    packed=$1
    shift
    count=0
    for socket; do
        shift
        set -- "$@" -chardev "socket,id=disk$count,path=$socket" -device "vhost-user-blk-pci,chardev=disk$count,num-queues=2"
        count=$((count + 1))
    done
    exec qemu-system-x86_64 -accel tcg -machine q35,memory-backend=memory -m 512M \
        -object memory-backend-memfd,id=memory,size=512M,share=on -nodefaults -nographic -no-reboot -serial stdio \
        -append "console=ttyS0 quiet panic=-1" -initrd "$packed" -kernel "$folder/boot/vmlinuz-$(kernel)" "$@" 2>&1
}

"$@"
