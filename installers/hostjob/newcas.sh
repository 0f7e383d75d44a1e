# Makes new CAs and a new key for service accounts in the directory $1, and says the SHA-256 of the file with the server's. Nothing
# of the cluster changes. Each new root signs itself and is signed by the root of now, so that who trusts either trusts what the
# new CAs sign. What an earlier try made is taken as it is, as long as the CAs of now are those that signed it, or are the same.
set=$1 new=$1.new tls=$data/server/tls
making=$new/making
kinds='client server request-header etcd/peer etcd/server'

# refuse ends the errand with nothing made.
refuse() {
    say "$*"
    rm -rf "$new"
    exit 1
}
unwritten() { refuse "the new CAs could not be written to $new"; }

# nth prints the block $1 of those whose type ends with $2 in the PEM file $3.
nth() { awk -v n="$1" -v end="$2-----" '/^-----BEGIN / && index($0, end) { i++; on = i == n } on; /^-----END / { on = 0 }' "$3"; }

# with_openssl does what its arguments say; what it prints has no key.
with_openssl() { openssl "$@" >"$making/log" 2>&1 || refuse "openssl on this host could not make the new CAs: openssl $1: $(tail -n 1 "$making/log")"; }

# sign signs the request $1 as $2 with what is after it, for ten years, as the distribution does with its own. Clocks of hosts
# differ, and what a CA of the distribution signs is valid from when the CA is.
sign() {
    request=$1 signed=$2
    shift 2
    with_openssl ca -batch -notext -config "$making/config" -startdate "$(date -u -d "@$((now - 86400))" +%y%m%d%H%M%SZ)" -days 3650 -in "$request" -out "$signed" "$@"
}

# follows says whether the CAs that were made are those of now, or signed by them.
follows() {
    for kind in $kinds; do
        of=$set/tls/$kind-ca.crt
        if ! cmp -s "$of" "$tls/$kind-ca.crt"; then
            nth 2 CERTIFICATE "$of" >"$set/cross" && openssl verify -CAfile "$tls/$kind-ca.crt" -untrusted "$set/cross" "$of" >/dev/null 2>&1 || return 1
        fi
    done
}

# told is what openssl says of the certificate that is looked at.
told() { openssl x509 -noout "$1" -in "$part-old.pem" 2>/dev/null; }

# renew makes the CA of the kind $1.
renew() {
    name=$(printf '%s' "$1" | tr / -) old=$tls/$1-ca of=$new/tls/$1-ca
    part=$making/$name
    if [ ! -s "$old.crt" ] || [ ! -s "$old.key" ]; then refuse "$old.crt or $old.key is not on this host"; fi
    # After a rotation the root of now has the last of the keys, and signs itself. At first there is one CA alone.
    nth "$(grep -c -e '^-----BEGIN .*PRIVATE KEY-----' "$old.key")" 'PRIVATE KEY' "$old.key" >"$part-old.key"
    public=$(openssl pkey -pubout -in "$part-old.key" 2>/dev/null)
    place=$(grep -c -e '^-----BEGIN CERTIFICATE' "$old.crt")
    while [ "$place" -gt 0 ]; do
        nth "$place" CERTIFICATE "$old.crt" >"$part-old.pem"
        if [ "$public" = "$(told -pubkey)" ] && [ "$(told -subject_hash)" = "$(told -issuer_hash)" ]; then break; fi
        place=$((place - 1))
    done
    if [ -z "$public" ] || [ "$place" -le 0 ]; then
        refuse "the $1 CA was signed by another one whose key is not in $old.key; make new ones where that key is, and run $program certificate rotate-ca --path DIR on this host"
    fi
    if ! why=$(openssl verify -CAfile "$part-old.pem" "$part-old.pem" 2>&1); then
        refuse "the root of the $1 CA cannot sign a new one: $(printf '%s\n' "$why" | grep error | head -n 1)"
    fi
    with_openssl ecparam -name prime256v1 -genkey -noout -out "$part-root.key"
    with_openssl req -new -sha256 -config "$making/config" -key "$part-root.key" -subj "/CN=$program-$name-root@$now" -out "$part-root.csr"
    sign "$part-root.csr" "$part-root.pem" -extensions root -selfsign -keyfile "$part-root.key"
    sign "$part-root.csr" "$part-cross.pem" -extensions signed -keyfile "$part-old.key" -cert "$part-old.pem"
    with_openssl ecparam -name prime256v1 -genkey -noout -out "$of.key"
    with_openssl req -new -sha256 -config "$making/config" -key "$of.key" -subj "/CN=$program-$name-ca@$now" -out "$part-ca.csr"
    sign "$part-ca.csr" "$part-ca.pem" -extensions signed -keyfile "$part-root.key" -cert "$part-root.pem"
    with_openssl verify -CAfile "$part-root.pem" "$part-ca.pem"
    with_openssl verify -CAfile "$part-old.pem" -untrusted "$part-cross.pem" "$part-ca.pem"
    # Servers show these in this order. openssl, which many programs trust by, follows the first of two roots and no other: it has
    # to be the one that leads to the root of before.
    if ! cat "$part-ca.pem" "$part-cross.pem" "$part-root.pem" "$part-old.pem" >"$of.crt" || ! cat "$part-root.key" >>"$of.key"; then unwritten; fi
}

if ! command -v openssl >/dev/null; then
    say "there is no openssl on this host, by which the new CAs are made; install it, and try again"
    exit 1
fi
if ! "$program" certificate rotate-ca --help 2>&1 | grep -q -e --path; then
    say "$program on this host has no command for other CAs; the releases of Kubernetes since February 2023 have it (1.26.2, 1.25.7, 1.24.11)"
    exit 1
fi
rm -rf "$new"
if [ -d "$set" ] && follows; then
    say "the new CAs that an earlier try made are taken"
else
    rm -rf "$set"
    now=$(date +%s)
    mkdir -p "$new/tls/etcd" "$making" || exit 1
    : >"$making/index"
    openssl rand -hex 8 >"$making/serial" || refuse "openssl on this host gives no random number"
    cat >"$making/config" <<END || unwritten
[ca]
default_ca = here
[here]
database = $making/index
serial = $making/serial
new_certs_dir = $making
default_md = sha256
policy = named
unique_subject = no
[named]
commonName = supplied
[req]
distinguished_name = asked
[asked]
[root]
subjectKeyIdentifier = hash
basicConstraints = critical, CA:true
keyUsage = critical, digitalSignature, keyEncipherment, keyCertSign
[signed]
subjectKeyIdentifier = hash
authorityKeyIdentifier = keyid:always
basicConstraints = critical, CA:true
keyUsage = critical, digitalSignature, keyEncipherment, keyCertSign
END
    for kind in $kinds; do renew "$kind"; done
    if [ ! -s "$tls/service.key" ]; then refuse "$tls/service.key is not on this host"; fi
    # The distribution reads keys in the older form, which is the only one of an older openssl. The first key signs, and what
    # those after it have signed stays valid.
    openssl genrsa -traditional -out "$new/tls/service.key" 2048 2>/dev/null || with_openssl genrsa -out "$new/tls/service.key" 2048
    cat "$tls/service.key" >>"$new/tls/service.key" || unwritten
    rm -rf "$making"
    find "$new" -exec sync {} + || unwritten
    mv "$new" "$set" || unwritten
    sync "$data/drover"
    say "new CAs are made, and signed by those of now"
fi
say "{\"ca\":\"$(sha256sum <"$set/tls/server-ca.crt" | cut -c 1-64)\"}"
