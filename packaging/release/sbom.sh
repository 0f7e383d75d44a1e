#!/bin/sh
# sbom.sh PROGRAM DOCUMENT: the modules that a program is made of, as CycloneDX. Without serial number and time, since equal programs have
# equal documents.
set -eu
exec go tool -modfile="$(dirname "$0")/tools.mod" cyclonedx-gomod bin -json -noserial -notimestamp -output "$2" "$1"
