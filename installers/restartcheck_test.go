package installers

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestRestartCheck has installations follow each other on a host whose systemctl shows a unit and records restarts.
func TestRestartCheck(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	h := newUnitHost(t)
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
		h.install(step.stamp, noon.Add(step.written))
		h.shows(unitLook{active: step.state, started: noon.Add(step.started)})
		h.check()
		if got := h.restarts() > 0; got != step.restarted {
			t.Errorf("%s: restarted is %t", step.name, got)
		}
	}
}

// TestRestartCheckWaits: a unit that ran before is waited for, and no other.
func TestRestartCheckWaits(t *testing.T) {
	noon := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	before, after := noon.Add(-time.Hour), noon.Add(time.Second)
	stopping, starting := unitLook{active: "deactivating", sub: "stop-sigterm", started: before}, unitLook{active: "activating", sub: "start", started: after}
	runs := unitLook{active: "active", sub: "running", started: after}
	between, crashes := unitLook{active: "inactive", sub: "dead", started: before}, unitLook{active: "activating", sub: "auto-restart", started: after}
	many := func(one unitLook, n int) []unitLook { return slices.Repeat([]unitLook{one}, n) }
	for _, test := range []struct {
		name     string
		first    bool // the unit has never run
		shown    []unitLook
		looks    int
		restarts int
		says     string
	}{
		{name: "a restart", shown: []unitLook{stopping, between, starting, starting, runs}, looks: 5, says: "waiting until rke2-server has started"},
		{name: "a restart that the installer had no time for", shown: []unitLook{{active: "active", started: before}, stopping, starting, runs}, looks: 4, restarts: 1, says: "it is restarted"},
		{name: "a restart that is to begin in a moment", shown: []unitLook{{active: "active", started: before}, {active: "active", started: before}, starting, runs}, looks: 4, restarts: 1},
		{name: "a first start", first: true, shown: []unitLook{starting, starting, runs}, looks: 1},
		{name: "one that fails and is started again", shown: []unitLook{stopping, starting, crashes, runs}, looks: 3},
		{name: "one that somebody stops", shown: append([]unitLook{stopping}, many(between, 9)...), looks: 5},
		{name: "one that failed", shown: append([]unitLook{stopping}, many(unitLook{active: "failed", started: after}, 9)...), looks: 5},
		{name: "one whose start does not end", shown: many(starting, 400), looks: 300, says: "not started within 10 minutes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := newUnitHost(t)
			h.install("one", noon)
			h.first = test.first
			h.shows(test.shown...)
			said := h.check()
			if got := h.count("looks"); got != test.looks || h.restarts() != test.restarts || !strings.Contains(said, test.says) {
				t.Errorf("it looked %d times, want %d; restarted %d times, want %d; it said %q", got, test.looks, h.restarts(), test.restarts, said)
			}
			if slept := h.count("sleeps"); slept != test.looks-1 {
				t.Errorf("it slept %d times between %d looks", slept, test.looks)
			}
		})
	}
}

// unitLook is what systemctl shows of the unit at one look.
type unitLook struct {
	active, sub string
	started     time.Time
}

// unitHost is a host with a systemctl that shows one look after another, the last one for ever.
type unitHost struct {
	*testing.T
	dir   string
	first bool // the unit has never run since the boot
}

func newUnitHost(t *testing.T) *unitHost {
	t.Helper()
	h := &unitHost{T: t, dir: t.TempDir()}
	h.write("sleep", "#!/bin/sh\necho >>"+h.dir+"/sleeps\n", 0o755)
	return h
}

func (h *unitHost) write(name, text string, mode os.FileMode) {
	h.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), mode); err != nil {
		h.Fatal(err)
	}
}

// install writes the stamp as the installer does at a time.
func (h *unitHost) install(stamp string, at time.Time) {
	h.Helper()
	h.write("stamp", stamp, 0o600)
	if err := os.Chtimes(filepath.Join(h.dir, "stamp"), at, at); err != nil {
		h.Fatal(err)
	}
}

// shows makes the systemctl. A look begins with the question for ActiveState.
func (h *unitHost) shows(looks ...unitLook) {
	h.Helper()
	entered := "Sun 2026-11-22 01:00:00 UTC"
	if h.first {
		entered = ""
	}
	var table strings.Builder
	for _, l := range looks {
		fmt.Fprintf(&table, "%s|%s|%s\n", l.active, l.sub, l.started.Format("Mon 2006-01-02 15:04:05 UTC"))
	}
	h.write("table", table.String(), 0o600)
	h.write("systemctl", `#!/bin/sh
cd `+h.dir+` || exit 1
case "$*" in
*restart*) echo "$*" >>restarts ;;
*ActiveEnterTimestamp*) echo '`+entered+`' ;;
*ActiveState*) echo >>looks; field=1 ;;
*SubState*) field=2 ;;
*ExecMainStartTimestamp*) field=3 ;;
esac
[ -z "$field" ] || awk -F'|' -v at="$(wc -l <looks)" -v field="$field" 'NR <= at { last = $field } END { print last }' table
`, 0o755)
	for _, name := range []string{"looks", "restarts", "sleeps"} {
		if err := os.RemoveAll(filepath.Join(h.dir, name)); err != nil {
			h.Fatal(err)
		}
	}
}

// check runs the script and returns what it says.
func (h *unitHost) check() string {
	h.Helper()
	cmd := exec.Command("sh", "-c", restartCheck, CheckName, "rke2-server", filepath.Join(h.dir, "stamp"))
	cmd.Env = []string{"PATH=" + h.dir + ":" + os.Getenv("PATH"), "TZ=UTC"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.Fatalf("%v: %s", err, out)
	}
	return string(out)
}

func (h *unitHost) restarts() int { return h.count("restarts") }

// count is how many lines a file has; none when it is missing.
func (h *unitHost) count(name string) int {
	text, _ := os.ReadFile(filepath.Join(h.dir, name))
	return strings.Count(string(text), "\n")
}
