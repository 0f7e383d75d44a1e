package hostreport

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
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
E1121 12:00:00.000000 1 controller.go:102] cannot sync
time="2026-11-21T12:00:09Z" level=error msg="kubelet exited"
E1121 12:00:10.000000 1 controller.go:102] cannot sync
`
	if diff := cmp.Diff([]string{"first", "kubelet exited"}, relevant("k3s", journal)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"E1121 12:00:00 one"}, relevant("k3s", "plain\nE1121 12:00:00 one\nplain\n")); diff != "" {
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
	for _, line := range relevant("k3s", "E1121 12:00:00 "+strings.Repeat("é", 1000)+"\n") {
		if len(line) > maxLine+len("…") || strings.ToValidUTF8(line, "?") != line {
			t.Errorf("a line of %d bytes: %q", len(line), line)
		}
	}
}

// TestALineThatExplains comes before what each runtime logs on a healthy start. The lines are written after those of such starts and stops.
func TestALineThatExplains(t *testing.T) {
	const (
		sysctl    = `time="2026-11-21T11:59:50Z" level=error msg="Failed to set sysctl: open /proc/sys/net/netfilter/nf_conntrack_max: permission denied"` + "\n"
		image     = `time="2026-11-21T11:59:51Z" level=error msg="Failed to process image event: image \"index.docker.io/rancher/hardened-etcd:v3.6.5\": not found"` + "\n"
		core      = `time="2026-11-21T11:59:52Z" level=error msg="Sending HTTP/1.1 503 response to 10.0.0.2:41234: runtime core not ready"` + "\n"
		forbidden = `time="2026-11-21T11:59:53Z" level=error msg="Error getting the node object: nodes \"pier-1\" is forbidden: User \"system:k3s-controller\" cannot get resource \"nodes\""` + "\n"
		noNode    = `E1121 11:59:54.014648      53 kubelet.go:2461] "Error getting node" err="node \"pier-1\" not found"` + "\n"
		stopped   = "Error: context canceled\n"
		token     = `time="2026-11-21T11:59:40Z" level=fatal msg="starting kubernetes: preparing server: token CA hash does not match"` + "\n"
		disk      = `E1121 11:59:41.000000      53 eviction_manager.go:1] "no space left on device"` + "\n"
		readable  = "starting kubernetes: preparing server: token CA hash does not match"
	)
	healthy := sysctl + image + core + forbidden + noNode + stopped
	for name, tc := range map[string]struct {
		runtime, journal string
		want             []string
	}{
		"the reason comes before":        {"rke2", token + healthy, []string{readable}},
		"the reason comes after":         {"rke2", healthy + token, []string{readable}},
		"of a klog line":                 {"rke2", disk + healthy, []string{strings.TrimSpace(disk)}},
		"k3s has no list of images":      {"k3s", token + image + core, []string{readable, `Failed to process image event: image "index.docker.io/rancher/hardened-etcd:v3.6.5": not found`}},
		"nothing explains, so plainly":   {"rke2", "Waiting for etcd\n" + healthy, []string{"Waiting for etcd"}},
		"nothing but what is expected":   {"rke2", core + stopped, []string{"Sending HTTP/1.1 503 response to 10.0.0.2:41234: runtime core not ready", "Error: context canceled"}},
		"half of an expected line is no": {"k3s", strings.Replace(core, "runtime core not ready", "tunnel is closed", 1), []string{"Sending HTTP/1.1 503 response to 10.0.0.2:41234: tunnel is closed"}},
	} {
		if diff := cmp.Diff(tc.want, relevant(tc.runtime, tc.journal)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// recorded are the lines of a journal in testdata.
func recorded(t *testing.T, runtime string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", runtime+".journal"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(strings.TrimSpace(string(text)), "\n"), func(line string) bool { return strings.HasPrefix(line, "#") })
}

// TestHealthyJournals have nothing that explains, and hide nothing that does. Each row of expected.txt has been seen in one.
func TestHealthyJournals(t *testing.T) {
	const reason = `time="2026-11-21T11:59:40Z" level=fatal msg="token CA hash does not match"`
	var all []string
	for runtime := range expected {
		lines := recorded(t, runtime)
		all = append(all, lines...)
		if found := explaining(runtime, lines); found != nil {
			t.Errorf("of a healthy start of %s it shows %q", runtime, found)
		}
		for i := range lines {
			with := strings.Join(slices.Insert(slices.Clone(lines), i, reason), "\n")
			if diff := cmp.Diff([]string{"token CA hash does not match"}, relevant(runtime, with)); diff != "" {
				t.Errorf("%s, with a reason before line %d: %s", runtime, i, diff)
			}
		}
	}
	for runtime, rows := range expected {
		for _, parts := range rows {
			if slices.Contains(parts, "") || !slices.ContainsFunc(all, func(line string) bool { return hasAll(line, parts) }) {
				t.Errorf("no journal has a line of the row %q of %s", parts, runtime)
			}
		}
	}
	if len(expected) != 2 {
		t.Errorf("rows of %d runtimes, want those of k3s and rke2", len(expected))
	}
}

// TestPodsThatCrash are those that the kubelet starts again and again, with the line that says why.
func TestPodsThatCrash(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	dir := t.TempDir()
	write := func(path string, ago time.Duration, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, noon.Add(-ago), noon.Add(-ago)); err != nil {
			t.Fatal(err)
		}
	}
	const flag = "2026-11-21T11:58:00.1Z stderr F Error: unknown flag: --no-such-flag\n"
	// Crashes; its last run has begun and said nothing yet. The pod before it is gone.
	write("kube-system_kube-apiserver-pier-1_uid-old/kube-apiserver/7.log", time.Hour, flag)
	write("kube-system_kube-apiserver-pier-1_uid/kube-apiserver/3.log", 2*time.Minute, flag)
	write("kube-system_kube-apiserver-pier-1_uid/kube-apiserver/4.log", time.Second, "2026-11-21T11:59:59.1Z stderr F I1121 starting\n")
	// Runs, after it ended long ago; runs for the first time; of another namespace; another's container.
	write("kube-system_kube-scheduler-pier-1_uid/kube-scheduler/1.log", 2*time.Hour, flag)
	write("kube-system_kube-scheduler-pier-1_uid/kube-scheduler/2.log", time.Second, flag)
	write("kube-system_etcd-pier-1_uid/etcd/0.log", time.Second, flag)
	write("theirs_kubelet-x_uid/kubelet/1.log", time.Second, flag)
	write("theirs_kubelet-x_uid/kubelet/2.log", time.Second, flag)
	write("kube-system_kube-controller-manager-x_uid/sidecar/1.log", time.Second, flag)
	write("kube-system_kube-controller-manager-x_uid/sidecar/2.log", time.Second, flag)
	h := Host{Now: func() time.Time { return noon }, PodLogs: dir}
	want := []plans.PodReport{{Name: "kube-apiserver", Restarts: 4, Since: noon.Add(-2 * time.Minute), Lines: []string{"Error: unknown flag: --no-such-flag"}}}
	got := h.Pods([]string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "../x", "calico"})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	h.PodLogs = filepath.Join(dir, "none")
	if got := h.Pods([]string{"etcd"}); got != nil {
		t.Errorf("without logs: %+v", got)
	}
}
