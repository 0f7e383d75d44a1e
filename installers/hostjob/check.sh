# Looks whether the snapshot $1 can be restored here: it is there and whole, it is of the cluster whose tokens have the hashes
# after it, the newest first, and there is room. A name without directory is one of the distribution's own snapshots.
case $1 in
/*) file=$1 ;;
*) file=$data/server/db/snapshots/$1 ;;
esac
shift
hash=
if [ ! -f "$file" ]; then
    say "there is no file $file"
    exit 1
fi
whole "$file" || exit 1
case $file in
*.zip) ;;
*)
    # A newer token takes the place of those before, whose traces stay in the database.
    for one in "$@"; do
        if grep -aqF "/bootstrap/$one" "$file"; then
            hash=$one
            break
        fi
    done
    if [ -z "$hash" ]; then
        say "$file is not a snapshot of this cluster, or was taken with another server token: it has nothing that the cluster's tokens can read. If you have the token of then, drover clusters token CLUSTER --add FILE brings it"
        exit 1
    fi
    ;;
esac
# The database is written anew beside the snapshot, and once more while it is restored.
mkdir -p "$data/server/db" || exit 1
need=$(($(stat -c %s "$file") * 3 / 1024 + 102400))
free=$(df -Pk "$data/server/db" | awk 'NR == 2 { print $4 }')
if [ "$free" -lt "$need" ]; then
    say "$data/server/db has $free KiB free, and the restore needs $need"
    exit 1
fi
describe "$file" "$hash"
