//go:build e2e_full

package release

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/test/bed/host"
)

// TestReleaseOfTwoDirectories makes a whole release, for all systems, twice, of clones in two directories, of which one has nothing built before: they
// are the same to the byte.
func TestReleaseOfTwoDirectories(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 90*time.Minute)
	defer cancel()
	r := &releases{T: t, ctx: ctx, whole: true}
	r.keys()
	var sums []string
	for name, env := range map[string][]string{"one": nil, "another-directory": {"GOCACHE=" + t.TempDir()}} {
		tree := filepath.Join(t.TempDir(), name)
		r.copyTree(tree)
		built := r.build(tree, after, env...)
		text, err := os.ReadFile(filepath.Join(built, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		sums = append(sums, string(text))
	}
	if diff := cmp.Diff(sums[0], sums[1]); diff != "" {
		t.Errorf("two releases of one commit differ:\n%s", diff)
	}
	for _, file := range []string{"darwin_amd64.tar.gz", "darwin_arm64.tar.gz", "windows_amd64.zip", "linux_arm64.tar.gz", "_arm64.deb", ".aarch64.rpm", "image-server-arm64.tar"} {
		if !strings.Contains(sums[0], file+"\n") {
			t.Errorf("no file ends with %s:\n%s", file, sums[0])
		}
	}
}

// TestPackagesOnTrixie is a life with the packages on Debian 13.
func TestPackagesOnTrixie(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 40*time.Minute)
	defer cancel()
	r := &releases{T: t, ctx: ctx, dir: filepath.Join(t.TempDir(), "tree"), of: map[string]string{}}
	r.copyTree(r.dir)
	r.keys()
	for _, version := range []string{before, after} {
		r.of[version] = r.build(r.dir, version)
	}
	r.live(r.onHost("office", host.Trixie))
}
