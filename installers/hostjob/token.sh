# Has the server at $1 write what etcd holds with the server token $DROVER_SECRET_NEXT, whose hash is $2, and save it. The server
# opens to one of the tokens $DROVER_SECRET_OPENS. $3 is its unit.
url=$1 hash=$2 unit=$3 db=$data/server/db/etcd/member/snap/db
next=$DROVER_SECRET_NEXT opens=$DROVER_SECRET_OPENS
unset DROVER_SECRET_NEXT DROVER_SECRET_OPENS
if ! command -v curl >/dev/null; then
    say "there is no curl on this host, by which the server is asked"
    exit 1
fi

# in_force says whether etcd has what is written with the token: the key goes there with it, and stays.
in_force() { grep -aqF "/bootstrap/$hash" "$db"; }

# ask asks the server for the token $1, and says what it answered. What is secret is read and not an argument.
ask() {
    code=000
    for one in $opens; do
        code=$(printf 'url = "%s"\nuser = "server:%s"\ndata = "{\\"newToken\\":\\"%s\\"}"\n' "$url" "$one" "$1" |
            curl -q -g -sS --noproxy '*' --config - --request PUT --header 'Content-Type: application/json' --cacert "$data/server/tls/server-ca.crt" \
                --connect-timeout 10 --max-time 60 --output "$kept/$id.answer" --write-out '%{http_code}' 2>"$kept/$id.log")
        if [ "$code" != 401 ]; then break; fi
    done
    case $code in
    200) said='it did' ;;
    000) said="it does not answer: $(sed -n 's/^curl: ([0-9]*) //p' "$kept/$id.log" | head -n 1)" ;;
    401 | 403) said='it knows none of the tokens that the cluster has' ;;
    404) said='it has no command for that; Kubernetes 1.28 and later have it' ;;
    *) said="it answers $code: $(head -c 300 "$kept/$id.answer" | tr -d '\n')" ;;
    esac
    [ "$code" = 200 ]
}

if [ -n "$begun" ] && ! systemctl is-active --quiet "$unit"; then
    # A server that ended in the middle refuses to start with a file of passwords that is newer than what etcd has. Without
    # the file it takes the one in etcd.
    rm -f "$data/server/cred/passwd"
    if ! in_force; then started "$unit" || exit 1; fi
fi
if in_force; then
    # The server that knows the token already saves with it once more, and no other server is asked.
    if [ "$opens" = "$next" ]; then
        tries=12
        until ask "$next"; do
            case $(systemctl show --property=SubState --value "$unit" 2>/dev/null) in
            # It has ended, and ends again for its file of passwords, if that is newer than what etcd has.
            auto-restart* | failed | dead)
                rm -f "$data/server/cred/passwd"
                systemctl restart --no-block "$unit"
                ;;
            esac
            tries=$((tries - 1))
            if [ "$tries" -le 0 ]; then
                say "the server does not open with its new token: $said"
                exit 1
            fi
            sleep 5
        done
        say "the new token opens the cluster"
        exit 0
    fi
    say "etcd has the new token already"
    exit 0
fi
tries=12
while ! ask "$next" && ! in_force; do
    tries=$((tries - 1))
    if [ "$tries" -le 0 ] || [ "$code" = 404 ]; then
        say "the server does not take the new token: $said"
        exit 1
    fi
    # One that got half way goes back first: it would look for what is written with the new token, and that is not there.
    if [ "$code" = 500 ]; then ask "${opens%% *}"; fi
    sleep 5
done
# The database is written a moment later.
looks=60
until in_force; do
    looks=$((looks - 1))
    if [ "$looks" -le 0 ]; then
        say "the server says that it has taken the new token, and etcd here does not have it after 60 s"
        exit 1
    fi
    sleep 1
done
say "etcd has the new token"
