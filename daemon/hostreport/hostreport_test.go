package hostreport

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/google/go-cmp/cmp"
)

// shown is what systemctl prints of units that are all of one distribution.
func shown(unit, load, active, sub, restarts, changed string) string {
	return "NRestarts=" + restarts + "\nId=" + unit + ".service\nLoadState=" + load + "\nActiveState=" + active + "\nSubState=" + sub + "\nStateChangeTimestampMonotonic=" + changed + "\n"
}

func TestUnits(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const none = "NRestarts=0\nId=rke2-server.service\nLoadState=not-found\nActiveState=inactive\nSubState=dead\nStateChangeTimestampMonotonic=0\n"
	const journal = `time="2026-11-21T11:59:50Z" level=info msg="Starting"
time="2026-11-21T11:59:58Z" level=error msg="kubelet exited: failed to parse kubelet flag: unknown flag: \"--x\""
k3s.service: Main process exited, code=exited, status=1/FAILURE
k3s.service: Failed with result 'exit-code'.
`
	for name, tc := range map[string]struct {
		show, journal string
		want          []plans.UnitReport
	}{
		"all is well":               {shown("k3s", "loaded", "active", "running", "0", "600000000"), journal, nil},
		"nothing is installed":      {none, journal, nil},
		"the unit of another role":  {shown("rke2-agent", "loaded", "inactive", "dead", "0", "0") + "UnitFileState=disabled\n", "", nil},
		"enabled and not started":   {shown("k3s", "loaded", "inactive", "dead", "0", "0") + "UnitFileState=enabled\n", "", []plans.UnitReport{{Name: "k3s", State: "inactive (dead)"}}},
		"disabled and stopped":      {shown("k3s", "loaded", "inactive", "dead", "0", "990000000") + "UnitFileState=disabled\n", "", []plans.UnitReport{{Name: "k3s", State: "inactive (dead)", Since: noon.Add(-10 * time.Second)}}},
		"restarted long ago":        {shown("k3s", "loaded", "active", "running", "3", "600000000"), journal, nil},
		"stopped":                   {shown("k3s", "loaded", "inactive", "dead", "0", "990000000"), "Stopped k3s.\n", []plans.UnitReport{{Name: "k3s", State: "inactive (dead)", Since: noon.Add(-10 * time.Second), Lines: []string{"Stopped k3s."}}}},
		"never ends its start":      {shown("k3s", "loaded", "activating", "start", "0", "700000000"), "one\n\ntwo\nWaiting for CRI startup\n", []plans.UnitReport{{Name: "k3s", State: "activating (start)", Since: noon.Add(-5 * time.Minute), Lines: []string{"two", "Waiting for CRI startup"}}}},
		"restarted again and again": {none + "\n" + shown("k3s-agent", "loaded", "active", "running", "7", "999000000"), journal, []plans.UnitReport{{Name: "k3s-agent", State: "active (running)", Since: noon.Add(-time.Second), Restarts: 7, Lines: []string{`kubelet exited: failed to parse kubelet flag: unknown flag: "--x"`}}}},
	} {
		t.Run(name, func(t *testing.T) {
			h := Host{
				Now: func() time.Time { return noon }, Uptime: func() time.Duration { return 1000 * time.Second },
				Run: func(_ context.Context, program string, args ...string) ([]byte, error) {
					switch program {
					case "systemctl":
						return []byte(tc.show), nil
					case "journalctl":
						return []byte(tc.journal), nil
					}
					return nil, errors.New("there is no " + program)
				},
			}
			if diff := cmp.Diff(tc.want, h.Units(t.Context())); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTheSurestLinesCount has errors of klog after the line that says why k3s ended, and that line twice.
func TestTheSurestLinesCount(t *testing.T) {
	const journal = `time="2026-11-21T11:59:58Z" level=fatal msg="first"
time="2026-11-21T11:59:59Z" level=error msg="kubelet exited"
E1121 12:00:00.000000 1 controller.go:102] Error removing old endpoints
time="2026-11-21T12:00:09Z" level=error msg="kubelet exited"
E1121 12:00:10.000000 1 controller.go:102] Error removing old endpoints
`
	if diff := cmp.Diff([]string{"first", "kubelet exited"}, relevant(journal)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"E1121 12:00:00 one"}, relevant("plain\nE1121 12:00:00 one\nplain\n")); diff != "" {
		t.Error(diff)
	}
}

func TestNoServiceManager(t *testing.T) {
	h := Host{Run: func(context.Context, string, ...string) ([]byte, error) { return nil, errors.New("not found") }}
	if got := h.Units(t.Context()); got != nil {
		t.Errorf("%+v", got)
	}
}

func TestLinesAreBounded(t *testing.T) {
	for _, line := range relevant("E1121 12:00:00 " + strings.Repeat("é", 1000) + "\n") {
		if len(line) > maxLine+len("…") || strings.ToValidUTF8(line, "?") != line {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
}
