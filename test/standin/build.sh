#!/bin/sh
# Builds the stand-in k3s: build.sh OUT makes OUT/k3s-standin, one static binary of about 120 MB. The first build takes
# about six minutes on two cores; when nothing it is made from has changed it takes none. It uses the settings the
# tests of this module use, so that they share Go's build cache.
set -eu

VERSION=v1.34.4+k3s1

main() {
	[ $# -eq 1 ] || fail "usage: build.sh OUT"
	mkdir -p "$1"
	out=$(cd "$1" && pwd)
	cd "$(dirname "$0")"
	command -v go >/dev/null || fail "go is not on PATH; install Go 1.26 or later"

	sum=$(sources)
	if [ -x "$out/k3s-standin" ] && [ "$(cat "$out/k3s-standin.sources" 2>/dev/null)" = "$sum" ]; then
		return 0
	fi
	echo "building the stand-in k3s $VERSION (the first time takes some minutes)" >&2
	rm -f "$out/k3s-standin.sources"
	CGO_ENABLED=0 nice go build -ldflags "$(ldflags)" -o "$out/k3s-standin.$$" . # tests of two packages may do this at once
	mv "$out/k3s-standin.$$" "$out/k3s-standin"
	echo "$sum" >"$out/k3s-standin.sources"
}

# sources names everything the binary is made from in one hash.
sources() {
	{
		go version
		find . -type f \( -name '*.go' -o -name '*.yaml' -o -name go.mod -o -name go.sum -o -name build.sh \) ! -name '*_test.go' ! -path '*/testdata/*' -exec sha256sum {} + | LC_ALL=C sort -k 2
	} | sha256sum | cut -d ' ' -f 1
}

# ldflags strips the binary and gives every component the version of the k3s it stands for.
ldflags() {
	printf '%s' '-s -w'
	for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
		printf ' -X %s.gitVersion=%s -X %s.gitMajor=1 -X %s.gitMinor=34 -X %s.gitTreeState=clean -X %s.gitCommit=drover-stand-in -X %s.buildDate=2026-02-12T00:00:00Z' \
			"$package" "$VERSION" "$package" "$package" "$package" "$package" "$package"
	done
}

fail() {
	echo "build.sh: $*" >&2
	exit 1
}

main "$@"
