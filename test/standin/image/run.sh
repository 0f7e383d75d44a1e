#!/bin/sh
# run.sh of the stand-in installer image for k3s: what a plan's install instruction runs. The agent has unpacked the
# image into a work directory, named it in CATTLE_AGENT_EXECUTION_PWD and put it on PATH.
#
# It puts the binary in place, runs installer.sh, which writes the unit and restarts the service when there is a reason
# to, and writes the restart stamp last, so that a run cut off anywhere is made up for by the next one. Each run leaves
# one line when it starts and one when it ends in runs.log, so that a test can count them.
set -eu

RUNS_DIR=${STANDIN_RUNS_DIR:-/var/lib/rancher/k3s-standin}

main() {
	work=${CATTLE_AGENT_EXECUTION_PWD:-$(cd "$(dirname "$0")" && pwd)}
	bin_dir=${INSTALL_K3S_BIN_DIR:-/usr/local/bin}
	stamp_file=${K3S_DATA_DIR:-/var/lib/rancher/k3s}/restart_stamp
	RESTART_STAMP=${RESTART_STAMP:-}

	note start
	trap 'note end "exit=$?"' EXIT
	trap 'exit 130' INT
	trap 'exit 143' TERM HUP

	if ! cmp -s "$work/k3s" "$bin_dir/k3s"; then
		install_binary
		INSTALL_K3S_FORCE_RESTART=true
	fi
	if [ -n "$RESTART_STAMP" ] && [ "$RESTART_STAMP" != "$(cat "$stamp_file" 2>/dev/null)" ]; then
		INSTALL_K3S_FORCE_RESTART=true
	fi
	export INSTALL_K3S_FORCE_RESTART="${INSTALL_K3S_FORCE_RESTART:-}"
	export INSTALL_K3S_SKIP_DOWNLOAD=true INSTALL_K3S_SKIP_SELINUX_RPM=true INSTALL_K3S_SELINUX_WARN=true
	sh "$work/installer.sh" || exit 1
	if [ -n "$RESTART_STAMP" ]; then
		write_stamp
	fi
}

# install_binary replaces the binary at once: a running k3s keeps its old one until it is restarted.
install_binary() {
	mkdir -p "$bin_dir"
	cp "$work/k3s" "$bin_dir/.k3s.new"
	chmod 0755 "$bin_dir/.k3s.new"
	mv -f "$bin_dir/.k3s.new" "$bin_dir/k3s"
}

write_stamp() {
	mkdir -p "${stamp_file%/*}"
	printf '%s' "$RESTART_STAMP" >"$stamp_file.new"
	mv -f "$stamp_file.new" "$stamp_file"
}

# note appends one line about this run; the process id joins its two lines.
note() {
	mkdir -p "$RUNS_DIR"
	printf '%s %s pid=%s stamp=%s attempt=%s%s\n' "$1" "$(date -u +%Y-%m-%dT%H:%M:%SZ)" "$$" "${RESTART_STAMP:--}" \
		"${CATTLE_AGENT_ATTEMPT_NUMBER:--}" "${2:+ $2}" >>"$RUNS_DIR/runs.log"
}

main "$@"
