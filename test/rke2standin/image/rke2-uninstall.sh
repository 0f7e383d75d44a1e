#!/bin/sh
# rke2-uninstall.sh of RKE2's stand-in: stops everything that RKE2 runs on this host and removes it with its data. What is
# the agent's (/etc/rancher/agent, /var/lib/rancher/agent, /var/lib/rancher/capr) stays.
set -u

DATA_DIR=${RKE2_DATA_DIR:-/var/lib/rancher/rke2}
PREFIX=$(cd "$(dirname "$0")/.." && pwd)

main() {
	if [ "$(id -u)" -ne 0 ]; then
		echo "rke2-uninstall.sh: it has to run as root" >&2
		exit 1
	fi
	"$PREFIX/bin/rke2-killall.sh"
	for unit in rke2-server rke2-agent; do
		systemctl disable "$unit.service" 2>/dev/null
		systemctl reset-failed "$unit.service" 2>/dev/null
		for dir in "$PREFIX/lib/systemd/system" /etc/systemd/system; do
			rm -f "$dir/$unit.service" "$dir/$unit.env" "$dir/rke2-sa.env"
		done
	done
	systemctl daemon-reload
	rm -rf /etc/rancher/rke2 /etc/rancher/node /etc/cni /opt/cni/bin "$PREFIX/share/rke2"
	# Their directories may be mounts, which cannot be removed.
	empty "$DATA_DIR" /var/lib/kubelet /var/log/pods /var/log/containers
	rmdir /etc/rancher 2>/dev/null
	rm -f "$PREFIX/bin/rke2" "$PREFIX/bin/rke2-killall.sh" "$PREFIX/bin/rke2-uninstall.sh"
	exit 0
}

empty() {
	for dir in "$@"; do
		if [ -d "$dir" ]; then
			find "$dir" -mindepth 1 -delete
			rmdir "$dir" 2>/dev/null
		fi
	done
}

main
