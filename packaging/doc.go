// Package packaging holds what brings the agents onto a host: their systemd units
// for packages, and the tests that run install.sh and system-agent-uninstall.sh,
// which carry the same unit because they must be complete when piped from curl.
package packaging
