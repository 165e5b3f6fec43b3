#!/bin/sh
# Runs read-shares.fio with reads of 0 to 95 %, uniform, with a Zipf distribution, and with a hot fifth, on a device that is 47, 62
# and 94 % full. Each cell starts from the same warm-up. Prints a CSV row for each scheme and cell.
# Usage: examples/read-shares.sh [SCHEMES [FTL]]
schemes=${1:-page,tpftl,learnedftl,leaftl}
ftl=${2:-ftl}
here=$(dirname "$0")
jobs=$(mktemp -d) || exit 1
trap 'rm -rf "$jobs"' EXIT
for export in 1920 2560 3840; do
    for distribution in random zipf:0.9 zoned:90/20:10/80; do
        # The share of reads, and the percent of the device that each of 64 jobs reads and writes.
        for mix in 0:2 25:2 50:4 75:8 95:32; do
            job=$jobs/${distribution%%:*}-${mix%:*}.fio
            sed -e "s/rwmixread=.*/rwmixread=${mix%:*}/" -e "s/io_size=.*/io_size=${mix#*:}%/" \
                -e "s|random_distribution=.*|random_distribution=$distribution|" "$here/read-shares.fio" > "$job"
            "$ftl" compare "$job" --schemes "$schemes" --device "$here/femu-4g.toml" --export ${export}MiB --cache 6% -q --csv -
        done
    done
done
