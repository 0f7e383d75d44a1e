# Deletes the nodes of machines that the cluster does not have any more: of all but those with the UIDs after $1, which is
# the administrator's kubeconfig.
KUBECONFIG=$1
export KUBECONFIG
shift
looks=60
until nodes=$(kubectl get nodes -o 'jsonpath={range .items[*]}{.metadata.name} {.metadata.labels.rke\.cattle\.io/machine}{"\n"}{end}' 2>&1); do
    looks=$((looks - 1))
    if [ "$looks" -le 0 ]; then
        say "the Kubernetes API does not answer: $nodes"
        exit 1
    fi
    sleep 5
done
printf '%s\n' "$nodes" | while read -r node uid; do
    [ -n "$uid" ] || continue
    for own in "$@"; do
        if [ "$uid" = "$own" ]; then continue 2; fi
    done
    kubectl delete node "$node" --wait=false || exit 1
    say "node $node is deleted: the cluster has no machine of it any more"
done
