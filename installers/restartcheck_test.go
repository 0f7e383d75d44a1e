package installers

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestRestartCheck has installations follow each other on a host whose systemctl shows a unit and records restarts.
func TestRestartCheck(t *testing.T) {
	dir := t.TempDir()
	stamp := filepath.Join(dir, "stamp")
	write := func(path, text string, mode os.FileMode) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	for _, step := range []struct {
		name, stamp, state string
		written, started   time.Duration // after noon
		restarted          bool
	}{
		{name: "installed, and being started", stamp: "one", state: "activating", written: 0},
		{name: "the same again, by a quiet plan", stamp: "one", state: "active", written: 10 * time.Minute, started: time.Second},
		{name: "another, restarted by the installer", stamp: "two", state: "active", written: 20 * time.Minute, started: 20*time.Minute + time.Second},
		{name: "the same again", stamp: "two", state: "active", written: 30 * time.Minute, started: 20*time.Minute + time.Second},
		{name: "another, and the installer was killed before the restart", stamp: "three", state: "active", written: 40 * time.Minute, started: 20*time.Minute + time.Second, restarted: true},
		{name: "the same once it was restarted", stamp: "three", state: "active", written: 50 * time.Minute, started: 41 * time.Minute},
	} {
		write(stamp, step.stamp, 0o600)
		if err := os.Chtimes(stamp, noon, noon.Add(step.written)); err != nil {
			t.Fatal(err)
		}
		write(filepath.Join(dir, "systemctl"), "#!/bin/sh\ncase \"$*\" in\n*ActiveState*) echo "+step.state+" ;;\n*ExecMainStartTimestamp*) echo '"+
			noon.Add(step.started).Format("Mon 2006-01-02 15:04:05 UTC")+"' ;;\n*restart*) echo \"$*\" >>"+dir+"/restarts ;;\nesac\n", 0o755)
		cmd := exec.Command("sh", "-c", restartCheck, CheckName, "rke2-server", stamp)
		cmd.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", step.name, err, out)
		}
		text, _ := os.ReadFile(filepath.Join(dir, "restarts")) // missing when nothing was restarted
		if got := strings.Contains(string(text), "--no-block restart rke2-server"); got != step.restarted {
			t.Errorf("%s: restarted is %t", step.name, got)
		}
		_ = os.Remove(filepath.Join(dir, "restarts"))
	}
}
