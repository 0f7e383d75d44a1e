// Package helm installs charts of clusters at a real server by the real helm, which is built from its Go module into the cache of the test bed;
// what it needs is pinned in helm3.mod, apart from the product's own dependencies. make e2e-full runs it.
package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/drover-project/drover/test/bed/lockfile"
	"github.com/drover-project/drover/test/k3smodule"
)

// Lines are the lines of helm that Build knows: helm3.mod has 3.19.5 with the product's own libraries of Kubernetes, so that those are
// compiled once.
var Lines = []string{"3"}

// Options say what to build and where.
type Options struct {
	// Module is the root directory of drover's sources. Required.
	Module string
	// CacheDir keeps what is built, in its directory helm. Required.
	CacheDir string
	// Line is one of Lines. Required.
	Line string
	// Say hears what is being done, and during a long build how far it is. Default: no listener.
	Say func(format string, args ...any)
}

// Build makes a helm if it is not in the cache yet, which takes some ten minutes the first time. Several processes may call it at once.
func Build(ctx context.Context, o Options) (program string, err error) {
	if !slices.Contains(Lines, o.Line) {
		return "", fmt.Errorf("build helm %s: there are the lines %s", o.Line, strings.Join(Lines, ", "))
	}
	if o.Say == nil {
		o.Say = func(string, ...any) {}
	}
	dir := filepath.Join(o.CacheDir, "helm")
	module, err := filepath.Abs(o.Module)
	if err != nil {
		return "", err
	}
	mod := filepath.Join(module, "test", "helm", "helm"+o.Line+".mod")
	text, err := os.ReadFile(mod)
	if err != nil {
		return "", fmt.Errorf("build helm %s: %w", o.Line, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("make the cache of helm: %w", err)
	}
	sum := sha256.Sum256(append(text, runtime.Version()...))
	program = filepath.Join(dir, "helm"+o.Line+"-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	lock, err := lockfile.Take(ctx, filepath.Join(dir, "lock"), lockfile.Exclusive)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, lock.Unlock()) }()
	if _, err := os.Stat(program); err == nil {
		return program, nil
	}
	workshop := &k3smodule.Workshop{Product: "helm " + o.Line, Say: o.Say}
	err = workshop.Go(ctx, k3smodule.GoCommand{What: "helm", Dir: module, Env: []string{"CGO_ENABLED=0"}, Args: []string{
		"build", "-modfile=" + mod, "-ldflags=-s -w", "-o", program + ".new", "helm.sh/helm/v" + o.Line + "/cmd/helm"}})
	if err != nil {
		return "", err
	}
	return program, os.Rename(program+".new", program)
}

// CacheDir is where the test bed keeps what is built.
func CacheDir() string {
	if dir := os.Getenv("DROVER_CACHE"); dir != "" {
		return dir
	}
	return "/var/cache/drover"
}
