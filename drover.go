// Package drover holds what the server and the agents of one release have in
// common: the version, and the scripts that a host runs to join and to leave.
package drover

import _ "embed"

// Version is the release, set by the linker; a build by hand says so.
//
// It is a variable only because the linker can set nothing else; no code changes it.
var Version = "v0.0.0-dev"

// InstallScript is what a host runs to join. The server serves it with a header of
// its own address in front.
//
//go:embed install.sh
var InstallScript []byte

// UninstallScript removes the system agent from a host and leaves the cluster's files.
//
//go:embed system-agent-uninstall.sh
var UninstallScript []byte
