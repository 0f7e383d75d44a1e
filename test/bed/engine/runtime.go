package engine

// The container runtime of our own engine on machines that withhold a capability.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/drover-project/drover/test/bed/engine/dropcap"
)

// dropCapPackage is the runtime for machines that withhold CAP_SYS_RESOURCE.
const dropCapPackage = "github.com/drover-project/drover/test/bed/engine/runc-dropcap"

// Runtime returns the path of the container runtime that engines on hosts of this engine need, for they have no more
// capabilities than this machine; it is empty where runc will do.
func (e *Engine) Runtime(ctx context.Context) (string, error) {
	lacks, err := dropcap.Withheld()
	if err != nil || !lacks {
		return "", err
	}
	return buildDropCap(ctx, filepath.Join(e.cacheDir, "bin"))
}

// buildDropCap builds the runtime into dir and returns its path. The go command is quick when nothing changed.
func buildDropCap(ctx context.Context, dir string) (string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the directory of the container runtime: %w", err)
	}
	path := filepath.Join(dir, "runc-dropcap")
	// Several processes and hosts may do this at once, each in a directory of its own.
	work, err := os.MkdirTemp(dir, "build-*")
	if err != nil {
		return "", fmt.Errorf("make a directory to build the container runtime in: %w", err)
	}
	defer os.RemoveAll(work)
	built := filepath.Join(work, "runc-dropcap")
	command := exec.CommandContext(ctx, "go", "build", "-o", built, dropCapPackage)
	command.Env = append(os.Environ(), "CGO_ENABLED=0") // it must also run inside of host containers
	if output, err := command.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the container runtime: %w: %s", err, strings.TrimSpace(string(output)))
	}
	if err := os.Rename(built, path); err != nil { // the old one may be running
		return "", fmt.Errorf("install the container runtime: %w", err)
	}
	return path, nil
}
