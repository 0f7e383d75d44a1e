# oldkeys removes the copies that the distribution keeps, with private keys, of the certificates of before a rotation or a
# restore, and says so.
oldkeys() {
    for dir in "$data"/server/tls-* "$data"/agent/tls-*; do
        case ${dir##*/tls-} in '' | *[!0-9]*) continue ;; esac
        if [ -L "$dir" ] || [ ! -d "$dir" ]; then continue; fi
        if rm -rf "$dir"; then
            say "removed with the private keys of before: $dir"
        else
            say "$dir cannot be removed, and has private keys of before"
        fi
    done
}
