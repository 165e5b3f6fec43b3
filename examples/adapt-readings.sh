#!/bin/sh
# Runs ADAPT, ADAPT with other readings of its paper (docs/schemes/adapt.md), and the other log-block schemes on generators, and on
# real rows if FTL_TRACES names their folder. Prints a Markdown table: seconds of `adapt`, and the percent that each other takes more.
# Usage: [FTL_TRACES=FOLDER] examples/adapt-readings.sh [FTL]
ftl=${1:-ftl}
out=$(mktemp -d) || exit 1
trap 'rm -rf "$out"' EXIT
readings="equal=sequential partial=first partial=half partial=any victim=cheapest victim=oldest idle=keep idle=zero
threshold=32 area=least evidence=0 evidence=16 evidence=256 latency=1 latency=256 techniques=phae techniques=phae:threshold=32 techniques=shae"
others="bast fast faster waftl last"
schemes=adapt$(printf ',adapt:%s' $readings)$(printf ',%s' $others)

# run NAME OPTIONS...: a file of readings and seconds.
run() {
    name=$1
    shift
    "$ftl" compare "$@" --schemes "$schemes" --cache 8MiB --warm-up fill --mode closed --depth 1 --address wrap -q --csv - \
        > "$out/csv" || exit 1
    # The text of the workload may hold commas.
    sed -e 1d -e 's/"[^"]*"/text/g' "$out/csv" | cut -d, -f17 > "$out/seconds"
    echo adapt $readings $others | tr ' ' '\n' | paste -d' ' - "$out/seconds" | sed "s/^/$name /" >> "$out/all"
    echo "$name" >> "$out/names"
}

small="--device flashsim-slc --export 512MiB"
rows="$FTL_TRACES"/
if [ -f "${rows}financial1-first50000.flashsim.xz" ]; then
    run Financial1 --trace "${rows}financial1-first50000.flashsim.xz" $small
    # Addresses on 4 KiB: what is lost of the sizes cannot make three pages of two.
    xz -dc "${rows}financial1-first50000.flashsim.xz" | awk '{ $3 -= $3 % 8; print }' > "$out/financial1-aligned.flashsim"
    run Financial1-aligned --trace "$out/financial1-aligned.flashsim" $small
fi
for trace in prxy_0:msr-prxy_0-first20000.csv.xz tpcc:tpcc-small.mqsim.xz cloudphysics:cloudphysics-2h.csv.xz; do
    [ -f "$rows${trace#*:}" ] && run "${trace%%:*}" --trace "$rows${trace#*:}" $small
done
# Eight streams of 16 KiB in turn by chance, three requests in ten, and 8,000 single pages written again and again.
awk 'function draw(below) { x = x * 16807 % 2147483647; return x % below }
    BEGIN {
        x = 5
        for (n = 0; n < 400000; n++) {
            hot = draw(10) >= 3; stream = draw(8); page = draw(8000)
            if (hot) { lba = 1048576 + 4 * page; bytes = 2048 }
            else { lba = 131072 * stream + at[stream] % 131072; at[stream] += 32; bytes = 16384 }
            printf "0,%d,%d,w,%d.%03d\n", lba, bytes, n / 1000, n % 1000
        }
    }' > "$out/streams-and-hot-pages.spc"
run streams-and-hot-pages --trace "$out/streams-and-hot-pages.spc" --device flashsim-slc --export 1GiB
if [ -f "$out/financial1-aligned.flashsim" ]; then
    awk '$5 == 0 { print "0," $3 "," $4 * 4096 ",w,0" }' "$out/financial1-aligned.flashsim" | head -n 12000 > "$out/turn.spc"
    head -n 200000 "$out/streams-and-hot-pages.spc" | sed 's/,[^,]*$/,0/' >> "$out/turn.spc"
    run random-then-streams --trace "$out/turn.spc" --device flashsim-slc --export 1GiB
fi
run streams --synth streams --requests 400000 --device flashsim-slc --export 1GiB
for synth in spc1 msr-prxy_0; do
    run "$synth" --synth $synth --requests 50000 --warm-up-requests 250000 $small
done
for synth in tpcc-20 msr-hm_0 msr-ts_0; do
    run "$synth" --synth $synth --requests 50000 --warm-up-requests 250000 --device flashsim-slc
done

awk -v names="$(tr '\n' ' ' < "$out/names")" '
    { seconds[$2, $1] = $3 / 1e9; worst[$2] = -1e9 }
    END {
        count = split(names, name, " ")
        head = "| reading |"; rule = "| --- |"; first = "| `adapt`, s |"
        for (i = 1; i <= count; i++) {
            head = head " " name[i] " |"; rule = rule " --- |"
            first = first sprintf(" %.1f |", seconds["adapt", name[i]])
        }
        print head; print rule; print first
        for (reading in worst) if (reading != "adapt") {
            line = "| `" reading "` |"
            for (i = 1; i <= count; i++) {
                more = 100 * (seconds[reading, name[i]] / seconds["adapt", name[i]] - 1)
                if (more > worst[reading]) worst[reading] = more
                line = line sprintf(" %+.1f |", more)
            }
            print worst[reading] "\t" line | "sort -t \"\t\" -k1,1 -g -r | cut -f2-"
        }
    }
' "$out/all"
