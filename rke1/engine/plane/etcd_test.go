package plane

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

func TestEtcdDataAreMovedAside(t *testing.T) {
	for name, member := range map[string]bool{"data": true, "no data": false} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			aside := filepath.Join(dir, "before-now")
			if member {
				if err := os.MkdirAll(filepath.Join(dir, "member", "wal"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			want := map[bool]string{true: "moved\n"}[member]
			if out, err := exec.Command("sh", "-c", MoveEtcdAside, "aside", dir, aside).CombinedOutput(); err != nil || string(out) != want {
				t.Fatalf("%q %v", out, err)
			}
			if _, err := os.Stat(filepath.Join(aside, "member", "wal")); (err == nil) != member {
				t.Errorf("what was moved: %v", err)
			}
			if _, err := os.Stat(filepath.Join(dir, "member")); err == nil {
				t.Error("the member is still there")
			}
		})
	}
}
