#!/bin/sh
# Removes rancher-system-agent from this host: unit, environment file, state, configuration, binary, and this script.
# What plans created stays, first of all the cluster's own configuration: links into the agent's directory become files
# before that directory goes.
#
# The directories are those of CATTLE_AGENT_CONFIG_DIR, CATTLE_AGENT_VAR_DIR and CATTLE_AGENT_BIN_PREFIX where set,
# else those that the installed unit and configuration name, else the installer's defaults.
#
# POSIX sh (dash, busybox ash); everything is a function, so that a truncated copy does nothing. CATTLE_ROOT, which only
# tests set, stands before every path of the host.

UNIT=rancher-system-agent.service
UPDATE_UNIT=rancher-system-agent-update.service
UNIT_DIR=/etc/systemd/system

info() { printf 'rancher-system-agent: %s\n' "$*"; }

die() {
    printf 'rancher-system-agent: error: %s\n' "$*" >&2
    exit 1
}

# first_match FILE SED: the first line that the sed script prints
first_match() {
    REPLY=''
    [ ! -f "$1" ] || REPLY=$(sed -n "$2" "$1" | head -n 1)
}

# own_dir NAME PATH MARK ...: refuses what could not be a directory of the agent alone, or has none of its marks inside
own_dir() {
    variable=$1
    REPLY=$2
    shift 2
    while [ "$REPLY" != "${REPLY%/}" ]; do REPLY=${REPLY%/}; done
    case $REPLY in
        *[!A-Za-z0-9._/@+-]* | *//* | */./* | */../* | */. | */..) ;;
        /etc/rancher | /etc/rancher/k3s | /etc/rancher/k3s/* | /etc/rancher/rke2 | /etc/rancher/rke2/* | \
            /var/lib | /var/lib/rancher | /var/lib/rancher/k3s | /var/lib/rancher/k3s/* | \
            /var/lib/rancher/rke2 | /var/lib/rancher/rke2/* | /usr/* | /bin/* | /sbin/* | /lib/* | \
            /boot/* | /dev/* | /proc/* | /sys/* | /run/systemd | /etc/systemd | /etc/systemd/*) ;;
        /*/*)
            [ -d "$CATTLE_ROOT$REPLY" ] || return 0
            for mark; do
                [ ! -e "$CATTLE_ROOT$REPLY/$mark" ] || return 0
            done
            ;;
    esac
    die "$REPLY is not a directory of the agent alone ($variable); nothing was removed"
}

locate() {
    unit_file=$CATTLE_ROOT$UNIT_DIR/$UNIT

    prefix=${CATTLE_AGENT_BIN_PREFIX:-}
    if [ -z "$prefix" ]; then
        first_match "$unit_file" 's|^ExecStart=\(/.*\)/bin/rancher-system-agent sentinel *$|\1|p'
        prefix=$REPLY
    fi
    if [ -z "$prefix" ]; then
        for prefix in /opt/rancher-system-agent /usr /usr/local; do
            [ ! -e "$CATTLE_ROOT$prefix/bin/rancher-system-agent" ] || break
        done
    fi
    prefix=${prefix%/}

    config_dir=${CATTLE_AGENT_CONFIG_DIR:-}
    if [ -z "$config_dir" ]; then
        first_match "$unit_file" 's|^Environment="\{0,1\}CATTLE_AGENT_CONFIG=\(/[^"]*\)/config\.yaml"\{0,1\} *$|\1|p'
        config_dir=$REPLY
    fi
    if [ -z "$config_dir" ]; then
        config_dir=${RANCHER_SYSTEM_AGENT_CONFIG_DIR:-/var/lib/rancher/system-agent/etc}
        [ ! -e "$CATTLE_ROOT/etc/rancher/agent/config.yaml" ] || config_dir=/etc/rancher/agent
    fi

    var_dir=${CATTLE_AGENT_VAR_DIR:-}
    if [ -z "$var_dir" ]; then
        first_match "$CATTLE_ROOT$config_dir/config.yaml" \
            's|^interlockDirectory: *"\{0,1\}\(/[^" ]*\)/interlock"\{0,1\} *$|\1|p'
        var_dir=$REPLY
    fi
    if [ -z "$var_dir" ]; then
        var_dir=/var/lib/rancher/agent
        [ ! -d "$CATTLE_ROOT/etc/rancher/agent/var" ] || var_dir=/etc/rancher/agent/var
    fi

    own_dir CATTLE_AGENT_CONFIG_DIR "$config_dir" config.yaml cattle-id && config_dir=$REPLY
    own_dir CATTLE_AGENT_VAR_DIR "$var_dir" interlock applied work plans && var_dir=$REPLY
    [ ! -e "$CATTLE_ROOT$prefix/bin/rancher-system-agent" ] || [ -w "$CATTLE_ROOT$prefix/bin" ] ||
        die "$prefix/bin cannot be written; on a transactional host run this in: transactional-update shell"
}

