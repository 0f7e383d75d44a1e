package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// What the agent may cost a host.
const (
	maxPackages = 380
	maxBinary   = 16 << 20
	maxResident = 20 << 20
)

// binary is the agent as it is released, built once, except that its journal is below the
// test's directory.
var binary, journalSocket string

func TestMain(m *testing.M) { os.Exit(withBinary(m)) }

func withBinary(m *testing.M) int {
	dir, err := os.MkdirTemp("", "agent")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, name)
	journalSocket = filepath.Join(dir, "journal.sock")
	flags := "-s -w -X github.com/drover-project/drover.Version=v9.9.9-test -X github.com/coreos/go-systemd/v22/journal.journalSocket=" + journalSocket
	build := exec.Command("go", "build", "-trimpath", "-ldflags", flags, "-o", binary, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "%v\n%s", err, out)
		return 1
	}
	return m.Run()
}

func TestPackages(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages := strings.Fields(string(out))
	t.Logf("%d packages are linked, of %d allowed", len(packages), maxPackages)
	if len(packages) > maxPackages {
		t.Errorf("%d packages are linked, more than %d: each runs as root on every host", len(packages), maxPackages)
	}
	for _, p := range packages {
		for _, heavy := range []string{"k8s.io/", "sigs.k8s.io/", "github.com/spf13/", "github.com/minio/", "github.com/drover-project/drover/server"} {
			if strings.HasPrefix(p, heavy) {
				t.Errorf("%s is linked: the agent has to do without %s", p, heavy)
			}
		}
	}
}

func TestBinarySize(t *testing.T) {
	info, err := os.Stat(binary)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%.1f MiB stripped, of %d allowed", float64(info.Size())/(1<<20), maxBinary>>20)
	if info.Size() > maxBinary {
		t.Errorf("the binary has %d bytes, more than %d", info.Size(), maxBinary)
	}
}
