# kubectl asks the Kubernetes API of this host, as the administrator by $KUBECONFIG.
kubectl() {
    case $program in
    k3s) k3s kubectl --request-timeout=15s "$@" ;;
    *) "$data/bin/kubectl" --request-timeout=15s "$@" ;;
    esac
}
