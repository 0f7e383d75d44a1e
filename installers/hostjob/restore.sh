# Restores the snapshot $2 into a new etcd of one member, as the restore $1.
case $2 in
/*) file=$2 ;;
*) file=$data/server/db/snapshots/$2 ;;
esac
flag=$data/server/db/reset-flag
# The distribution leaves its flag when it is done, and refuses a second time then.
if [ -z "$begun" ] || [ -z "$(find "$flag" -newer "$kept/$id.begun" 2>/dev/null)" ]; then
    aside "$1" # what a try before left
    rm -f "$flag"
    echo "restoring $file"
    if ! "$program" server --cluster-reset "--cluster-reset-restore-path=$file" --etcd-s3=false --etcd-disable-snapshots=false >"$kept/$id.log" 2>&1; then
        tail -n 30 "$kept/$id.log"
        say "$file could not be restored: $(grep -E 'level=(fatal|error)|^(Error|FATA)' "$kept/$id.log" | tail -n 1)"
        exit 1
    fi
fi
# The run left it, and the next start writes another one with a certificate of its own. A kubelet that has read the first by then
# waits for minutes before it starts the second.
rm -f "$data/agent/pod-manifests/kube-proxy.yaml"
# What was written there for the agent token of now is newer than what the snapshot has of it, and the runtime would end for that.
# Without the file it takes the one in etcd.
rm -f "$data/server/cred/passwd"
say "$file is restored"
