// Package hostreport looks at what may keep a plan from getting done on this host: the units of the Kubernetes
// distributions that do not run, how often systemd has restarted them, static pods that the kubelet starts again and again or
// cannot start, and the lines of their logs that speak of errors. It asks systemctl and journalctl and reads the logs of pods
// and of the kubelet, and only when a plan takes long or does not get healthy.
package hostreport

import (
	"cmp"
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/daemon/podlogs"
	"github.com/drover-project/drover/plans"
)

const (
	// askLimit bounds each question.
	askLimit = 5 * time.Second
	// lately is how long after a restart by itself a unit that runs counts as not well.
	lately = 2 * time.Minute
	// journalTail is how much of a unit's journal is looked at, in lines: the start of k3s prints hundreds, and the one
	// that says why it ended is before them. maxLines is how many are reported, maxLine how long each may be, in bytes.
	journalTail = 1500
	maxLines    = 2
	maxLine     = 300
)

// units are those of the distributions, servers first.
var units = []string{"k3s", "k3s-agent", "rke2-server", "rke2-agent"}

// Host asks the service manager of this host. The zero value asks the real one.
type Host struct {
	// Run runs a program and returns what it prints; nil is the real thing.
	Run func(ctx context.Context, name string, args ...string) ([]byte, error)
	// Now and Uptime are the clocks; nil are the real ones. Uptime is the monotonic one that systemd's times are of.
	Now    func() time.Time
	Uptime func() time.Duration
	// PodLogs is where the kubelet keeps logs of pods; empty is podlogs.Directory.
	PodLogs string
	// RKE2 is its data directory; empty is the one that its settings on this host name.
	RKE2 string
}

// Units are the units of the distributions that are installed and not well. A question that is not answered has no units.
func (h Host) Units(ctx context.Context) []plans.UnitReport {
	h = h.withDefaults()
	args := []string{"show", "--property=Id,LoadState,ActiveState,SubState,UnitFileState,NRestarts,StateChangeTimestampMonotonic"}
	for _, unit := range units {
		args = append(args, unit+".service")
	}
	out, err := h.run(ctx, "systemctl", args...)
	if err != nil {
		return nil
	}
	var reports []plans.UnitReport
	for block := range strings.SplitSeq(strings.TrimSpace(string(out)), "\n\n") {
		report, sick := h.unit(block)
		if !sick {
			continue
		}
		if journal, err := h.run(ctx, "journalctl", "--no-pager", "--quiet", "--output=cat", "--lines="+strconv.Itoa(journalTail), "--unit="+report.Name+".service"); err == nil {
			report.Lines = relevant(runtimeOf(report.Name), string(journal))
		}
		reports = append(reports, report)
	}
	return reports
}

// runtimeOf is the distribution that a unit belongs to.
func runtimeOf(unit string) string {
	name, _, _ := strings.Cut(unit, "-")
	return name
}

func (h Host) withDefaults() Host {
	h.PodLogs = cmp.Or(h.PodLogs, podlogs.Directory)
	if h.Run == nil {
		h.Run = func(ctx context.Context, name string, args ...string) ([]byte, error) {
			return exec.CommandContext(ctx, name, args...).Output()
		}
	}
	if h.Now == nil {
		h.Now = time.Now
	}
	if h.Uptime == nil {
		h.Uptime = func() time.Duration {
			var t unix.Timespec
			if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
				return 0
			}
			return time.Duration(t.Nano())
		}
	}
	return h
}

func (h Host) run(ctx context.Context, name string, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	return h.Run(ctx, name, args...)
}

// unit reads what systemctl shows of one unit, and whether it is installed and not well.
func (h Host) unit(block string) (report plans.UnitReport, sick bool) {
	shown := map[string]string{}
	for line := range strings.Lines(block) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		shown[key] = value
	}
	report.Name = strings.TrimSuffix(shown["Id"], ".service")
	report.State = shown["ActiveState"] + " (" + shown["SubState"] + ")"
	report.Restarts, _ = strconv.Atoi(shown["NRestarts"]) // an old systemd does not show it
	inState := time.Duration(0)
	if micros, err := strconv.ParseInt(shown["StateChangeTimestampMonotonic"], 10, 64); err == nil && micros > 0 {
		inState = max(h.Uptime()-time.Duration(micros)*time.Microsecond, 0)
		report.Since = h.Now().Add(-inState).UTC().Truncate(time.Second)
	}
	runs := shown["ActiveState"] == "active" && (report.Restarts == 0 || inState > lately)
	// RKE2 brings the units of servers and of agents to every host, and only that of the host's role is enabled.
	another := shown["ActiveState"] == "inactive" && shown["UnitFileState"] == "disabled" && report.Since.IsZero()
	return report, shown["LoadState"] == "loaded" && !runs && !another
}

var (
	// bad are lines that say what went wrong, the surest first: of logrus, of etcd and of programs that just say so; of klog,
	// whose errors are as often of a wait that ends by itself.
	bad = []*regexp.Regexp{regexp.MustCompile(`level="?(error|fatal|panic)|(?i)^(error|fatal|panic)\b|^{"level":"(error|fatal|panic)"`), regexp.MustCompile(`^[EF]\d{4} `)}
	// logrusMessage is what a logrus line has to say.
	logrusMessage = regexp.MustCompile(`msg="((?:[^"\\]|\\.)*)"`)
)

// relevant are the last lines of a runtime's journal that say what went wrong, or simply the last ones.
func relevant(runtime, journal string) []string {
	lines := strings.FieldsFunc(journal, func(r rune) bool { return r == '\n' || r == '\r' })
	if found := explaining(runtime, lines); len(found) > 0 {
		return found
	}
	if found := lastLines(lines, func(line string) bool { return isText(line) && !isExpected(runtime, line) }); len(found) > 0 {
		return found
	}
	return lastLines(lines, isText)
}

// explaining are the last lines that say what went wrong, without those that the runtime logs on a healthy start.
func explaining(runtime string, lines []string) []string {
	for _, kind := range bad {
		if found := lastLines(lines, func(line string) bool { return kind.MatchString(line) && !isExpected(runtime, line) }); len(found) > 0 {
			return found
		}
	}
	return nil
}

func isText(line string) bool { return strings.TrimSpace(line) != "" }

// lastLines are the last lines that match, oldest first. The same one again counts once.
func lastLines(lines []string, match func(string) bool) []string {
	var found []string
	for _, line := range slices.Backward(lines) {
		if !match(line) {
			continue
		}
		if text := shorten(strings.TrimSpace(line)); !slices.Contains(found, text) {
			found = append(found, text)
		}
		if len(found) == maxLines {
			break
		}
	}
	slices.Reverse(found)
	return found
}

// shorten keeps what a person wants to read of a line.
func shorten(line string) string {
	if m := logrusMessage.FindStringSubmatch(line); m != nil {
		if text, err := strconv.Unquote(`"` + m[1] + `"`); err == nil {
			line = strings.Join(strings.Fields(text), " ")
		}
	}
	if len(line) > maxLine {
		line = line[:maxLine] + "…"
	}
	return strings.ToValidUTF8(line, "")
}
