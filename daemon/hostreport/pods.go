package hostreport

import (
	"errors"
	"io/fs"
	"time"

	"github.com/drover-project/drover/daemon/podlogs"
	"github.com/drover-project/drover/plans"
)

const (
	// podsLately is how long after its last end a pod counts as not well: the kubelet waits 5 minutes at most before it
	// starts one again, and that one may run for some time before it ends.
	podsLately = 10 * time.Minute
	// podTail is how much of the log of a run is looked at, in bytes.
	podTail = 64 << 10
	// maxComponents is how many components are looked at.
	maxComponents = 16
)

// Pods are those of the components whose static pods ended and were started again of late, or have no log since the kubelet cannot
// start them. A host where they do not run as pods has none.
func (h Host) Pods(components []string) []plans.PodReport {
	h = h.withDefaults()
	var reports []plans.PodReport
	for _, name := range components[:min(len(components), maxComponents)] {
		pod, err := podlogs.Find(h.PodLogs, name)
		if errors.Is(err, fs.ErrNotExist) {
			reports = append(reports, h.unstarted(name)...)
			continue
		}
		if err != nil || len(pod.Runs) < 2 || pod.Last().Restart == 0 {
			continue // it runs for the first time, or for so long that the run before has no log any more
		}
		before := pod.Runs[len(pod.Runs)-2]
		if h.Now().Sub(before.Wrote) > podsLately {
			continue
		}
		lines := whyPodEnded(pod)
		if len(lines) == 0 { // a container that was made and cannot be started has an empty log
			if _, reason := h.kubeletSays(name); reason != "" {
				lines = []string{reason}
			}
		}
		reports = append(reports, plans.PodReport{
			Name: name, Restarts: pod.Last().Restart, Since: before.Wrote.UTC().Truncate(time.Second), Lines: lines,
		})
	}
	return reports
}

// whyPodEnded are the lines of the run of now that explain, or of the run before: that of now may have begun just then.
func whyPodEnded(pod podlogs.Pod) []string {
	var last []string
	for _, run := range []podlogs.Run{pod.Last(), pod.Runs[len(pod.Runs)-2]} {
		log, err := pod.Tail(run, podTail)
		if err != nil {
			continue
		}
		var lines []string
		for _, line := range podlogs.Lines(log) {
			lines = append(lines, line.Text)
		}
		if found := explaining("", lines); len(found) > 0 {
			return found
		}
		if last == nil {
			last = lastLines(lines, isText)
		}
	}
	return last
}
