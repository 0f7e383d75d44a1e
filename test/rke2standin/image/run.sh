#!/bin/sh
# run.sh of the installer image of RKE2's stand-in: what a plan's install instruction runs. The agent has unpacked the
# image into a work directory, named it in CATTLE_AGENT_EXECUTION_PWD and put it on PATH.
#
# It behaves as the run.sh of Rancher's image does, weaknesses included: the new stamp is written before the restart, the
# restart is not waited for, and so a service that then fails is seen by probes alone.
set -eu

# A test of this script gives it a root directory of its own.
ROOT=${STANDIN_ROOT:-}

main() {
	work=${CATTLE_AGENT_EXECUTION_PWD:-$(cd "$(dirname "$0")" && pwd)}
	data_dir=${RKE2_DATA_DIR:-/var/lib/rancher/rke2}
	stamp_file=$ROOT$data_dir/system-agent-installer/rke2_restart_stamp
	type=${INSTALL_RKE2_TYPE:-${INSTALL_RKE2_EXEC:-server}}
	unit=rke2-$type
	restart=false

	choose_prefix
	if [ -n "${RESTART_STAMP:-}" ] && [ "$RESTART_STAMP" != "$(cat "$stamp_file" 2>/dev/null)" ]; then
		restart=true
	fi
	INSTALL_RKE2_ARTIFACT_PATH=$work INSTALL_RKE2_TAR_PREFIX=$prefix sh "$work/installer.sh"
	write_environment
	name_environment
	if [ -n "${RESTART_STAMP:-}" ]; then
		mkdir -p "${stamp_file%/*}"
		printf '%s' "$RESTART_STAMP" >"$stamp_file"
	fi
	systemctl daemon-reload
	if [ "${INSTALL_RKE2_SKIP_ENABLE:-}" = true ]; then
		return
	fi
	if [ "$type" = server ] && systemctl is-active --quiet rke2-agent; then
		systemctl stop rke2-agent
		systemctl disable rke2-agent
		systemctl reset-failed rke2-agent || true
	fi
	systemctl enable "$unit"
	if [ "${INSTALL_RKE2_SKIP_START:-}" = true ]; then
		return
	fi
	if [ "$restart" = true ]; then
		systemctl --no-block restart "$unit"
	fi
}

# choose_prefix avoids /usr/local where nothing can or should be written to it.
choose_prefix() {
	prefix=/usr/local units=/usr/local/lib/systemd/system
	if mountpoint -q "$ROOT/usr/local" || ! touch "$ROOT/usr/local/.rke2-write-test" 2>/dev/null; then
		prefix=/opt/rke2 units=/etc/systemd/system
	fi
	rm -f "$ROOT/usr/local/.rke2-write-test" 2>/dev/null || true
}

# write_environment keeps the plan's variables for the service; others than before are a reason to restart.
write_environment() {
	env_file=$ROOT$units/rke2-sa.env
	before=$(sha256sum "$env_file" 2>/dev/null || true)
	mkdir -p "${env_file%/*}"
	rm -f "$env_file.new"
	(
		umask 077
		env | sed -nE '/^(RKE2_|(HTTP|HTTPS|NO)_PROXY=|(http|https|no)_proxy=)/p' | sort >"$env_file.new"
	)
	mv -f "$env_file.new" "$env_file"
	if [ "$before" != "$(sha256sum "$env_file")" ]; then
		restart=true
	fi
}

# name_environment lets the unit read them.
name_environment() {
	line="EnvironmentFile=-$units/rke2-sa.env"
	file=$ROOT$units/$unit.service
	if ! grep -qxF "$line" "$file"; then
		sed -i "s|^\[Service\]\$|&\n$line|" "$file"
	fi
}

main "$@"
