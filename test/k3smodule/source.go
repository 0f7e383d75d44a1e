package k3smodule

// The source: k3s' module, copied to where it can be completed. Go refuses to build it below the module cache, because
// the module's zip lacks generated files.

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

const (
	modulePath    = "github.com/k3s-io/k3s"
	moduleVersion = "v1.33.0-rc1.0.20250905195603-857412ae5891" // main of September 2025, on Kubernetes v1.34.0-k3s1
	moduleCommit  = "857412ae589107e33d6f4c1f34d14b108637afff"
	// moduleSum pins the module's content. The checksum database does not know this version.
	moduleSum = "h1:6A9X+XXwAuUou1hqZOem/zR9BqNVd/Bf402XE2Vp5mo="

	runcModule    = "github.com/opencontainers/runc@v1.3.1"
	pluginsModule = "v1.7.1" // of github.com/containernetworking/plugins
)

// Sources names everything a product is made from in one hash: what all of them share, and the directories dirs of drover.
func (w *Workshop) Sources(dirs ...string) (string, error) {
	sum := sha256.New()
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		return "", fmt.Errorf("build %s: %w; test/bed/setup.sh installs it", w.Product, err)
	}
	fmt.Fprintln(sum, runtime.Version(), moduleSum, runcModule, pluginsModule, busybox)
	for _, dir := range append([]string{"test/k3smodule", "test/bed/engine/dropcap", "test/bed/engine/runc-dropcap"}, dirs...) {
		files := os.DirFS(w.Module)
		err := fs.WalkDir(files, dir, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := fs.ReadFile(files, path)
			fmt.Fprintf(sum, "%s %x\n", path, sha256.Sum256(content))
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read what %s is built with: %w", w.Product, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// Source fetches the module and completes a copy of it.
func (w *Workshop) Source(ctx context.Context) error {
	w.Say("%s: fetching %s %s", w.Product, modulePath, moduleVersion)
	dir, err := fetchModule(ctx, w.Dir)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(w.Src()); err != nil {
		return err
	}
	if err := copyTree(dir, w.Src()); err != nil {
		return err
	}
	return complete(w.Src(), w.Program)
}

// fetchModule returns the module's directory in the module cache, after a look at what it holds.
func fetchModule(ctx context.Context, workDir string) (string, error) {
	command := exec.CommandContext(ctx, "go", "mod", "download", "-json", modulePath+"@"+moduleVersion)
	command.Dir = workDir // outside of every module
	command.Env = append(os.Environ(), "GONOSUMDB="+modulePath, "GOFLAGS=")
	out, err := command.Output()
	var module struct{ Dir, Sum, Error string }
	if jsonErr := json.Unmarshal(out, &module); jsonErr != nil || module.Error != "" {
		return "", fmt.Errorf("fetch %s: %s (%w); the Go module proxy has to be reachable the first time", modulePath, module.Error, err)
	}
	if module.Sum != moduleSum {
		return "", fmt.Errorf("the proxy's %s %s has the checksum %s, and %s is pinned", modulePath, moduleVersion, module.Sum, moduleSum)
	}
	return module.Dir, nil
}

// complete does to a copy of the module what its own scripts do before they build, and takes out what needs cgo.
func complete(src, program string) error {
	if err := stageManifests(src, program); err != nil {
		return err
	}
	// The process title is set by C code. Without it `ps` shows the token of a command line, which drover never uses.
	if err := os.RemoveAll(filepath.Join(src, "pkg/proctitle")); err != nil {
		return err
	}
	const title = "// Package proctitle does nothing without cgo.\npackage proctitle\n\n// SetProcTitle does nothing.\nfunc SetProcTitle(string) {}\n"
	if err := WriteFile(filepath.Join(src, "pkg/proctitle/proctitle.go"), []byte(title), 0o644); err != nil {
		return err
	}
	// The btrfs snapshotter is C code too. Hosts have overlayfs.
	return removeLine(filepath.Join(src, "pkg/containerd/builtins_linux.go"), "plugins/snapshots/btrfs/plugin")
}

// stageManifests puts what a cluster deploys of itself where it is embedded. The other manifests ask for images that no host
// can pull here. The users they bind are named after the program.
func stageManifests(src, program string) error {
	for _, manifest := range []string{"ccm.yaml", "rolebindings.yaml", "runtimes.yaml"} {
		text, err := os.ReadFile(filepath.Join(src, "manifests", manifest))
		if err != nil {
			return err
		}
		text = bytes.ReplaceAll(text, []byte("k3s"), []byte(program))
		if err := WriteFile(filepath.Join(src, "pkg/deploy/embed", manifest), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// removeLine takes the one line that contains text out of a file.
func removeLine(path, text string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(string(content), "\n")
	kept := slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return strings.Contains(line, text) })
	if len(kept) != len(lines)-1 {
		return fmt.Errorf("%s has %d lines with %q, and one was expected", path, len(lines)-len(kept), text)
	}
	return os.WriteFile(path, []byte(strings.Join(kept, "\n")), 0o644)
}

// CopyCommand copies a command of drover that imports what only k3s' module has to cmd/<name> of the copy. Its files carry
// the build tag ignore in drover's own module.
func (w *Workshop) CopyCommand(dir, name string) error {
	files, err := filepath.Glob(filepath.Join(w.Module, dir, "*.go"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("copy the command %s: %s has no sources", name, dir)
	}
	target := filepath.Join(w.Src(), "cmd", name)
	if err := os.RemoveAll(target); err != nil {
		return err
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text = bytes.Replace(text, []byte("//go:build ignore\n"), nil, 1)
		if err := WriteFile(filepath.Join(target, filepath.Base(file)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// copyTree copies a directory of the module cache, which is read-only, to a writable one.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		target := filepath.Join(to, strings.TrimPrefix(path, from))
		if entry.IsDir() {
			return os.MkdirAll(target, 0o755)
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		return CopyFile(path, target, info.Mode().Perm()|0o200)
	})
}

// CopyFile copies a file, and makes the directories on the way.
func CopyFile(from, to string, mode fs.FileMode) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, mode)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		return fmt.Errorf("copy %s: %w", from, err)
	}
	return out.Close()
}

// WriteFile writes a file, and makes the directories on the way.
func WriteFile(path string, content []byte, mode fs.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, content, mode)
}

// Link makes the symbolic link name, or changes it.
func Link(target, name string) error {
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return os.Symlink(target, name)
}
