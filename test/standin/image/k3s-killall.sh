#!/bin/sh
# Stops everything of the stand-in k3s on this host and leaves its data. The components end with their server; what is
# started from the same binary beside it (kubectl, say) is ended too.
set -eu

main() {
	bin_dir=$(cd "$(dirname "$0")" && pwd)
	for unit in k3s k3s-agent; do
		systemctl stop "$unit.service" 2>/dev/null || true
	done
	for exe in /proc/[0-9]*/exe; do
		case $(readlink "$exe" 2>/dev/null) in
		"$bin_dir/k3s" | "$bin_dir/k3s (deleted)")
			pid=${exe#/proc/}
			kill -KILL "${pid%/exe}" 2>/dev/null || true
			;;
		esac
	done
	rm -rf /run/k3s-standin
}

main "$@"
