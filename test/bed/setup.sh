#!/bin/sh
# Installs what drover's tests and the quick start need on a Debian or Ubuntu machine, and only what is missing.
#
#   setup.sh          what `make test` and the quick start need: test and bed below
#   setup.sh test     what `make test` needs: a C compiler for the race detector, and the tools the tests call
#   setup.sh people   what logins at real directories need: OpenLDAP, Samba for an Active Directory, and node for a provider of OpenID Connect;
#                     promtool, which reads the rules for Prometheus. Their packages start services, so that no other target installs them
#   setup.sh release  what checks releases: Debian's and Red Hat's tools for packages, minisign
#   setup.sh bed      what hosts in containers need: Docker, debootstrap, iproute2, iptables; libseccomp, which their runc is built with
#   setup.sh page     what the tests of the page need, which no other has: Chromium, and npm for what checks it
#
# Go itself is not installed. A machine that has everything needs neither root nor a network for this script.
set -eu

main() {
	case "${1:-all}" in
	test) wanted=$(test_needs) ;;
	people) wanted=$(people_needs) ;;
	bed) wanted=$(bed_needs) ;;
	release) wanted=$(release_needs) ;;
	page) wanted=$(page_needs) ;;
	all) wanted=$(test_needs && bed_needs) ;;
	*)
		sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
		exit 2
		;;
	esac
	case "${1:-all}" in
	test | people | page | release) ;;
	*) watches ;;
	esac
	# Where root's PATH is short, these are still found.
	PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

	missing=$(echo "$wanted" | missing_packages)
	if [ -z "$missing" ]; then
		echo "setup: nothing to install"
		return
	fi
	if ! command -v apt-get >/dev/null; then
		fail "this machine has no apt-get; install these by hand (Debian's names): $missing"
	fi
	if [ "$(id -u)" -ne 0 ]; then
		fail "run this as root, it has to install: $missing"
	fi
	install_packages "$missing"

	missing=$(echo "$wanted" | missing_packages)
	[ -z "$missing" ] || fail "installed, but still without the commands of: $missing"
}

# watches gives the hosts of the test bed, which share them, room for the inotify instances of many kubelets and containerds: with
# the kernel's own 128 the containerd of a fifth server starts without its CRI, and k3s waits for that in vain.
watches() {
	limit=/proc/sys/fs/inotify/max_user_instances
	if [ "$(cat "$limit" 2>/dev/null || echo 2048)" -lt 1024 ] && [ "$(id -u)" -eq 0 ]; then
		echo 2048 >"$limit" 2>/dev/null || echo "setup: $limit cannot be raised; clusters of many hosts may not start"
	fi
}

# The needs are lines of a command and the package that has it. A path instead of a command is a file.
test_needs() {
	cat <<-'NEEDS'
		gcc gcc
		/usr/include/stdlib.h libc6-dev
		git git
		curl curl
		openssl openssl
		bzip2 bzip2
		shellcheck shellcheck
		busybox busybox-static
		/etc/ssl/certs/ca-certificates.crt ca-certificates
	NEEDS
}

people_needs() {
	cat <<-'NEEDS'
		slapd slapd
		promtool prometheus
		samba samba-ad-dc
		/usr/share/samba/setup/provision.ldif samba-ad-provision
		/usr/lib/python3/dist-packages/samba python3-samba
		samba-tool samba-common-bin
		node nodejs
		npm npm
	NEEDS
}

page_needs() {
	cat <<-'NEEDS'
		chromium chromium
		npm npm
	NEEDS
}

release_needs() {
	cat <<-'NEEDS'
		lintian lintian
		dpkg-scanpackages dpkg-dev
		rpm rpm
		minisign minisign
		ssh-keygen openssh-client
	NEEDS
}

bed_needs() {
	cat <<-'NEEDS'
		dockerd docker.io
		docker docker-cli
		debootstrap debootstrap
		/usr/share/keyrings/debian-archive-keyring.gpg debian-archive-keyring
		ip iproute2
		iptables iptables
		tar tar
		pkg-config pkg-config
		/usr/include/seccomp.h libseccomp-dev
	NEEDS
	# Where the kernel enforces AppArmor, Docker cannot start containers without this.
	if [ "$(cat /sys/module/apparmor/parameters/enabled 2>/dev/null)" = Y ]; then
		echo apparmor_parser apparmor
	fi
}

missing_packages() {
	while read -r command package; do
		case $command in
		/*) [ -e "$command" ] || printf '%s ' "$package" ;;
		*) command -v "$command" >/dev/null || printf '%s ' "$package" ;;
		esac
	done
}

install_packages() {
	export DEBIAN_FRONTEND=noninteractive
	echo "setup: reading the package lists"
	quietly apt-get update
	packages=
	for package in $1; do
		# Up to Debian 12 the docker command is in docker.io.
		if [ "$package" = docker-cli ] && ! apt-cache show docker-cli >/dev/null 2>&1; then
			continue
		fi
		packages="$packages $package"
	done
	echo "setup: installing$packages"
	# shellcheck disable=SC2086 # a list of names
	quietly apt-get install --yes --no-install-recommends $packages
}

# quietly shows what a command says only if it fails.
quietly() {
	log=$(mktemp)
	if ! "$@" >"$log" 2>&1; then
		cat "$log" >&2
		rm -f "$log"
		fail "'$*' failed, see above"
	fi
	rm -f "$log"
}

fail() {
	echo "setup: $*" >&2
	exit 1
}

main "$@"
