# Has the server make the certificate that it listens with anew when the unit $1 starts: it keeps that one otherwise, with any signature
# it. All servers share it in a Secret, out of which it would come back; $3 is the administrator's kubeconfig, empty without an API.
# Source: rancher/dynamiclistener storage/kubernetes, k3s-io/k3s pkg/cluster/https.go.
KUBECONFIG=$3
export KUBECONFIG
if ! step listener; then
    if [ -n "$3" ] && systemctl is-active --quiet "$1"; then
        tries=12
        until why=$(kubectl -n kube-system delete secret "$program-serving" --ignore-not-found 2>&1); do
            tries=$((tries - 1))
            if [ "$tries" -le 0 ]; then
                say "the Secret $program-serving could not be deleted, and nothing was restarted: $(printf '%s\n' "$why" | tail -n 1 | cut -c 1-300)"
                exit 1
            fi
            sleep 5
        done
    fi
    : >"$data/server/tls/dynamic-cert-regenerate" && done_with listener || exit 1
fi
