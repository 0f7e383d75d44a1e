# Fetches a snapshot of $2 bytes from where $DROVER_SECRET_LINK leads into the file $1, for the restore that comes next. $DROVER_CA
# is base64 of certificates that are trusted there beside the system's, $DROVER_UNVERIFIED is yes where any is. The link leads to S3,
# or to the server where $DROVER_FROM says so, which opens to the secret $DROVER_SECRET_OPENS. $DROVER_SHA256 is what the file has to have.
file=$1 size=$2 dir=$(dirname "$1") code='' got=0
link=$DROVER_SECRET_LINK ca=${DROVER_CA:-} unverified=${DROVER_UNVERIFIED:-} from=${DROVER_FROM:-S3} opens=${DROVER_SECRET_OPENS:-} sum=${DROVER_SHA256:-}
unset DROVER_SECRET_LINK DROVER_CA DROVER_UNVERIFIED DROVER_FROM DROVER_SECRET_OPENS DROVER_SHA256
list='the bucket lists' trust="give its authority's as etcd.s3.endpointCA"
if [ "$from" != S3 ]; then list='the host that has it says' trust='this host has to trust it as its agent does'; fi
if ! command -v curl >/dev/null; then
    say "there is no curl on this host, by which the snapshot would be fetched"
    exit 1
fi
# What earlier restores have fetched, and what a try before left.
for old in "$data"/drover/fetched/*; do
    if [ -e "$old" ] && [ "$old" != "$dir" ]; then rm -rf "$old"; fi
done
mkdir -p "$dir" || exit 1
need=$((size * 4 / 1024 + 102400))
free=$(df -Pk "$dir" | awk 'NR == 2 { print $4 }')
if [ "$free" -lt "$need" ]; then
    say "$dir has $free KiB free, and to fetch and restore the snapshot $need are needed"
    exit 1
fi
set --
if [ -n "$ca" ]; then
    for system in /etc/ssl/certs/ca-certificates.crt /etc/pki/tls/certs/ca-bundle.crt /etc/ssl/ca-bundle.pem /etc/ssl/cert.pem; do
        if [ -f "$system" ]; then cat "$system"; break; fi
    done >"$dir/ca.pem"
    printf '\n' >>"$dir/ca.pem"
    printf '%s' "$ca" | base64 -d >>"$dir/ca.pem" || exit 1
    set -- --cacert "$dir/ca.pem"
fi
if [ "$unverified" = yes ]; then set -- "$@" --insecure; fi
# The link and the secret are read and not arguments, which everybody can see. What moves no byte for two minutes has ended.
code=$({
    printf 'url = "%s"\n' "$link"
    if [ -n "$opens" ]; then printf 'header = "Authorization: Bearer %s"\n' "$opens"; fi
} | curl -q -g -sS --proto '=https' --config - "$@" --connect-timeout 30 --speed-limit 1 --speed-time 120 \
    --max-filesize "$size" --output "$file.part" --write-out '%{http_code}' 2>"$dir/curl.log")
failed=$?
reason=$(sed -n 's/^curl: ([0-9]*) //p' "$dir/curl.log" | head -n 1)
case $failed in
0) ;;
6) reason="the name of the endpoint is not known on this host ($reason)" ;;
7) reason="nothing listens there, or a firewall stands between ($reason)" ;;
18) reason="the connection ended before all had come ($reason)" ;;
23) reason="it could not be written to $dir; is the disk full? ($reason)" ;;
28) reason="nothing came for two minutes; see whether the endpoint is overloaded ($reason)" ;;
35 | 51 | 60 | 77) reason="the certificate of the endpoint is not trusted; $trust ($reason)" ;;
63) reason="there are more bytes than $list, $size" ;;
*) reason="curl ends with $failed ($reason)" ;;
esac
if [ "$failed" -eq 0 ] && [ "$code" != 200 ] && [ "$from" != S3 ]; then
    reason="it answers $code: $(head -c 600 "$file.part" | tr -d '\000-\037')"
    failed=1
elif [ "$failed" -eq 0 ] && [ "$code" != 200 ]; then
    said=$(head -c 4096 "$file.part" | sed -n 's/.*<Code>\([A-Za-z]*\)<.*/\1/p' | head -n 1)
    reason="the endpoint answers $code ${said:-without a reason}"
    case $code in
    403) reason="$reason; are the keys still valid, and may they read the object? Is the clock of the server right?" ;;
    404) reason="$reason; it is not there any more" ;;
    esac
    failed=1
fi
if [ "$failed" -eq 0 ]; then
    got=$(stat -c %s "$file.part")
    if [ "$got" -ne "$size" ]; then
        reason="$got bytes came where $list $size"
        failed=1
    elif [ -n "$sum" ] && [ "$(sha256sum "$file.part" | cut -d' ' -f1)" != "$sum" ]; then
        reason="what came has another SHA-256 than the snapshot had when it was taken, $sum"
        failed=1
    fi
fi
if [ "$failed" -ne 0 ]; then
    rm -f "$file.part"
    say "the snapshot could not be fetched from $from: $reason"
    exit 1
fi
sync "$file.part" && mv "$file.part" "$file" || exit 1
say "$file is fetched, $size bytes"