stop_agent() {
    # An update under way would start the agent again.
    [ ! -e "$CATTLE_ROOT$UNIT_DIR/$UPDATE_UNIT" ] || systemctl disable --now "$UPDATE_UNIT" ||
        die "cannot stop $UPDATE_UNIT; nothing was removed"
    # A unit that is not there is fine.
    systemctl stop "$UNIT" 2>/dev/null || [ ! -e "$unit_file" ] || die "cannot stop $UNIT; nothing was removed"
}

# keep_links: a running cluster reads its configuration through links into the agent's directory
keep_links() {
    config_real=$(cd -P "$CATTLE_ROOT$config_dir" 2>/dev/null && pwd -P) || return 0
    for tree in "$CATTLE_ROOT/etc/rancher/k3s" "$CATTLE_ROOT/etc/rancher/rke2"; do
        [ -e "$tree" ] || [ -L "$tree" ] || continue
        links=$(find "$tree" -type l) || die "cannot read $tree; nothing was removed"
        while IFS= read -r link; do
            [ -z "$link" ] || keep_link "$link"
        done <<LINKS
$links
LINKS
    done
}

# keep_link LINK: a plain copy in its place, if it points into the agent's directory
keep_link() {
    target=$(readlink "$1")
    resolved=$(readlink -f "$1") || resolved=''
    case $target/ in
        "$CATTLE_ROOT$config_dir"/* | "$config_real"/*) ;;
        *)
            case $resolved/ in
                "$config_real"/*) ;;
                *) return 0 ;;
            esac
            ;;
    esac
    shown=${1#"$CATTLE_ROOT"}
    if [ ! -e "$1" ]; then
        rm -f "$1" || die "cannot remove the dangling link $shown; nothing else was removed"
        info "removed $shown, a link to nothing"
        return 0
    fi
    copy=$(mktemp -d "${1%/*}/.${1##*/}.XXXXXX") || die "cannot write beside $shown; nothing was removed"
    if ! cp -R -L "$1" "$copy/new" || ! close_to_others "$copy/new"; then
        rm -rf "$copy"
        die "cannot copy the target of $shown; nothing was removed"
    fi
    sync
    # A directory cannot be renamed over a link, a file can.
    if [ -d "$copy/new" ]; then rm -f "$1"; fi
    mv -f "$copy/new" "$1" || die "cannot replace $shown; its content is in $copy/new"
    rmdir "$copy"
    info "kept $shown as a plain file"
}

close_to_others() {
    chown -R 0:0 "$1" && find "$1" -type f -exec chmod 0600 {} + && find "$1" -type d -exec chmod 0700 {} +
}

# remove PATH ...
remove() {
    for path; do
        rm -rf "$CATTLE_ROOT$path" || die "cannot remove $path; run this again"
    done
}

main() {
    set -euf
    umask 077
    LC_ALL=C && export LC_ALL
    CATTLE_ROOT=${CATTLE_ROOT:-}
    [ $# -eq 0 ] || die "unknown argument \"$1\"; there are none"
    [ "$(id -u)" = 0 ] || die "must run as root; use sudo"
    command -v systemctl >/dev/null || die "systemctl is not installed on this host, but needed"
    locate
    stop_agent
    keep_links
    systemctl disable "$UNIT" 2>/dev/null || :
    # In this order, because a second run, after an interruption, finds one through the other.
    remove "$var_dir" "$config_dir"
    # Only the agent reads it, and it may hold credentials.
    remove /etc/rancher/agent/registries.yaml
    rmdir "$CATTLE_ROOT/etc/rancher/agent" 2>/dev/null || :
    if [ "$config_dir" = /var/lib/rancher/system-agent/etc ]; then
        rmdir "$CATTLE_ROOT/var/lib/rancher/system-agent" 2>/dev/null || :
    fi
    remove "$UNIT_DIR/$UNIT" "$UNIT_DIR/rancher-system-agent.env" "$UNIT_DIR/$UPDATE_UNIT"
    systemctl daemon-reload || info 'systemctl daemon-reload failed; run it later'
    systemctl reset-failed "$UNIT" 2>/dev/null || :
    remove "$prefix/bin/rancher-system-agent.previous" "$prefix/bin/rancher-system-agent.new" \
        "$prefix/bin/rancher-system-agent" "$prefix/bin/rancher-system-agent-uninstall.sh"
    info "removed the agent with $config_dir and $var_dir"
    info 'left as they are: all that plans created or still run (files, services, the cluster), and this machine on' \
        'the server, where it can be removed now'
}

{ main "$@"; }
