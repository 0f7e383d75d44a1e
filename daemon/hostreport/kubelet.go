package hostreport

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/daemon/podlogs"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/durable"
)

const (
	// settingsFile is where a server puts RKE2's settings, and rke2Data where its data are unless these say otherwise.
	settingsFile = "/etc/rancher/rke2/config.yaml.d/50-rancher.yaml"
	rke2Data     = "/var/lib/rancher/rke2"
	maxSettings  = 1 << 20
	// kubeletTail is how much of the kubelet's log is looked at, in bytes. It tries again every few seconds, and says a lot
	// between two tries while there is no API server.
	kubeletTail = 512 << 10
	// reasonHead is how much of the beginning of a long reason is kept. What went wrong in the end stands at its end.
	reasonHead = 100
)

var (
	// notStarted is what the kubelet logs when it could not do what a pod needs, and tries again: when, why and of which pod.
	// Source: kubernetes/kubernetes pkg/kubelet/pod_workers.go, klog's ErrorS.
	notStarted = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^E(\d{4} \d{2}:\d{2}:\d{2})\.\d+ .{0,80}"Error syncing pod, skipping" err="((?:[^"\\]|\\.)*)" pod="kube-system/([^"]+)"`)
	})
	// ofWhat is the beginning of such a reason, which the name of the component says already.
	ofWhat = regexp.MustCompile(`^failed to "\w+" for "[^"]*" with `)
)

// unstarted is a static pod that the kubelet has to run, and of which there is no log since it cannot start it: its image cannot be
// pulled, its sandbox, mounts or container cannot be made. Of those the container runtime knows nothing, and the journal of RKE2
// says no more than that the pod is not there.
func (h Host) unstarted(component string) []plans.PodReport {
	if _, err := os.Lstat(filepath.Join(h.rke2(), "agent/pod-manifests", component+".yaml")); err != nil {
		return nil // it is not to run yet, or does not run as a static pod
	}
	tried, reason := h.kubeletSays(component)
	if reason == "" {
		return nil
	}
	return []plans.PodReport{{Name: component, Since: tried, Lines: []string{reason}}}
}

// kubeletSays is when the kubelet tried last to start a static pod, and why it could not; nothing when that is long ago.
func (h Host) kubeletSays(component string) (tried time.Time, reason string) {
	log, err := podlogs.Kubelet(h.rke2(), kubeletTail)
	if err != nil {
		return time.Time{}, ""
	}
	now := h.Now()
	for _, line := range slices.Backward(strings.Split(string(log), "\n")) {
		m := notStarted().FindStringSubmatch(line)
		if m == nil || !strings.HasPrefix(m[3], component+"-") {
			continue
		}
		at, err := klogTime(m[1], now)
		if err != nil || now.Sub(at) > podsLately {
			break
		}
		text, err := strconv.Unquote(`"` + m[2] + `"`)
		if err != nil {
			continue
		}
		if tried.IsZero() {
			tried, reason = at.UTC(), text
		}
		// While it waits before the next try, it often says no more than that.
		if !strings.Contains(text, "BackOff: ") {
			reason = text
			break
		}
	}
	return tried, shortenReason(reason)
}

// klogTime reads the time of a line of klog, which is the host's own, without a year.
func klogTime(text string, now time.Time) (time.Time, error) {
	at, err := time.ParseInLocation("2006 0102 15:04:05", strconv.Itoa(now.Local().Year())+" "+text, time.Local)
	if err == nil && at.Sub(now) > 24*time.Hour { // of the last days of a year
		at = at.AddDate(-1, 0, 0)
	}
	return at, err
}

func shortenReason(reason string) string {
	reason = ofWhat.ReplaceAllString(strings.Join(strings.Fields(reason), " "), "")
	if len(reason) > maxLine {
		reason = reason[:reasonHead] + " … " + reason[len(reason)-(maxLine-reasonHead):]
	}
	return strings.ToValidUTF8(reason, "")
}

// rke2 is the data directory of RKE2.
func (h Host) rke2() string {
	if h.RKE2 != "" {
		return h.RKE2
	}
	var settings struct {
		DataDir string `json:"data-dir"`
	}
	text, err := durable.ReadFile(settingsFile, maxSettings)
	if err != nil || json.Unmarshal(text, &settings) != nil || !filepath.IsAbs(settings.DataDir) {
		return rke2Data
	}
	return settings.DataDir
}
