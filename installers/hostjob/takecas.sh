# Has the server at $3 take the new CAs in the directory $1 to etcd, where all servers take theirs from when they start. $2 is the
# SHA-256 of the file with the server's, $4 the unit. Done twice it is the same.
set=$1 hash=$2 url=$3 unit=$4
sum() { sha256sum 2>/dev/null <"$1" | cut -c 1-64; }
if [ "$(sum "$data/server/tls/server-ca.crt")" = "$hash" ]; then
    say "this server has started with the new CAs already"
    exit 0
fi
if [ ! -d "$set" ] || [ "$(sum "$set/tls/server-ca.crt")" != "$hash" ]; then
    say "the new CAs of this rotation are not on this host any more; ask for another rotation"
    exit 1
fi
systemctl is-active --quiet "$unit" || started "$unit" || exit 1
tries=12
until said=$("$program" certificate rotate-ca --data-dir "$data" --server "$url" --path "$set" 2>&1); do
    tries=$((tries - 1))
    if [ "$tries" -le 0 ]; then
        # The command says that the reason is in the server's log.
        why=$(journalctl -q -u "$unit" --since "$(date -d "@$(stat -c %Y "$kept/$id.begun")" '+%Y-%m-%d %H:%M:%S')" -o cat 2>/dev/null |
            grep 'certificate error ID' | tail -n 1 | sed 's/.*error ID [0-9]*: //; s/"$//' | cut -c 1-300)
        say "the server does not take the new CAs: ${why:-$(printf '%s\n' "$said" | tail -n 1 | cut -c 1-300)}"
        exit 1
    fi
    sleep 5
done
say "etcd has the new CAs"
