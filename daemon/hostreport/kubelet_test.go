package hostreport

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/plans"
)

// put writes a file, with its directories.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// refusal is a line of the kubelet about a pod that it cannot start.
func refusal(at time.Time, pod, reason string) string {
	return fmt.Sprintf("E%s.000001    1234 pod_workers.go:1324] \"Error syncing pod, skipping\" err=%q pod=%q podUID=\"d0\"\n", at.Local().Format("0102 15:04:05"), reason, pod)
}

// TestPodsThatAreNeverStarted have no log; the kubelet's own log says why.
func TestPodsThatAreNeverStarted(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const (
		pull    = `failed to "StartContainer" for "etcd" with ErrImagePull: "failed to resolve reference \"mirror.lan/hardened-etcd:v3\": lookup mirror.lan: no such host"`
		backoff = `failed to "StartContainer" for "etcd" with ImagePullBackOff: "Back-off pulling image \"mirror.lan/hardened-etcd:v3\""`
		sandbox = `failed to "CreatePodSandbox" for "etcd-pier-1_kube-system(d0)" with CreatePodSandboxError: "failed to get sandbox image \"mirror.lan/pause:3.6\""`
		mount   = "unmounted volumes=[file0], unattached volumes=[], failed to process volumes=[]: context deadline exceeded"
	)
	pulled := `ErrImagePull: "failed to resolve reference \"mirror.lan/hardened-etcd:v3\": lookup mirror.lan: no such host"`
	before := noon.Add(-20 * time.Second)
	one := func(since time.Time, line string) []plans.PodReport {
		return []plans.PodReport{{Name: "etcd", Since: since, Lines: []string{line}}}
	}
	for name, tc := range map[string]struct {
		log  string
		want []plans.PodReport
	}{
		"its image cannot be pulled":         {refusal(before, "kube-system/etcd-pier-1", pull), one(before, pulled)},
		"it waits before it is pulled again": {refusal(before.Add(-time.Minute), "kube-system/etcd-pier-1", pull) + refusal(before, "kube-system/etcd-pier-1", backoff), one(before, pulled)},
		"it only waits":                      {refusal(before, "kube-system/etcd-pier-1", backoff), one(before, `ImagePullBackOff: "Back-off pulling image \"mirror.lan/hardened-etcd:v3\""`)},
		"the last reason counts":             {refusal(before.Add(-time.Minute), "kube-system/etcd-pier-1", pull) + refusal(before, "kube-system/etcd-pier-1", sandbox), one(before, `CreatePodSandboxError: "failed to get sandbox image \"mirror.lan/pause:3.6\""`)},
		"its volumes are not there":          {refusal(before, "kube-system/etcd-pier-1", mount), one(before, "unmounted volumes=[file0], unattached volumes=[], failed to process volumes=[]: context deadline exceeded")},
		"an hour ago":                        {refusal(noon.Add(-time.Hour), "kube-system/etcd-pier-1", pull), nil},
		"another pod":                        {refusal(before, "kube-system/kube-proxy-pier-1", pull), nil},
		"a pod of another namespace":         {refusal(before, "theirs/etcd-pier-1", pull), nil},
		"another message":                    {strings.Replace(refusal(before, "kube-system/etcd-pier-1", pull), "Error syncing pod, skipping", "Error updating", 1), nil},
		"what a pod has printed":             {"I1121 " + refusal(before, "kube-system/etcd-pier-1", pull), nil},
		"nothing":                            {"", nil},
	} {
		t.Run(name, func(t *testing.T) {
			h := Host{Now: func() time.Time { return noon }, PodLogs: t.TempDir(), RKE2: t.TempDir()}
			put(t, h.RKE2+"/agent/pod-manifests/etcd.yaml", "kind: Pod\n")
			put(t, h.RKE2+"/agent/logs/kubelet.log", tc.log)
			if diff := cmp.Diff(tc.want, h.Pods([]string{"etcd", "kube-proxy", "../etcd"})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTheKubeletIsAskedLast: of a component that has a log the log counts, and of one that has an empty log, as a container has
// that was made and cannot be started, the kubelet's word.
func TestTheKubeletIsAskedLast(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	const text = "2026-11-21T11:59:59.1Z stderr F Error: unknown flag: --x\n"
	for name, tc := range map[string]struct {
		logs []string // of its runs
		want string   // the line, of one that was started again
	}{
		"it runs for the first time": {[]string{text}, ""},
		"it says why it ends":        {[]string{text, ""}, "Error: unknown flag: --x"},
		"it never ran":               {[]string{"", ""}, "RunContainerError: no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			h := Host{Now: func() time.Time { return noon }, PodLogs: t.TempDir(), RKE2: t.TempDir()}
			put(t, h.RKE2+"/agent/pod-manifests/etcd.yaml", "kind: Pod\n")
			put(t, h.RKE2+"/agent/logs/kubelet.log", refusal(noon, "kube-system/etcd-pier-1", `failed to "StartContainer" for "etcd" with RunContainerError: no such file`))
			for i, log := range tc.logs {
				path := fmt.Sprintf("%s/kube-system_etcd-pier-1_d0/etcd/%d.log", h.PodLogs, i)
				put(t, path, log)
				if err := os.Chtimes(path, noon, noon); err != nil {
					t.Fatal(err)
				}
			}
			var want []plans.PodReport
			if tc.want != "" {
				want = []plans.PodReport{{Name: "etcd", Restarts: 1, Since: noon, Lines: []string{tc.want}}}
			}
			if diff := cmp.Diff(want, h.Pods([]string{"etcd"})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestTheKubeletsLogIsUntrusted: a long reason keeps its end, where the cause stands, and of the log the end alone is read, of a
// file alone.
func TestTheKubeletsLogIsUntrusted(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	h := Host{Now: func() time.Time { return noon }, PodLogs: t.TempDir(), RKE2: t.TempDir()}
	log := h.RKE2 + "/agent/logs/kubelet.log"
	put(t, h.RKE2+"/agent/pod-manifests/etcd.yaml", "")
	line := refusal(noon, "kube-system/etcd-pier-1", "ErrImagePull: "+strings.Repeat("é", 300)+": no such host")
	put(t, log, line)
	got := h.Pods([]string{"etcd"})
	if len(got) != 1 || len(got[0].Lines[0]) > maxLine+len(" … ") || !strings.HasPrefix(got[0].Lines[0], "ErrImagePull: ") || !strings.HasSuffix(got[0].Lines[0], ": no such host") ||
		strings.ToValidUTF8(got[0].Lines[0], "?") != got[0].Lines[0] {
		t.Errorf("%+v", got)
	}
	put(t, log, line+strings.Repeat("I1121 12:00:00.000001 1234 x\n", kubeletTail/20))
	if got := h.Pods([]string{"etcd"}); got != nil {
		t.Errorf("of a line far back: %+v", got)
	}
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(log, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := h.Pods([]string{"etcd"}); got != nil {
		t.Errorf("of a pipe: %+v", got)
	}
	outside := filepath.Join(t.TempDir(), "theirs")
	put(t, outside, line)
	if err := os.Remove(log); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, log); err != nil {
		t.Fatal(err)
	}
	if got := h.Pods([]string{"etcd"}); got != nil {
		t.Errorf("of a file elsewhere: %+v", got)
	}
}

// TestTheKubeletsTimes have no year.
func TestTheKubeletsTimes(t *testing.T) {
	for text, want := range map[string]time.Time{
		"0101 00:00:30": time.Date(2027, 1, 1, 0, 0, 30, 0, time.Local),
		"1231 23:59:30": time.Date(2026, 12, 31, 23, 59, 30, 0, time.Local),
	} {
		if got, err := klogTime(text, time.Date(2027, 1, 1, 0, 1, 0, 0, time.Local)); err != nil || !got.Equal(want) {
			t.Errorf("%s is %s, %v", text, got, err)
		}
	}
	if _, err := klogTime("1399 12:00:00", time.Now()); err == nil {
		t.Error("a month that is none is read")
	}
}
