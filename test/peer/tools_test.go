//go:build e2e

// What all tests here use: programs that are built, commands that are run, things that are waited for.

package peer

import (
	"bytes"
	"context"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
)

const (
	namespace = "fleet-default"
	// soon is by when everything happens that has to, on the slowest machine.
	soon = 4 * time.Minute
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// await waits for something that happens soon.
func await(t testing.TB, what string, check func() error) {
	t.Helper()
	awaitFor(t, soon, what, check)
}

func awaitFor(t testing.TB, limit time.Duration, what string, check func() error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	must(t, bed.Await(ctx, what, 50*time.Millisecond, func(context.Context) error { return check() }))
}

// binaries is a directory for what build makes.
var binaries string

func TestMain(m *testing.M) {
	code := 1
	var err error
	if binaries, err = os.MkdirTemp("", "drover-peer-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else {
		code = m.Run()
		_ = os.RemoveAll(binaries)
	}
	os.Exit(code)
}

// building keeps tests from building the same thing at once.
var building sync.Mutex

// build builds a command of this module, once for all tests.
func build(t testing.TB, name string) (path string) {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	path = filepath.Join(binaries, name)
	if _, err := os.Stat(path); err != nil {
		run(t, "go", "build", "-o", path, "github.com/drover-project/drover/cmd/"+name)
	}
	return path
}

// cacheDir holds what later runs use again.
func cacheDir() string {
	if dir := os.Getenv("DROVER_CACHE"); dir != "" {
		return dir
	}
	return "/var/cache/drover"
}

// original builds the original agent unless that is done.
func original(t testing.TB) (path string) {
	t.Helper()
	building.Lock()
	defer building.Unlock()
	return strings.TrimSpace(run(t, "./build-agent.sh", filepath.Join(cacheDir(), "peer")))
}

// run runs a command that must succeed, and is its standard output.
func run(t testing.TB, name string, args ...string) string {
	t.Helper()
	return runWith(t, nil, name, args...)
}

func runWith(t testing.TB, env []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, stderr.Bytes())
	}
	return string(out)
}

// freeAddress is a loopback address that no program listens on now.
func freeAddress(t testing.TB) string {
	t.Helper()
	address, err := bed.FreeAddress(t.Context(), netip.AddrFrom4([4]byte{127, 0, 0, 1}))
	must(t, err)
	return address
}

// tail is the end of a file.
func tail(file string, n int) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(string(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
