# Restores the snapshot $2 below the directory $1 and starts k3s on it: the API alone, on the loopback address, without kubelet,
# scheduler and controllers, so that nothing of the cluster runs. $2 is a path, or the name under which it is fetched; $3 is its size
# in bytes, 0 when that is not known; $4 is the hash of the cluster's token, $5 its settings that count here, and the directories after
# it are those of runtimes. $DROVER_SECRET_TOKEN is the token. The last line that is printed says how it ended, and the exit code
# only whether it came to an end.
data=$1 snapshot=$2 size=$3 hash=$4 settings=$5
shift 5
token=$DROVER_SECRET_TOKEN
unset DROVER_SECRET_TOKEN
PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
umask 077
began=$(date +%s)
verdict=''

# say keeps what is printed: when a part fails its last line is the cause.
say() { printf '%s\n' "$*" | tee -a "$data/said"; }
quoted() { printf '%s' "$*" | tr '\n\t' '  ' | tr -d '\000-\037' | cut -c 1-600 | sed 's/\\/\\\\/g; s/"/\\"/g'; }
failed() {
    verdict="{\"ok\":false,\"cause\":\"$(quoted "$*")\"}"
    exit 0
}
# over leaves the host as it was, however the script ends.
over() {
    code=$?
    trap - EXIT
    gone
    if [ -z "$verdict" ]; then
        if [ "$code" -eq 0 ]; then code=1; fi
        exit "$code"
    fi
    printf '%s\n' "$verdict"
    exit 0
}

trap over EXIT
trap 'exit 143' HUP INT TERM
gone || exit 1 # what an earlier try left
for runtime in "$@"; do
    if [ -e "$runtime" ]; then failed "the host has $runtime: a rehearsal is done where no Kubernetes runs or has run"; fi
done
command -v systemd-run >/dev/null || failed "there is no systemd-run on this host, by which k3s would run"
if ! [ -f "${CATTLE_AGENT_EXECUTION_PWD:-.}/k3s" ]; then failed "the installer image has no file k3s"; fi
mkdir -p "$data" || failed "$data cannot be made"
for made in /etc/rancher/k3s /etc/rancher/node; do
    [ -e "$made" ] || printf '%s\n' "$made" >>"$data/makes"
