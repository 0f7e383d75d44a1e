#!/bin/sh
# prepare.sh TAG VERSION DATE: what a release has beside programs, into bin/release-files. goreleaser calls it.
set -eu
files=bin/release-files
rm -rf "$files"
mkdir -p "$files/completions" "$files/images"

go run ./cmd/manual "$files/completions"
mv "$files/completions/drover.1" "$files/drover.1"
cat >"$files/drover-join.1" <<TEXT
.TH DROVER\-JOIN 1
.SH NAME
drover\-join \- join this host to a drover server, by the agent of the package
.SH SYNOPSIS
.B drover\-join \-\-server
.I URL
.B \-\-token
.I TOKEN
.RB [ \-\-ca\-checksum
.IR SHA256 ]
.RB [ \-\-all\-roles ]
.SH DESCRIPTION
It takes the flags of the line that
.B drover clusters join\-command
prints, and downloads nothing but the plan.
.B drover\-join \-\-help
lists them.
TEXT
gzip -9n "$files/drover.1" "$files/drover-join.1"

sed 's,/usr/local/bin/drover,/usr/bin/drover,' packaging/systemd/drover.service >"$files/drover.service"

{
	printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: drover\n'
	printf 'Source: https://github.com/drover-project/drover\n\nFiles: *\nCopyright: 2025-2026 the developers of drover\nLicense: Apache-2.0\n'
	printf ' On Debian systems the text of the licence is in /usr/share/common-licenses/Apache-2.0.\n'
} >"$files/copyright"

# The newest section of the changelog: what comes with this release.
awk '/^## / { if (seen++) exit } seen' CHANGELOG.md >"$files/CHANGES.md"
[ -s "$files/CHANGES.md" ] || { echo "release: CHANGELOG.md has no section" >&2 && exit 1; }
printf 'drover (%s) stable; urgency=medium\n\n  * see https://github.com/drover-project/drover/blob/main/CHANGELOG.md\n\n -- the developers of drover <drover@drover-project.example>  %s\n' \
	"$(echo "$2" | sed 's/-/~/')" "$(date -R -u -d "$3")" | gzip -9n >"$files/changelog.gz"

cat >"$files/images.txt" <<TEXT
drover/server:$2
drover/rancher-agent:$2
drover/system-agent:$2-suc
TEXT
