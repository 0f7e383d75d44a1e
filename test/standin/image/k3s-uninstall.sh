#!/bin/sh
# Removes the stand-in k3s from this host: services, binary, configuration and data. Installed as k3s-uninstall.sh for
# a server and as k3s-agent-uninstall.sh for an agent. It leaves /etc/rancher/agent, and the test's own record in
# /var/lib/rancher/k3s-standin. A data directory elsewhere is removed when K3S_DATA_DIR names it.
set -eu

main() {
	bin_dir=$(cd "$(dirname "$0")" && pwd)
	name=$(basename "$0" -uninstall.sh)
	unit_dir=${INSTALL_K3S_SYSTEMD_DIR:-/etc/systemd/system}

	"$bin_dir/k3s-killall.sh"
	systemctl disable "$name.service" 2>/dev/null || true
	systemctl reset-failed "$name.service" 2>/dev/null || true
	rm -f "$unit_dir/$name.service" "$unit_dir/$name.service.env"
	systemctl daemon-reload
	rm -f "$bin_dir/$name-uninstall.sh"
	if [ -e "$unit_dir/k3s.service" ] || [ -e "$unit_dir/k3s-agent.service" ]; then
		return 0 # the other role is still installed and needs the rest
	fi
	if [ "$(readlink "$bin_dir/kubectl" 2>/dev/null)" = k3s ]; then
		rm -f "$bin_dir/kubectl"
	fi
	rm -rf /etc/rancher/k3s /etc/rancher/node /run/k3s "${K3S_DATA_DIR:-/var/lib/rancher/k3s}"
	rm -f "$bin_dir/k3s" "$bin_dir/k3s-killall.sh"
}

main "$@"
