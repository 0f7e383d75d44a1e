# Makes a new key for the Secrets in etcd, and has all of them written with it.
status() { "$program" secrets-encrypt status 2>&1; }
active() { printf '%s\n' "$1" | sed -n 's/^ \* *[^ ]* *//p' | head -n 1; }
stage() { printf '%s\n' "$1" | sed -n 's/^Current Rotation Stage: *//p' | head -n 1; }
now=$(status)
case $now in
*'Encryption Status: Enabled'*) ;;
*)
    say "Secrets are not encrypted in this cluster, so that there is no key to rotate: $(printf '%s\n' "$now" | head -n 1)"
    exit 1
    ;;
esac
if ! step before; then
    case $now in
    *'All hashes match'*) ;;
    *)
        say "the servers do not have the same encryption keys; restart those that differ first: $(printf '%s\n' "$now" | grep 'Hashes')"
        exit 1
        ;;
    esac
    active "$now" >"$kept/$id.key" && done_with before || exit 1
fi
if [ "$(active "$now")" = "$(cat "$kept/$id.key")" ] && [ "$(stage "$now")" != reencrypt_active ]; then
    # It waits 90 s for its end, and goes on after that.
    "$program" secrets-encrypt rotate-keys 2>&1 || echo "looking how far it is"
fi
looks=360
while :; do
    now=$(status)
    if [ "$(active "$now")" != "$(cat "$kept/$id.key")" ] && [ "$(stage "$now")" = reencrypt_finished ]; then break; fi
    looks=$((looks - 1))
    if [ "$looks" -le 0 ]; then
        say "the Secrets are not written with a new key after 30 minutes: stage $(stage "$now")"
        exit 1
    fi
    # A rotation that failed leaves the key that was active.
    if [ "$looks" -le 354 ] && [ "$(active "$now")" = "$(cat "$kept/$id.key")" ] && [ "$(stage "$now")" != reencrypt_active ]; then
        say "the key could not be rotated: stage $(stage "$now")"
        exit 1
    fi
    sleep 5
done
say "Secrets are written with the new key $(active "$now")"
