package engine

// What our own engine needs from the machine: a runtime that does without a capability, and a working iptables.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// dropCapPackage is the runtime for machines that withhold CAP_SYS_RESOURCE.
const dropCapPackage = "github.com/drover-project/drover/test/bed/engine/runc-dropcap"

// buildDropCap builds the runtime into dir and returns its path. The go command is quick when nothing changed.
func buildDropCap(ctx context.Context, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the directory of the container runtime: %w", err)
	}
	path := filepath.Join(dir, "runc-dropcap")
	command := exec.CommandContext(ctx, "go", "build", "-o", path+".new", dropCapPackage)
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // it must also run inside of host containers
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the container runtime: %w: %s", err, strings.TrimSpace(string(output)))
	}
	if err := os.Rename(path+".new", path); err != nil { // the old one may be running
		return "", fmt.Errorf("install the container runtime: %w", err)
	}
	return path, nil
}

// findIptables returns the PATH with which dockerd finds an iptables that this kernel understands, and whether there
// is one. Without one, containers and this machine still reach each other, but not the world outside.
func findIptables(ctx context.Context, cacheDir string) (path string, works bool) {
	path = os.Getenv("PATH")
	if listsNAT(ctx, "iptables") {
		return path, true
	}
	legacy, err := exec.LookPath("iptables-legacy")
	if err != nil || !listsNAT(ctx, legacy) {
		return path, false
	}
	shims := filepath.Join(cacheDir, "iptables-legacy")
	if err := os.MkdirAll(shims, 0o755); err != nil {
		return path, false
	}
	link := filepath.Join(shims, "iptables")
	if err := os.Symlink(legacy, link); err != nil && !os.IsExist(err) {
		return path, false
	}
	return shims + string(os.PathListSeparator) + path, true
}

func listsNAT(ctx context.Context, iptables string) bool {
	return exec.CommandContext(ctx, iptables, "--table", "nat", "--list-rules").Run() == nil
}
