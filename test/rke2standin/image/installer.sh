#!/bin/sh
# installer.sh of the installer image of RKE2's stand-in, in the place of RKE2's own install script: it installs what lies
# beside it (INSTALL_RKE2_ARTIFACT_PATH) below a prefix (INSTALL_RKE2_TAR_PREFIX), and downloads nothing.
set -eu

ROOT=${STANDIN_ROOT:-}

main() {
	from=$INSTALL_RKE2_ARTIFACT_PATH
	prefix=${INSTALL_RKE2_TAR_PREFIX:-/usr/local}
	images=$ROOT${INSTALL_RKE2_AGENT_IMAGES_DIR:-${RKE2_DATA_DIR:-/var/lib/rancher/rke2}/agent/images}

	(cd "$from" && sha256sum --quiet --check sha256sum-amd64.txt)
	stage_images
	install_files
	if [ "${INSTALL_RKE2_SKIP_RELOAD:-}" != true ]; then
		systemctl daemon-reload
	fi
}

# stage_images puts archives of images where the service imports them from, if they are others than those there.
stage_images() {
	mkdir -p "$images"
	for archive in "$from"/rke2-images*.tar; do
		if ! cmp -s "$archive" "$images/${archive##*/}"; then
			cp "$archive" "$images/.${archive##*/}.new"
			mv -f "$images/.${archive##*/}.new" "$images/${archive##*/}"
		fi
	done
}

# install_files unpacks beside the prefix first: a running program cannot be written to, but replaced.
install_files() {
	part=$ROOT$prefix/.rke2.new
	rm -rf "$part"
	mkdir -p "$part"
	tar -xzf "$from/rke2.linux-amd64.tar.gz" -C "$part"
	(cd "$part" && find . -type f) | while read -r file; do
		target=$ROOT$prefix/$file
		case $file in
		./lib/systemd/system/*.service)
			if [ "$prefix" != /usr/local ]; then
				sed -i "s|/usr/local/lib/systemd/system|/etc/systemd/system|g; s|/usr/local|$prefix|g" "$part/$file"
				target=$ROOT/etc/systemd/system/${file##*/}
			fi
			;;
		esac
		mkdir -p "${target%/*}"
		mv -f "$part/$file" "$target"
	done
	rm -rf "$part"
}

main "$@"
