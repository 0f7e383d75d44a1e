# Takes a snapshot of etcd with the name $1, and looks whether it is whole, and in S3 too where it belongs there. $2 is the file of
# the distribution's settings, $3 its unit.
name=$1 unit=$3
dir=$(sed -n 's/^ *"etcd-snapshot-dir": "\(.*\)",\{0,1\}$/\1/p' "$2")
if [ -z "$dir" ]; then dir=$data/server/db/snapshots; fi
# The distribution writes beside the place and renames, so that what is there is all there.
newest() { find "$dir" -maxdepth 1 -type f -name "$name-*" ! -name '*.part' -newer "$kept/$id.begun" 2>/dev/null | sort | tail -n 1; }
file=
if [ -n "$begun" ]; then file=$(newest); fi
if [ -z "$file" ]; then
    # Times of files are in parts of a second, but not on all file systems.
    sleep 1
    "$program" etcd-snapshot save --name "$name" 2>&1 || exit 1
    file=$(newest)
fi
if [ -z "$file" ]; then
    say "no snapshot $name-* was written to $dir"
    exit 1
fi
whole "$file" || exit 1
# A snapshot that S3 does not take is one all the same for the distribution, which only logs it.
if grep -q '^ *"etcd-s3": true,\{0,1\}$' "$2" 2>/dev/null; then
    if ! listed=$("$program" etcd-snapshot ls 2>&1) || ! printf '%s\n' "$listed" | awk -v name="$(basename "$file")" '$1 == name && $2 ~ /^s3:/ { found = 1 } END { exit !found }'; then
        why=$(journalctl -q -u "$unit" --since "$(date -d "@$(stat -c %Y "$kept/$id.begun")" '+%Y-%m-%d %H:%M:%S')" -o cat 2>/dev/null |
            grep -E 'level=(warning|error)' | grep -i s3 | tail -n 1 | sed 's/.*msg="\{0,1\}//; s/"$//' | cut -c 1-300)
        say "$file is whole, and S3 does not have it: ${why:-journalctl -u $unit says why}"
        exit 1
    fi
    echo "S3 has it too"
fi
# A snapshot that is asked for prunes nothing by itself. Those of this host by this name are counted, by the settings.
series=$(basename "$file" .zip)
"$program" etcd-snapshot prune --name "${series%-*}-" 2>&1 || echo "older snapshots of this name could not be removed"
describe "$file"
