#!/bin/sh
# Makes a release in bin/release: `make release RELEASE=v0.1.0`. What it fetches are pinned Go tools (tools.mod).
#
#   RELEASE            the version; without it one of development, from the commit
#   HOST_ONLY=1        linux amd64 alone, for a try
#   RELEASE_SSH_KEY    file of an ed25519 key of ssh-keygen, RELEASE_MINISIGN_KEY of minisign without a password: SHA256SUMS is
#                      signed by each that is given
#   BUSYBOX_ARM64      a static busybox, for the image of the upgrade controller for arm64
set -eu
cd "$(dirname "$0")/../.."

version=${RELEASE:-v0.1.0-dev.g$(git rev-parse --short=12 HEAD)}
case $version in
v[0-9]*.[0-9]*.[0-9]*) ;;
*)
	echo "release: RELEASE is \"$version\", and is of the form v1.2.3 or v1.2.3-rc.1" >&2
	exit 2
	;;
esac
[ -z "${RELEASE:-}" ] || [ -z "$(git status --porcelain)" ] ||
	{ echo "release: the tree has changes that are not committed, which no other could build again" >&2 && exit 1; }
export GORELEASER_CURRENT_TAG="$version"
export CGO_ENABLED=0
# goreleaser wants to know where the code is from, also where it publishes nothing.
[ -n "$(git remote)" ] ||
	export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=remote.origin.url GIT_CONFIG_VALUE_0=https://github.com/drover-project/drover
go tool -modfile=packaging/release/tools.mod goreleaser release --config packaging/release/goreleaser.yaml --clean --skip=publish,validate
cd bin/release
# What goreleaser keeps for itself.
rm -rf artifacts.json config.yaml metadata.json drover-amd64_* drover-arm64_* command-line_* rancher-agent_linux_*[0-9] rancher-system-agent_linux_*[0-9]
cp ../release-files/images/*.tar ../release-files/images.txt ../release-files/CHANGES.md ../../packaging/release/compose.yaml .
sha256sum --quiet --check SHA256SUMS
if [ -n "${RELEASE_SSH_KEY:-}" ]; then
	ssh-keygen -q -Y sign -n drover -f "$RELEASE_SSH_KEY" SHA256SUMS
fi
if [ -n "${RELEASE_MINISIGN_KEY:-}" ]; then
	minisign -S -s "$RELEASE_MINISIGN_KEY" -m SHA256SUMS -t "drover $version" </dev/null >/dev/null
fi
[ -n "${RELEASE_SSH_KEY:-}${RELEASE_MINISIGN_KEY:-}" ] ||
	echo "release: not signed, as neither RELEASE_SSH_KEY nor RELEASE_MINISIGN_KEY is given"
ls -l
