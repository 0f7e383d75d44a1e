#!/bin/sh
# run.sh of the k3s installer image that the tests serve: what a plan's install instruction runs. The agent has unpacked
# the image into a work directory, named it in CATTLE_AGENT_EXECUTION_PWD and put it on PATH.
#
# It behaves as the run.sh of Rancher's image does: binary first, k3s' own install script (installer.sh) next, which
# restarts the service and waits for it, the restart stamp last, so that a run that was cut off is repeated by the next
# one. A server that cannot join because etcd takes one learner at a time is tried again and again.
set -eu

RETRY_SECONDS=${RETRY_SECONDS:-10}

main() {
	work=${CATTLE_AGENT_EXECUTION_PWD:-$(cd "$(dirname "$0")" && pwd)}
	bin_dir=${INSTALL_K3S_BIN_DIR:-/usr/local/bin}
	stamp_file=${K3S_DATA_DIR:-/var/lib/rancher/k3s}/restart_stamp
	unit=k3s
	case ${INSTALL_K3S_EXEC:-} in
	agent*) unit=k3s-agent ;;
	esac
	if [ -n "${INSTALL_K3S_NAME:-}" ]; then
		unit=k3s-$INSTALL_K3S_NAME
	fi

	install_binary
	share_the_disk
	export INSTALL_K3S_SKIP_DOWNLOAD=true INSTALL_K3S_SKIP_SELINUX_RPM=true INSTALL_K3S_SELINUX_WARN=true
	if [ -n "${RESTART_STAMP:-}" ] && [ "$RESTART_STAMP" != "$(cat "$stamp_file" 2>/dev/null)" ]; then
		export INSTALL_K3S_FORCE_RESTART=true
	fi
	begin=$(date +%s)
	until sh "$work/installer.sh"; do
		if [ "$unit" = k3s-agent ] || ! too_many_learners; then
			exit 1
		fi
		echo "etcd has a learner already; trying again in $RETRY_SECONDS seconds"
		sleep "$RETRY_SECONDS"
		begin=$(date +%s)
	done
	if [ -n "${RESTART_STAMP:-}" ]; then
		write_stamp
	fi
}

# install_binary puts k3s in place by a rename: a running one cannot be written to.
install_binary() {
	mkdir -p "$bin_dir"
	cp "$work/k3s" "$bin_dir/.k3s.new"
	chmod 0755 "$bin_dir/.k3s.new"
	mv -f "$bin_dir/.k3s.new" "$bin_dir/k3s"
}

# share_the_disk keeps the kubelet from evicting pods and deleting images when the disk is nearly full: the hosts of a
# test share that of the machine, and what fills it is not theirs.
share_the_disk() {
	mkdir -p "${stamp_file%/*}/agent/etc/kubelet.conf.d"
	cat >"${stamp_file%/*}/agent/etc/kubelet.conf.d/50-test.conf" <<-'END'
		apiVersion: kubelet.config.k8s.io/v1beta1
		kind: KubeletConfiguration
		imageGCHighThresholdPercent: 100
		evictionHard: {imagefs.available: 0%, nodefs.available: 0%}
	END
}

too_many_learners() {
	journalctl --no-pager --unit "$unit" --since "@$begin" 2>/dev/null | grep -q 'too many learner members'
}

write_stamp() {
	mkdir -p "${stamp_file%/*}"
	printf '%s' "$RESTART_STAMP" >"$stamp_file.new"
	mv -f "$stamp_file.new" "$stamp_file"
}

main "$@"
