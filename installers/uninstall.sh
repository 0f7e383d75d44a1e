# Leaves a host clean of the distribution $1 with its data directory $2: its own scripts $3 (uninstall) and
# $4 (killall) from the first of the directories after $5 that has them, then what they leave. $5 is yes when
# the agent goes too.
name=$1 data=$2 script=$3 killall=$4 agent=$5
shift 5

# mounts are the mount points below the directory $1, the deepest first. The kernel writes a space as \040, printf reads
# it as \0040; the directories of this script have none.
mounts() {
    while read -r _ at _; do
        case $at in "$1"/*) printf '%b\n' "$(printf '%s' "$at" | sed 's/\\\([0-7]\{3\}\)/\\0\1/g')" ;; esac
    done </proc/self/mounts | sort -r
}

# clean removes the directory $1. What is mounted below it is another program's, or a pod's volume on another host: it is
# unmounted first, and nothing is removed where that fails. The directory may be a mount point of its owner; it stays
# then, empty.
clean() {
    [ -e "$1" ] || return 0
    mounts "$1" | while read -r at; do
        umount "$at" 2>/dev/null || umount -l "$at" 2>/dev/null || true
    done
    left=$(mounts "$1")
    if [ -n "$left" ]; then
        echo "$1 stays, as these cannot be unmounted: $left"
        return 1
    fi
    rm -rf "$1" 2>/dev/null
    if [ -n "$(ls -A "$1" 2>/dev/null)" ]; then
        echo "$1 cannot be removed"
        return 1
    fi
}

# What runs holds mounts. The distribution's own uninstaller removes directories with what is mounted in them, so
# that has to go before.
installed=
for dir in "$@"; do
    if [ -x "$dir/$killall" ]; then
        installed=yes
        "$dir/$killall" || true
    fi
done
for dir in "$@"; do
    if [ -x "$dir/$script" ]; then
        installed=yes
        clean /var/lib/kubelet || exit 1
        echo "running $dir/$script"
        "$dir/$script" || { echo "$dir/$script failed with $?"; exit 1; }
        break
    fi
done
for dir in "$@"; do
    # It is still there when the uninstaller did not end its work.
    if [ -x "$dir/$killall" ]; then "$dir/$killall" || true; fi
done
for unit in "$name" "$name-agent" "$name-server"; do
    if systemctl is-active --quiet "$unit"; then echo "$unit still runs"; exit 1; fi
done
# What the scripts of the distribution do not know of, or leave. Where it was never installed, a kubelet is another's.
if [ "$installed" = yes ]; then
    for dir in /run/k3s /run/flannel /var/lib/kubelet /var/lib/cni /var/log/pods /var/log/containers; do
        clean "$dir" || exit 1
    done
    # Links of network plugins, of which a killall knows those of its own distribution's alone.
    for link in cni0 flannel.1 flannel-v6.1 flannel-wg flannel-wg-v6 kube-ipvs0 nodelocaldns vxlan.calico vxlan-v6.calico cilium_host cilium_vxlan; do
        if [ -e "/sys/class/net/$link" ]; then ip link delete "$link" || echo "the network link $link stays"; fi
    done
fi
for dir in "/etc/rancher/$name" "$data" /etc/rancher/node /etc/rancher/agent/registries.yaml /var/lib/rancher/capr; do
    clean "$dir" || exit 1
done
rmdir /etc/rancher/agent /etc/rancher /var/lib/rancher 2>/dev/null || true
# Of the kubelet empty slices stay. Of containerd, whose shims are killed, sockets stay on which no process listens, and what
# runc knows of containers of Kubernetes; another containerd keeps its own.
systemctl stop kubepods.slice 2>/dev/null || true
for socket in /run/nri/nri.sock /run/containerd/s/*; do
    grep -q " $socket\$" /proc/net/unix || rm -f "$socket"
done
# Each shim has the name of its containers' namespace as an argument.
grep -qszx 'k8s[.]io' /proc/[0-9]*/cmdline || rm -rf /run/containerd/runc/k8s.io
rmdir /run/nri /run/containerd/runc /run/containerd/s /run/containerd 2>/dev/null || true
# Uninstallers remove their files one by one, and not the directories that came with them.
for dir in "$@"; do rmdir "${dir%/bin}/lib/systemd/system" "${dir%/bin}/lib/systemd" 2>/dev/null; done
if [ -d "/opt/$name" ]; then find "/opt/$name" -depth -type d -exec rmdir {} + 2>/dev/null; fi
if [ "$agent" = yes ]; then
    # The agent that runs this has to report first: a unit of its own removes it in a minute, if it is still registered as
    # now. A host that is registered again by then has a new agent, which stays. No $ in the unit: systemd has its own.
    unit=rancher-system-agent-removal sum=/run/rancher-system-agent-removal.sum
    config=$(sed -n 's|^Environment="\{0,1\}CATTLE_AGENT_CONFIG=\(/[^" ]*\)"\{0,1\} *$|\1|p' /etc/systemd/system/rancher-system-agent.service 2>/dev/null | head -n 1)
    info=$(sed -n 's/^connectionInfoFile: *"\{0,1\}\([^" ]*\).*/\1/p' "$config" 2>/dev/null | head -n 1)
    for own in /usr/local/bin/rancher-system-agent-uninstall.sh /opt/rancher-system-agent/bin/rancher-system-agent-uninstall.sh /usr/bin/rancher-system-agent-uninstall.sh; do
        if [ -x "$own" ]; then
            # That of an earlier run of this.
            systemctl stop "$unit.timer" 2>/dev/null
            if [ -n "$info" ] && sha256sum "$info" >"$sum"; then
                systemd-run --collect --unit="$unit" --on-active=60s /bin/sh -c "if sha256sum -c $sum; then rm -f $sum; exec $own; fi; echo the host is registered again, so the agent stays; rm -f $sum" || exit 1
            else
                systemd-run --collect --unit="$unit" --on-active=60s "$own" || exit 1
            fi
            echo "the agent is removed in a minute"
            exit 0
        fi
    done
    echo "rancher-system-agent-uninstall.sh is not on this host; the agent stays"
fi
exit 0
