#!/bin/sh
# Installs, upgrades or removes rancher-system-agent on the host of a pod: the command of the Job that the system upgrade
# controller runs on each node. The host's root is mounted at /host; everything that is installed comes from beside this
# script, so the host downloads nothing. An upgrade is a complete registration with the machine id that the host has.
#
# Environment: what install.sh reads (CATTLE_SERVER, CATTLE_TOKEN, CATTLE_CA_CHECKSUM, CATTLE_ROLE_*, proxies …), and
#   UNINSTALL=true             remove the agent instead
#   SYSTEM_UPGRADE_NODE_NAME   the node this runs on; its role labels set the roles that the environment does not
#   CATTLE_AGENT_VAR_DIR       where the host's agent keeps its state
# What the agent's own environment file on the host says fills in what is not set here.
#
# POSIX sh (busybox ash). SUC_HOST, which only tests set, stands for /host.

info() { printf 'rancher-system-agent-suc: %s\n' "$*"; }

die() {
    printf 'rancher-system-agent-suc: error: %s\n' "$*" >&2
    exit 1
}

cleanup() {
    status=$?
    trap '' HUP INT TERM
    [ -z "$staging" ] || rm -rf "$staging"
    exit "$status"
}

# stage: a private directory on the host with what is to be installed
stage() {
    var_dir=${CATTLE_AGENT_VAR_DIR:-/var/lib/rancher/agent}
    case $var_dir in
        /*) ;;
        *) die "CATTLE_AGENT_VAR_DIR \"$var_dir\" must be an absolute path" ;;
    esac
    (umask 022 && mkdir -p "$host${var_dir%/*}")
    mkdir -p "$host$var_dir/tmp"
    staging=$(mktemp -d "$host$var_dir/tmp/tmp.XXXXXX") || die "cannot write to $var_dir/tmp on the host"
    for file in install.sh system-agent-uninstall.sh rancher-system-agent; do
        cp "$here/$file" "$staging/$file" || die "cannot copy $file to the host; is its disk full?"
    done
    chmod 0755 "$staging"/*
    inside=${staging#"$host"}
}

# node_roles: the roles that the node has in its cluster, unless the environment says otherwise
node_roles() {
    [ -n "${SYSTEM_UPGRADE_NODE_NAME:-}" ] || return 0
    command -v kubectl >/dev/null || die "SYSTEM_UPGRADE_NODE_NAME is set, but this image has no kubectl"
    node=$(kubectl get node "$SYSTEM_UPGRADE_NODE_NAME" -o yaml) ||
        die "cannot read the node $SYSTEM_UPGRADE_NODE_NAME; the Job's account needs to get nodes"
    # Its labels alone: annotations may be called the same.
    node=$(printf '%s\n' "$node" | sed -n '/^  labels:$/,/^  [^ ]/{/^    /p;}')
    CATTLE_NODE_NAME=$SYSTEM_UPGRADE_NODE_NAME && export CATTLE_NODE_NAME
    role etcd CATTLE_ROLE_ETCD
    role 'control-\{0,1\}plane' CATTLE_ROLE_CONTROLPLANE
    role worker CATTLE_ROLE_WORKER
}

# role LABEL VARIABLE
role() {
    eval "[ -z \"\${$2:-}\" ]" || return 0
    if printf '%s\n' "$node" | grep -q "^    node-role\.kubernetes\.io/$1: [\"']\{0,1\}true[\"']\{0,1\} *\$"; then
        eval "$2=true && export $2"
    fi
}

# host_environment: lines NAME=VALUE as systemd reads them. A value goes from the first = to the end of its line, blanks
# and further = included; around it may be quotes.
host_environment() {
    file=$host/etc/systemd/system/rancher-system-agent.env
    [ -f "$file" ] || return 0
    while IFS= read -r line || [ -n "$line" ]; do
        name=${line%%=*}
        case $line in
            '#'* | ';'* | [!A-Za-z_]*) continue ;;
            *=*) ;;
            *) continue ;;
        esac
        case $name in
            *[!A-Za-z0-9_]*) continue ;;
        esac
        if eval "[ -n \"\${$name+set}\" ]"; then continue; fi
        unquote "${line#*=}"
        export "$name=$REPLY"
    done <"$file"
}

# unquote VALUE
unquote() {
    REPLY=$1
    case $REPLY in
        \"*\")
            REPLY=${REPLY#\"}
            REPLY=${REPLY%\"}
            # The x keeps a newline at the end, which $(...) would take away.
            REPLY=$(printf '%sx' "$REPLY" | sed 's/\\\(["\\`$]\)/\1/g')
            REPLY=${REPLY%x}
            ;;
        \'*\')
            REPLY=${REPLY#\'}
            REPLY=${REPLY%\'}
            ;;
    esac
}

main() {
    set -eu
    umask 077
    host=${SUC_HOST:-/host}
    here=$(cd "$(dirname "$0")" && pwd)
    staging=''
    trap cleanup EXIT
    trap 'exit 129' HUP
    trap 'exit 130' INT
    trap 'exit 143' TERM
    [ -d "$host/etc" ] || die "$host is not the root of a host; the Job has to mount it there"
    host_environment
    if [ "${UNINSTALL:-}" = true ]; then
        info 'removing the agent'
        chroot "$host" /bin/sh -c "$(cat "$here/system-agent-uninstall.sh")"
        return 0
    fi
    node_roles
    stage
    CATTLE_AGENT_BINARY_LOCAL=true CATTLE_AGENT_BINARY_LOCAL_LOCATION=$inside/rancher-system-agent
    CATTLE_AGENT_UNINSTALL_LOCAL=true CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION=$inside/system-agent-uninstall.sh
    export CATTLE_AGENT_BINARY_LOCAL CATTLE_AGENT_BINARY_LOCAL_LOCATION
    export CATTLE_AGENT_UNINSTALL_LOCAL CATTLE_AGENT_UNINSTALL_LOCAL_LOCATION
    info 'installing the agent'
    chroot "$host" /bin/sh "$inside/install.sh"
}

{ main "$@"; }
