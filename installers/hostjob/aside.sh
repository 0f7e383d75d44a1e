# aside keeps what the restore $1 replaces beside it, until the cluster works again.
aside() {
    for part in db/etcd tls cred; do
        from=$data/server/$part to=$data/server/before-$1/$part
        [ -e "$from" ] || continue
        while [ -e "$to" ]; do to=$to.later; done
        mkdir -p "$(dirname "$to")" && mv "$from" "$to" || exit 1
    done
}
