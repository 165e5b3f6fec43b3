# Behind boot.sh: carries out the lines that come over the console, and says how each ended.
stty -echo
dmesg -n 1
printf '\nready\n'
while read -r line; do
    if sh -c "$line" </dev/null 2>/tmp/errors; then code=0; else code=$?; cat /tmp/errors; fi
    printf '\nended %s\n' "$code"
done
