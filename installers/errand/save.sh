# Takes a snapshot of etcd with the name $1, and looks whether it is whole. $2 is the file of the distribution's settings.
name=$1
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
describe "$file"
