// Package standin builds the test bed's stand-in k3s, which is a module of its own (test/standin), and says what its
// installer image is made of.
package standin

import (
	"context"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
)

// Ref is the image a plan for k3s v1.34.4+k3s1 asks for.
const Ref = "rancher/system-agent-installer-k3s:v1.34.4-k3s1"

// Build builds the stand-in from the module whose root directory is root, into out, and returns the files of its
// installer image: path in the image → path on this machine. It takes some minutes the first time and no time when
// nothing changed; what it does goes to output. It needs Go and, the first time, the Go module proxy.
func Build(ctx context.Context, root, out string, output io.Writer) (map[string]string, error) {
	out, err := filepath.Abs(out)
	if err != nil {
		return nil, fmt.Errorf("build the stand-in k3s: %w", err)
	}
	dir := filepath.Join(root, "test", "standin")
	command := exec.CommandContext(ctx, filepath.Join(dir, "build.sh"), out)
	command.Stdout, command.Stderr = output, output
	if err := command.Run(); err != nil {
		return nil, fmt.Errorf("build the stand-in k3s with %s: %w", command.Path, err)
	}
	files := map[string]string{"k3s": filepath.Join(out, "k3s-standin")}
	for _, script := range []string{"run.sh", "installer.sh", "k3s-killall.sh", "k3s-uninstall.sh"} {
		files[script] = filepath.Join(dir, "image", script)
	}
	return files, nil
}
