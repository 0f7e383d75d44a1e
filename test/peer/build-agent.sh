#!/bin/sh
# Builds the original rancher-system-agent from the Go module proxy: build-agent.sh [OUT] makes
# OUT/rancher-system-agent-VERSION and prints that path. Nothing of its source enters this repository: the module in
# agent/ only names it, and go.sum there pins it by its checksum. The first build takes about five minutes on two
# cores; when nothing it is made from has changed it takes none.
set -eu

MODULE=github.com/rancher/system-agent

main() {
	[ $# -le 1 ] || fail "usage: build-agent.sh [OUT]"
	out=${1:-/var/cache/drover/peer}
	mkdir -p "$out"
	out=$(cd "$out" && pwd)
	cd "$(dirname "$0")/agent"
	command -v go >/dev/null || fail "go is not on PATH; install Go 1.26 or later"

	version=$(awk -v module="$MODULE" '$1 == module { print $2 }' go.mod)
	[ -n "$version" ] || fail "agent/go.mod does not require $MODULE"
	binary=$out/rancher-system-agent-$version
	sum=$(sources)
	if [ ! -x "$binary" ] || [ "$(cat "$binary.sources" 2>/dev/null)" != "$sum" ]; then
		echo "building the original rancher-system-agent $version (the first time takes some minutes)" >&2
		rm -f "$binary.sources"
		CGO_ENABLED=0 nice go build -mod=readonly -trimpath -ldflags "-s -w -X $MODULE/pkg/version.Version=$version" -o "$binary.$$" "$MODULE"
		mv "$binary.$$" "$binary"
		echo "$sum" >"$binary.sources"
	fi
	echo "$binary"
}

# sources names everything the binary is made from in one hash.
sources() {
	{
		go version
		cat go.mod go.sum ../build-agent.sh
	} | sha256sum | cut -d ' ' -f 1
}

fail() {
	echo "build-agent.sh: $*" >&2
	exit 1
}

main "$@"
