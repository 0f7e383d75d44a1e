# Leaves a host clean of the distribution $1 with its data directory $2: its own scripts $3 (uninstall) and
# $4 (killall) from the first of the directories after $5 that has them, then what they leave. $5 is yes when
# the agent goes too.
name=$1 data=$2 script=$3 killall=$4 agent=$5
shift 5
for dir in "$@"; do
    if [ -x "$dir/$script" ]; then
        echo "running $dir/$script"
        "$dir/$script" || { echo "$dir/$script failed with $?"; exit 1; }
        break
    fi
done
for dir in "$@"; do
    # It is still there when there was nothing to uninstall, or the uninstaller did not end its work.
    if [ -x "$dir/$killall" ]; then "$dir/$killall" || true; fi
done
for unit in "$name" "$name-agent" "$name-server"; do
    if systemctl is-active --quiet "$unit"; then echo "$unit still runs"; exit 1; fi
done
# What the scripts of the distribution do not know of.
rm -rf "/etc/rancher/$name" "$data" /etc/rancher/node /etc/rancher/agent/registries.yaml /var/lib/rancher/capr
rmdir /etc/rancher/agent /etc/rancher /var/lib/rancher 2>/dev/null || true
# Of the kubelet empty slices stay, and of containerd a socket on which nobody listens; another containerd keeps its own.
systemctl stop kubepods.slice 2>/dev/null || true
grep -q '/run/nri/nri.sock$' /proc/net/unix || rm -f /run/nri/nri.sock
rmdir /run/nri /run/containerd 2>/dev/null || true
if [ "$agent" = yes ]; then
    # The agent that runs this has to report first: a unit of its own removes it in a minute.
    for own in /usr/local/bin/rancher-system-agent-uninstall.sh /opt/rancher-system-agent/bin/rancher-system-agent-uninstall.sh /usr/bin/rancher-system-agent-uninstall.sh; do
        if [ -x "$own" ]; then
            systemd-run --collect --unit=rancher-system-agent-removal --on-active=60s "$own" || exit 1
            echo "the agent is removed in a minute"
            exit 0
        fi
    done
    echo "rancher-system-agent-uninstall.sh is not on this host; the agent stays"
fi
exit 0
