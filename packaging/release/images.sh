#!/bin/sh
# images.sh ARCH VERSION PROGRAM: the images of a release for one architecture. goreleaser calls it when it has built the server.
set -eu
busybox=
if [ "$1" = "$(go env GOHOSTARCH)" ]; then
	busybox=${BUSYBOX:-/bin/busybox}
elif [ "$1" = arm64 ]; then
	busybox=${BUSYBOX_ARM64:-}
fi
which="server rancher-agent"
if [ -n "$busybox" ]; then
	which="$which suc"
else
	echo "release: no image of the upgrade controller for $1, as there is no static busybox for it (BUSYBOX_ARM64)" >&2
fi
# shellcheck disable=SC2086 # words
GOOS='' GOARCH='' go run ./packaging/images -arch "$1" -version "$2" -out bin/release-files/images -server "$3" -busybox "$busybox" $which
