#!/bin/sh
# rke2-killall.sh of RKE2's stand-in: stops everything that RKE2 runs on this host, and leaves its data.
set -u

DATA_DIR=${RKE2_DATA_DIR:-/var/lib/rancher/rke2}

main() {
	if [ "$(id -u)" -ne 0 ]; then
		echo "rke2-killall.sh: it has to run as root" >&2
		exit 1
	fi
	# They would be started again otherwise, by a kubelet that is.
	rm -f "$DATA_DIR"/agent/pod-manifests/*.yaml
	for unit in rke2-server rke2-agent; do
		if systemctl cat "$unit.service" >/dev/null 2>&1; then
			systemctl stop "$unit.service"
		fi
	done
	kill_pods
	remove_cgroups
	unmount_below /run/k3s
	unmount_below /var/lib/kubelet/pods
	unmount_below /run/netns/cni-
	rm -rf /run/k3s
	remove_networks
	remove_rules iptables
	remove_rules ip6tables
}

# kill_pods kills each container's shim and what it has started.
kill_pods() {
	# shellcheck disable=SC2046 # one word a process
	kill_trees $(pgrep -f "^$DATA_DIR/data/[^/]*/bin/containerd-shim|^$DATA_DIR/bin/containerd-shim")
	# A supervisor that a command line started has a containerd and a kubelet that no unit stops.
	pkill -KILL -f "^$DATA_DIR/bin/kubelet " || true
	pkill -KILL -x -f "containerd -c $DATA_DIR/.*" || true
}

kill_trees() {
	for process in "$@"; do
		# shellcheck disable=SC2046
		set -- $(pgrep -P "$process")
		kill -KILL "$process" 2>/dev/null
		kill_trees "$@"
	done
}

# remove_cgroups removes those of killed containers. On cgroup v1 nobody else does, and the next kubelet waits some seconds
# for each of them.
remove_cgroups() {
	find /sys/fs/cgroup -depth -type d -path '*/kubepods*' -exec rmdir {} + 2>/dev/null
}

# unmount_below unmounts what is mounted at paths that begin so, the deepest first.
unmount_below() {
	awk -v path="$1" 'index($2, path) == 1 { print $2 }' /proc/self/mounts | sort -r | xargs -r -n 1 umount -f
}

remove_networks() {
	ip netns list 2>/dev/null | awk '/^cni-/ { print $1 }' | xargs -r -n 1 ip netns delete
	ip -o link show master cni0 2>/dev/null | awk -F '[ :@]+' '{ print $2 }' | while read -r link; do
		ip link delete "$link"
	done
	for link in cni0 flannel.1 flannel-v6.1 vxlan.calico cilium_vxlan cilium_net kube-ipvs0; do
		ip link delete "$link" 2>/dev/null
	done
	rm -rf /var/lib/cni/* /run/flannel
}

# remove_rules takes out the rules of kube-proxy and of the network, and leaves others.
remove_rules() {
	if command -v "$1-save" >/dev/null; then
		"$1-save" | grep -v -e KUBE- -e CNI- -e cali -e CILIUM_ -e flannel -i | "$1-restore"
	fi
}

main
