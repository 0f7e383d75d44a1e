#!/bin/sh
# installer.sh of the stand-in k3s: unit, environment file and helpers for the binary that is already in place, with
# the variables of the real install script that a plan may set (INSTALL_K3S_EXEC, _NAME, _BIN_DIR, _SYSTEMD_DIR,
# _SKIP_ENABLE, _SKIP_START, _FORCE_RESTART). The service is started or restarted only when it is forced or the binary,
# the unit or the environment changed, and then this script returns once the service is up, or fails with it.
set -eu

main() {
	bin_dir=${INSTALL_K3S_BIN_DIR:-/usr/local/bin}
	unit_dir=${INSTALL_K3S_SYSTEMD_DIR:-/etc/systemd/system}
	here=$(cd "$(dirname "$0")" && pwd)

	[ -x "$bin_dir/k3s" ] || fail "$bin_dir/k3s is not there; run.sh puts it in place"
	command -v systemctl >/dev/null || fail "systemctl is not on PATH; the stand-in needs systemd"
	choose_command
	unit=$unit_dir/$name.service
	before=$(hashes)
	write_helpers
	write_environment
	write_unit
	after=$(hashes)

	if ! is_true "${INSTALL_K3S_SKIP_ENABLE:-}"; then
		systemctl enable "$name.service"
	fi
	systemctl daemon-reload
	if is_true "${INSTALL_K3S_SKIP_START:-}"; then
		say "not started, as INSTALL_K3S_SKIP_START says"
	elif [ "$before" = "$after" ] && ! is_true "${INSTALL_K3S_FORCE_RESTART:-}"; then
		say "nothing changed, $name is left as it is"
	else
		say "starting $name"
		systemctl restart "$name.service"
	fi
}

# choose_command reads INSTALL_K3S_EXEC, "server" or "agent" and flags, as the real one does: flags alone mean server,
# and agent when K3S_URL says which server to join.
choose_command() {
	# The value is a command line, and is split into words.
	# shellcheck disable=SC2086
	set -- ${INSTALL_K3S_EXEC:-}
	case ${1:-} in
	server | agent)
		role=$1
		shift
		;;
	*) if [ -n "${K3S_URL:-}" ]; then role=agent; else role=server; fi ;;
	esac
	flags="$*"
	if [ -n "${INSTALL_K3S_NAME:-}" ]; then
		name=k3s-$INSTALL_K3S_NAME
	elif [ "$role" = agent ]; then
		name=k3s-agent
	else
		name=k3s
	fi
	case $name in
	k3s) other=k3s-agent ;;
	*) other=k3s ;;
	esac
}

hashes() {
	sha256sum "$bin_dir/k3s" "$unit" "$unit.env" 2>/dev/null || true
}

# write_helpers leaves the scripts that stop and remove all this, and kubectl under its own name unless there is one.
write_helpers() {
	cp "$here/k3s-killall.sh" "$bin_dir/k3s-killall.sh"
	cp "$here/k3s-uninstall.sh" "$bin_dir/$name-uninstall.sh"
	chmod 0755 "$bin_dir/k3s-killall.sh" "$bin_dir/$name-uninstall.sh"
	if [ ! -e "$bin_dir/kubectl" ] && ! command -v kubectl >/dev/null; then
		ln -s k3s "$bin_dir/kubectl"
	fi
}

# write_environment keeps the variables k3s reads, in a file only root may read: they hold the token.
write_environment() {
	mkdir -p "$unit_dir"
	rm -f "$unit.env.new"
	(umask 077 && env | LC_ALL=C sort | while IFS= read -r line; do
		case $line in
		K3S_*=* | CONTAINERD_*=* | HTTP_PROXY=* | HTTPS_PROXY=* | NO_PROXY=* | http_proxy=* | https_proxy=* | no_proxy=*)
			printf '%s="%s"\n' "${line%%=*}" "$(printf '%s' "${line#*=}" | sed 's/[\\"]/\\&/g')"
			;;
		esac
	done >"$unit.env.new")
	chmod 0600 "$unit.env.new"
	mv -f "$unit.env.new" "$unit.env"
}

write_unit() {
	cat >"$unit.new" <<-EOF
		[Unit]
		Description=k3s (drover's stand-in, for tests)
		Wants=network-online.target
		After=network-online.target

		[Service]
		Type=notify
		EnvironmentFile=-/etc/default/%N
		EnvironmentFile=-/etc/sysconfig/%N
		EnvironmentFile=-$unit.env
		ExecStartPre=/bin/sh -c '! systemctl is-active --quiet $other.service'
		ExecStart=$bin_dir/k3s $role${flags:+ $flags}
		KillMode=process
		Delegate=yes
		LimitNOFILE=1048576
		TasksMax=infinity
		TimeoutStartSec=0
		Restart=always
		RestartSec=5s

		[Install]
		WantedBy=multi-user.target
	EOF
	chmod 0644 "$unit.new"
	mv -f "$unit.new" "$unit"
}

is_true() { [ "$1" = true ]; }
say() { echo "k3s stand-in: $*"; }
fail() {
	echo "k3s stand-in: $*" >&2
	exit 1
}

main "$@"
