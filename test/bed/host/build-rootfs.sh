#!/bin/sh
# The recipe of a test host: Debian 12 with a real systemd as PID 1, small, and quick to start in a container.
#
#   build-rootfs.sh tarball FILE    build the root file system with debootstrap (root only) and write it to FILE
#   build-rootfs.sh upgrade         turn the Debian this runs in, a container of debian:12, into a test host
#
# DROVER_DEBIAN_MIRROR names another Debian mirror for debootstrap, DROVER_HOST_PACKAGES what is installed beyond the
# usual. The image's tag is a hash of this file and those packages: every change here makes a new image, so keep
# everything that shapes a host in it.
set -eu

suite=bookworm
mirror=${DROVER_DEBIAN_MIRROR:-http://deb.debian.org/debian}
# What drover's install.sh, its agent and a Kubernetes node expect of a small Debian server.
packages="systemd systemd-sysv dbus curl ca-certificates iproute2 iptables procps openssl kmod ${DROVER_HOST_PACKAGES:-}"

tarball() {
	output=$1
	work=$(mktemp -d "$(dirname "$output")/rootfs.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 130' INT TERM HUP

	# shellcheck disable=SC2086 # a list of names
	include=$(echo $packages | tr ' ' ',')
	if ! debootstrap --variant=minbase --include="$include" "$suite" "$work/root" "$mirror" >"$work/log" 2>&1; then
		echo "build-rootfs: debootstrap of $suite from $mirror failed; its last lines:" >&2
		tail -n 20 "$work/log" >&2
		[ ! -f "$work/root/debootstrap/debootstrap.log" ] || tail -n 20 "$work/root/debootstrap/debootstrap.log" >&2
		exit 1
	fi
	customise "$work/root"
	tar --numeric-owner --sort=name --one-file-system -C "$work/root" -cf "$work/tar" .
	mv "$work/tar" "$output"
}

upgrade() {
	export DEBIAN_FRONTEND=noninteractive
	apt-get update -q
	# shellcheck disable=SC2086 # a list of names
	apt-get install -q --yes --no-install-recommends $packages
	customise /
	rm -f /build-rootfs.sh
}

customise() {
	root=${1%/}
	trim "$root"
	identity "$root"
	units "$root"
	journal "$root"
	boot_script "$root"
}

# trim removes what no test reads: package lists and archives, manuals, translations.
trim() {
	rm -rf "$1"/var/cache/apt/* "$1"/var/lib/apt/lists/* "$1"/var/log/apt "$1"/var/log/*.log
	rm -rf "$1"/usr/share/doc/* "$1"/usr/share/man/* "$1"/usr/share/locale/* "$1"/usr/share/info/*
	rm -rf "$1"/debootstrap
}

# identity leaves the identity of a host to its first boot: an empty machine-id (not a missing one, which would enable
# every unit again) is filled by systemd with a random one.
identity() {
	: >"$1/etc/machine-id"
	rm -f "$1/var/lib/dbus/machine-id" "$1/etc/fstab"
	mkdir -p "$1/etc/systemd/system" "$1/var/lib/dbus"
	ln -s /etc/machine-id "$1/var/lib/dbus/machine-id"
}

# units masks what a container has no hardware for, what would change the kernel all hosts share, and timers that only
# make noise.
units() {
	for unit in \
		console-getty.service container-getty@.service getty@.service getty.target getty-static.service serial-getty@.service \
		systemd-udevd.service systemd-udevd-kernel.socket systemd-udevd-control.socket systemd-udev-trigger.service \
		systemd-udev-settle.service systemd-hwdb-update.service \
		systemd-modules-load.service systemd-sysctl.service systemd-binfmt.service systemd-random-seed.service \
		systemd-remount-fs.service systemd-firstboot.service systemd-logind.service systemd-resolved.service \
		systemd-networkd.service systemd-networkd.socket systemd-timesyncd.service systemd-pstore.service \
		systemd-ask-password-console.path systemd-ask-password-wall.path systemd-initctl.socket systemd-journald-audit.socket \
		proc-sys-fs-binfmt_misc.automount proc-sys-fs-binfmt_misc.mount \
		dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount sys-kernel-tracing.mount sys-kernel-config.mount \
		sys-fs-fuse-connections.mount kmod-static-nodes.service modprobe@.service \
		apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer e2scrub_all.timer e2scrub_reap.service fstrim.timer \
		systemd-tmpfiles-clean.timer; do
		ln -sf /dev/null "$1/etc/systemd/system/$unit"
	done
	ln -sf /lib/systemd/system/multi-user.target "$1/etc/systemd/system/default.target"

	# A process that outlives its unit (KillMode=process) would hold a shutdown for systemd's ninety seconds.
	mkdir -p "$1/etc/systemd/system.conf.d"
	printf '[Manager]\nDefaultTimeoutStopSec=20s\n' >"$1/etc/systemd/system.conf.d/test-host.conf"
}

# journal keeps the journal on the disk, so that it survives reboots, and out of the kernel log all hosts share.
journal() {
	mkdir -p "$1/var/log/journal" "$1/etc/systemd/journald.conf.d"
	printf '[Journal]\nStorage=persistent\nReadKMsg=no\nForwardToSyslog=no\nAudit=no\nSystemMaxUse=256M\n' \
		>"$1/etc/systemd/journald.conf.d/test-host.conf"
}

# boot_script writes what runs before systemd at every boot. It gives each boot its own boot id (a container would show
# the kernel's, which a reboot of the container does not change), shows a kubelet the kernel settings it wants (it would
# else set them, for this machine and all hosts), and makes mounts propagate as on a real host, where systemd does it; in
# a container it leaves that to others.
boot_script() {
	cat >"$1/sbin/test-host-boot" <<-'SCRIPT'
		#!/bin/sh
		set -eu
		cat /proc/sys/kernel/random/uuid >/run/boot-id
		mount --bind /run/boot-id /proc/sys/kernel/random/boot_id
		mount -o remount,bind,ro /proc/sys/kernel/random/boot_id
		mkdir /run/kernel-settings
		for setting in vm/overcommit_memory=1 vm/panic_on_oom=0 kernel/panic=10 kernel/panic_on_oops=1; do
			file=/run/kernel-settings/$(basename "${setting%=*}")
			echo "${setting#*=}" >"$file"
			mount --bind "$file" "/proc/sys/${setting%=*}"
		done
		mount --make-rshared /
		exec /sbin/init
	SCRIPT
	chmod 0755 "$1/sbin/test-host-boot"
}

usage() {
	sed -n '2,8s/^# \{0,1\}//p' "$0" >&2
	exit 2
}

main() {
	case "${1:-} $#" in
	'tarball 2') tarball "$2" ;;
	'upgrade 1') upgrade ;;
	*) usage ;;
	esac
}

main "$@"
