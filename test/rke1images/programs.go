package rke1images

// The programs beside Kubernetes.

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/drover-project/drover/test/k3smodule"
)

const pluginsModule = "v1.7.1" // of github.com/containernetworking/plugins

// plugins are the CNI plugins of a host, without ours.
func plugins() []string {
	return []string{"main/bridge", "main/loopback", "ipam/host-local", "meta/portmap", "meta/bandwidth"}
}

// programs builds what does not belong to a version.
func (b *builder) programs(ctx context.Context) error {
	if err := os.MkdirAll(b.Bin(), 0o755); err != nil {
		return err
	}
	static := []string{"CGO_ENABLED=0", "GOFLAGS=", "GOBIN=" + b.Bin()}
	module := func(name string) k3smodule.GoCommand {
		return k3smodule.GoCommand{What: name, Dir: filepath.Join(b.Module, "test/rke1images", name), Env: static, Args: []string{
			"build", "-trimpath", "-ldflags=-s -w", "-o", filepath.Join(b.Bin(), name), "."}}
	}
	cni := []string{"install", "-trimpath", "-ldflags=-s -w"}
	for _, plugin := range plugins() {
		cni = append(cni, "github.com/containernetworking/plugins/plugins/"+plugin+"@"+pluginsModule)
	}
	for _, command := range []k3smodule.GoCommand{
		module("etcd"),
		module("coredns"),
		{What: "the CNI plugins", Dir: b.Dir, Env: static, Args: cni},
		{What: "our own programs", Dir: b.Module, Env: static, Args: []string{"install", "-trimpath", "-ldflags=-s -w",
			"./test/rke1images/tools", "./test/rke1images/flanneld", "./test/k3smodule/pause", "./test/k3smodule/cni/flannel"}},
	} {
		if err := b.Go(ctx, command); err != nil {
			return err
		}
	}
	return nil
}

// sumOf is the checksum of some values, of Go's version, and of files or directories of drover's module without their tests.
func (b *builder) sumOf(values []any, paths ...string) (string, error) {
	sum := sha256.New()
	fmt.Fprintln(sum, append([]any{runtime.Version()}, values...)...)
	files := os.DirFS(b.Module)
	for _, path := range paths {
		err := fs.WalkDir(files, path, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() || strings.HasSuffix(path, "_test.go") {
				return err
			}
			content, err := fs.ReadFile(files, path)
			fmt.Fprintf(sum, "%s %x\n", path, sha256.Sum256(content))
			return err
		})
		if err != nil {
			return "", fmt.Errorf("read what %s are built with: %w", b.Product, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
