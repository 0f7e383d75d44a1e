#!/bin/bash
# Stand-in of rke-tools' entrypoint.sh: the first thing that runs in each of Kubernetes' containers of an RKE1 host. It does
# what the kubelet and kube-proxy need there, and on hosts of a test, and becomes the program that it is given.
set -eu

main() {
	case $(basename "${1:?the command to run is missing}") in
	kubelet)
		choose_iptables
		prepare_kubelet "$@"
		exec "$@" "--cgroup-driver=$(cgroup_driver)"
		;;
	kube-proxy)
		choose_iptables
		# The table of connections is the machine's; in a host of a test its size cannot be set.
		exec "$@" --conntrack-max-per-core=0
		;;
	*)
		exec "$@"
		;;
	esac
}

# choose_iptables takes the variant that this kernel has.
choose_iptables() {
	if ! iptables --wait -t nat -S >/dev/null 2>&1 && iptables-legacy --wait -t nat -S >/dev/null 2>&1; then
		local name
		for name in iptables ip6tables iptables-save ip6tables-save iptables-restore ip6tables-restore; do
			ln -sf "$(command -v xtables-legacy-multi)" "/usr/local/sbin/$name"
		done
	fi
}

prepare_kubelet() {
	if [ -d /host/dev ]; then
		mount --rbind /host/dev /dev
	fi
	if [ -e /host/usr/lib/os-release ]; then
		ln -sf /host/usr/lib/os-release /etc/os-release
	fi
	if [ -n "${RKE_KUBELET_DOCKER_CONFIG:-}" ]; then
		mkdir -p "$(dirname "$RKE_KUBELET_DOCKER_FILE")"
		(umask 077 && echo "$RKE_KUBELET_DOCKER_CONFIG" | base64 -d >"$RKE_KUBELET_DOCKER_FILE")
	fi
	if [ "${RKE_KUBELET_CRIDOCKERD:-}" = true ]; then
		start_cri_dockerd "$@"
	fi
	show_kernel_settings
}

# start_cri_dockerd starts what runs the pods of the kubelet whose command is given, and waits for its socket.
start_cri_dockerd() {
	if [ ! -x /opt/rke-tools/bin/cri-dockerd ]; then
		# Kubelets that do not understand our cri-dockerd have their pods run by the containerd beside Docker.
		ln -sf containerd/containerd.sock /run/cri-dockerd.sock
		return
	fi
	local arg image=
	for arg in "$@"; do
		case $arg in --pod-infra-container-image=*) image=$arg ;; esac
	done
	rm -f /run/cri-dockerd.sock
	/opt/rke-tools/bin/cri-dockerd --network-plugin=cni --cni-conf-dir=/etc/cni/net.d --cni-bin-dir=/opt/cni/bin \
		${image:+"$image"} --container-runtime-endpoint=unix:///run/cri-dockerd.sock "--cgroup-driver=$(cgroup_driver)" &
	local try
	for try in $(seq 100); do
		if [ -S /run/cri-dockerd.sock ]; then
			return
		fi
		sleep 0.2
	done
	echo "cri-dockerd does not listen after $try tries" >&2
}

# show_kernel_settings shows the kubelet the settings it wants. In a host of a test it would else change the kernel of the
# machine, and of all other hosts.
show_kernel_settings() {
	mkdir -p /tmp/kernel-settings
	local setting file
	for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1; do
		file=/tmp/kernel-settings/$(basename "${setting%=*}")
		echo "${setting#*=}" >"$file"
		mount --bind "$file" "/proc/sys/${setting%=*}"
	done
}

# cgroup_driver is Docker's, with which the kubelet has to agree.
cgroup_driver() {
	local driver
	driver=$(curl --silent --unix-socket /var/run/docker.sock http://docker/info | sed -n 's/.*"CgroupDriver":"\([a-z]*\)".*/\1/p')
	echo "${driver:-cgroupfs}"
}

main "$@"
