# whole says whether the file $1 is a whole snapshot of etcd: a bbolt database with its SHA-256 behind it, as
# etcd's own tools check it.
whole() {
    size=$(stat -c %s "$1") || return 1
    case $1 in
    *.zip)
        if [ "$(od -An -tx1 -N2 "$1" | tr -d ' \n')" = 504b ]; then return 0; fi
        say "$1 is not a ZIP archive"
        return 1
        ;;
    esac
    if [ "$(od -An -tx1 -j16 -N4 "$1" | tr -d ' \n')" != edda0ced ]; then
        say "$1 is not a database of etcd"
        return 1
    fi
    if [ $((size % 512)) -ne 32 ]; then
        say "$1 was cut: it has $size bytes, and no checksum at its end"
        return 1
    fi
    if [ "$(tail -c 32 "$1" | od -An -tx1 | tr -d ' \n')" != "$(head -c -32 "$1" | sha256sum | cut -d' ' -f1)" ]; then
        say "$1 has changed since it was written: its checksum does not fit"
        return 1
    fi
}

# describe prints the file as the server reads it, with the hash $2 of the token that it needs.
describe() { say "{\"file\":\"$1\",\"size\":$(stat -c %s "$1"),\"sha256\":\"$(sha256sum "$1" | cut -d' ' -f1)\",\"tokenHash\":\"${2:-}\"}"; }
