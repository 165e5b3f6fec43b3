#!/bin/sh
# What NBD and the mounted file can do: fio's 4 KiB requests a second, and the server's processor time for one, with a plain
# RAM disk, nbdkit's, and devices of some schemes in turn, so that what else runs here hits all alike. As root:
#     crates/live/examples/rates.sh target/release/ftl target/release/examples/ram_disk [ROUNDS [SCHEMES]]
# Prints medians over ROUNDS (3), and each rate as a share of the RAM disk's behind the same front end.
set -e
ftl=$(readlink -f "$1")
ram=$(readlink -f "$2")
rounds=${3:-3}
schemes=${4:-page learnedftl}
work=$(mktemp -d -p /dev/shm)
cd "$work"
trap 'kill $server 2>/dev/null || true; sleep 1; cd /; rm -rf "$work"' EXIT
cat >device.toml <<'END'
name = "rates"
what = "2 GiB raw, 32 dies"
exported = "1GiB"
[geometry]
channels = 8
luns_per_channel = 4
planes_per_lun = 1
blocks_per_plane = 256
pages_per_block = 64
page_bytes = 4096
oob_bytes = 64
[times]
read_us = 40
program_us = 200
erase_us = 2000
END
mkdir dir

# fio with $target, and more options.
load() { fio --name=x --size=1g --output-format=terse --terse-version=3 $target "$@"; }

# Processor time of the server in clock ticks.
ticks() { awk '{ print $14 + $15 }' "/proc/$server/stat"; }

measure() { # FRONT BACKEND
    load --rw=write --bs=1m --iodepth=4 >/dev/null
    for rw in randread randwrite; do
        for depth in 1 16 64; do
            before=$(ticks)
            load --rw=$rw --bs=4k --iodepth=$depth --runtime=2 --time_based --norandommap >said
            after=$(ticks)
            # Requests a second and bytes (KiB) of reads and writes: fields 8, 6 and 49, 47.
            awk -F';' -v front="$1" -v backend="$2" -v rw=$rw -v depth=$depth -v ticks=$((after - before)) \
                'NF > 50 { iops = $8 + $49; count = ($6 + $47) / 4; print front, backend, rw, depth, iops, ticks * 10000 / count }' said >>rates
        done
    done
}

ready() { until grep -q "$1" out 2>/dev/null; do kill -0 $server && sleep 0.1; done; }

for round in $(seq "$rounds"); do
    for backend in ram nbdkit $schemes; do
        rm -f disk.ftl out *.sock
        target="--ioengine=nbd --uri=nbd+unix:///?socket=$work/nbd.sock"
        case $backend in
        ram) "$ram" serve "$work/nbd.sock" 1024 >out & ;;
        nbdkit) nbdkit --foreground --unix nbd.sock memory 1G >out 2>&1 & ;;
        *)
            "$ftl" create disk.ftl --device device.toml --scheme "$backend" --cache 6% >/dev/null
            "$ftl" serve disk.ftl --listen "$work/nbd.sock" >out &
            ;;
        esac
        server=$!
        if [ "$backend" = nbdkit ]; then sleep 1; else ready listening; fi
        measure NBD "$backend"
        kill $server
        wait $server 2>/dev/null || true
        [ "$backend" = nbdkit ] && continue
        rm -f disk.ftl out
        case $backend in
        ram) "$ram" mount dir 1024 >out & ;;
        *)
            "$ftl" create disk.ftl --device device.toml --scheme "$backend" --cache 6% >/dev/null
            "$ftl" mount disk.ftl dir >out &
            ;;
        esac
        server=$!
        ready mounted
        target="--ioengine=libaio --direct=1 --filename=$work/dir/$(ls dir)"
        measure file "$backend"
        umount dir
        wait $server || true
    done
done
sort rates | awk '
    function median(list, n,  i, j, t, of) {
        split(list, of, " ")
        for (i = 2; i <= n; i++) for (j = i; j > 1 && of[j - 1] + 0 > of[j] + 0; j--) { t = of[j]; of[j] = of[j - 1]; of[j - 1] = t }
        return of[int((n + 1) / 2)]
    }
    { key = $1 " " $2 " " $3 " " $4; n[key]++; iops[key] = iops[key] " " $5; us[key] = us[key] " " $6 }
    END {
        print "front backend what depth | thousand/s | server us | share of ram"
        for (key in n) {
            split(key, part, " ")
            base = part[1] " ram " part[3] " " part[4]
            rate = median(iops[key], n[key])
            printf "%s | %.1f | %.1f | %.2f\n", key, rate / 1000, median(us[key], n[key]), rate / median(iops[base], n[base])
        }
    }' | sort
