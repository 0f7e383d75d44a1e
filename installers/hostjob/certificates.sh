# Renews the certificates of the services after $3, or of all, with the unit $1 stopped for it. $2 are the components whose
# self-signed certificates are removed too: they are made anew when the components start, and not otherwise.
unit=$1 pairs=$2
shift 2
if ! step rotated; then
    echo "stopping $unit"
    systemctl stop "$unit" || { started "$unit"; exit 1; }
    services=
    for service in "$@"; do services="$services --service $service"; done
    # The names of services have no spaces.
    # shellcheck disable=SC2086
    if ! "$program" certificate rotate $services 2>&1; then
        say "the certificates could not be renewed"
        started "$unit"
        exit 1
    fi
    for pair in $pairs; do
        rm -f "$data/server/tls/$pair/$pair.crt" "$data/server/tls/$pair/$pair.key" "$data/agent/pod-manifests/$pair.yaml"
    done
    if [ "$program" = rke2 ]; then rm -f "$data"/server/manifests/rke2-*.yaml; fi
    done_with rotated
fi
echo "starting $unit"
started "$unit" || exit 1
oldkeys
say "the certificates are renewed"