done
case $snapshot in
/*)
    file=$snapshot
    [ -f "$file" ] || failed "there is no file $file on this host"
    size=$(stat -c %s "$file")
    ;;
*) file=$data/drover/fetched/$snapshot ;;
esac
# The snapshot with what is made of it, and the runtime with what it unpacks.
need=$((size * 5 / 1024 + 819200))
free=$(df -Pk "$data" | awk 'NR == 2 { print $4 }')
if [ "$free" -lt "$need" ]; then failed "$data has $free KiB free, and the rehearsal needs $need"; fi
if [ "$file" != "$snapshot" ]; then
    echo "fetching $snapshot"
    fetched "$file" "$size" || failed "$(tail -n 1 "$data/said")"
fi
unset DROVER_SECRET_LINK DROVER_CA DROVER_UNVERIFIED DROVER_FROM DROVER_SECRET_OPENS DROVER_SHA256
checked "$file" "$hash" || failed "$(tail -n 1 "$data/said")"

if ! cp "${CATTLE_AGENT_EXECUTION_PWD:-.}/k3s" "$data/k3s" || ! chmod 700 "$data/k3s"; then failed "k3s cannot be put into $data"; fi
printf '%s\n' "$settings" >"$data/config.yaml"
# k3s takes the token for a restore from its settings alone, and not from a --token-file.
mkdir -p "$data/config.yaml.d"
printf 'token: "%s"\n' "$(quoted "$token")" >"$data/config.yaml.d/token.yaml"

# server runs k3s as the unit, with the options of systemd-run before -- and those of k3s after it, and its log in the file $1.
server() {
    log=$1
    shift
    options=''
    while [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    shift
    # The options have no spaces.
    # shellcheck disable=SC2086,SC2016
    systemd-run --quiet --collect --unit="$unit" --property=RuntimeMaxSec=2400 $options sh -c 'log=$1; shift; exec "$@" >"$log" 2>&1' sh "$log" \
        "$data/k3s" server --data-dir="$data/state" --config="$data/config.yaml" --write-kubeconfig="$data/kubeconfig" \
        --node-name=drover-rehearsal --bind-address=127.0.0.1 --https-listen-port=26443 --disable-agent --disable-scheduler \
        --disable-controller-manager --disable-cloud-controller --disable-helm-controller --disable-network-policy --flannel-backend=none \
        --egress-selector-mode=disabled --disable=servicelb --disable=traefik --etcd-s3=false "$@"
}
# complaint is the last thing that a log has to say of a failure.
complaint() {
    last=$(grep -E 'level=(fatal|error)|^(Error|FATA|panic)' "$1" 2>/dev/null | tail -n 1)
    printf '%s' "${last:-$(tail -n 1 "$1" 2>/dev/null)}"
}

echo "restoring $file"
if ! server "$data/reset.log" --wait -- --cluster-reset --cluster-reset-restore-path="$file" --etcd-disable-snapshots=false; then
    tail -n 30 "$data/reset.log" 2>/dev/null
    failed "the snapshot could not be restored: $(complaint "$data/reset.log")"
fi
echo "starting k3s"
# The reset wrote it for these settings, which have no agent token; k3s refuses one that is newer than what the snapshot has, and
# makes it of that when it is not there.
rm -f "$data/state/server/cred/passwd"
server "$data/server.log" -- --etcd-disable-snapshots=true || failed "k3s could not be started as a unit of systemd"
kubectl() { timeout 300 "$data/state/data/current/bin/kubectl" --kubeconfig="$data/kubeconfig" "$@"; }
looks=300
until answer=$(kubectl get --raw /readyz 2>&1) && [ "$answer" = ok ]; do
    if ! systemctl is-active --quiet "$unit.service"; then
        tail -n 30 "$data/server.log" 2>/dev/null
        failed "k3s ended while it started with the restored data: $(complaint "$data/server.log")"
    fi
    looks=$((looks - 1))
    if [ "$looks" -le 0 ]; then
        tail -n 30 "$data/server.log" 2>/dev/null
        failed "the Kubernetes API was not ready after 10 minutes: $answer"
    fi
    sleep 2
done

echo "counting objects"
# One of an extension whose pods would have to run is not listed, and all others are.
types=$(kubectl api-resources --verbs=list -o name 2>/dev/null)
objects=0 counts='' unread=''
for type in $types; do
    case $type in
    events | events.events.k8s.io | componentstatuses | *.metrics.k8s.io) continue ;;
    esac
    # Every object is read, and every Secret with the key that it was encrypted by.
    if ! kubectl get "$type" --all-namespaces --chunk-size=500 -o name >"$data/listed" 2>"$data/unlisted"; then
        case $type in
        *.apps | *.batch) failed "$type cannot be read from the restored data: $(tail -n 1 "$data/unlisted")" ;;
        *.*) unread="$unread $type" ;; # versions of it may be converted by pods, which do not run here
        *) failed "$type cannot be read from the restored data: $(tail -n 1 "$data/unlisted")" ;;
        esac
        continue
    fi
    n=$(grep -c . "$data/listed")
    objects=$((objects + n))
    case $type in
    nodes | namespaces | pods | services | secrets | configmaps | persistentvolumes | deployments.apps | statefulsets.apps | daemonsets.apps) counts="$counts,\"$type\":$n" ;;
    esac
    if [ "$n" -eq 0 ] && { [ "$type" = nodes ] || [ "$type" = namespaces ]; }; then failed "the restored data have no $type"; fi
done
if [ "$objects" -eq 0 ]; then failed "the Kubernetes API lists no objects"; fi
verdict="{\"ok\":true,\"objects\":$objects,\"counts\":{${counts#,}},\"unread\":\"$(quoted "${unread# }")\",\"seconds\":$(($(date +%s) - began))}"
