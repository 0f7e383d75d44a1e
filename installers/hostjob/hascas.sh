# Looks whether the server has started with the CAs whose SHA-256 is $2.
if [ "$(sha256sum 2>/dev/null <"$data/server/tls/server-ca.crt" | cut -c 1-64)" != "$2" ]; then
    say "$unit has started with other CAs than etcd was given; journalctl -u $unit says why"
    exit 1
fi
oldkeys
say "$unit works with the new CAs"
