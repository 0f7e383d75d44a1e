// Package hostreport looks at what may keep a plan from getting done on this host: the units of the Kubernetes
// distributions that do not run, how often systemd has restarted them, and the lines of their journal that speak of
// errors. It asks systemctl and journalctl, and only when somebody wants to know.
package hostreport

import (
	"context"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

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
			report.Lines = relevant(string(journal))
		}
		reports = append(reports, report)
	}
	return reports
}

func (h Host) withDefaults() Host {
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
	// bad are lines that say what went wrong, the surest first: of logrus and of programs that just say so; of klog, whose
	// errors are as often of a wait that ends by itself.
	bad = []*regexp.Regexp{regexp.MustCompile(`level="?(error|fatal|panic)|(?i)^(error|fatal|panic)\b`), regexp.MustCompile(`^[EF]\d{4} `)}
	// logrusMessage is what a logrus line has to say.
	logrusMessage = regexp.MustCompile(`msg="((?:[^"\\]|\\.)*)"`)
)

// relevant are the last lines of a journal that say what went wrong, or simply the last ones.
func relevant(journal string) []string {
	lines := strings.FieldsFunc(journal, func(r rune) bool { return r == '\n' || r == '\r' })
	for _, kind := range bad {
		if found := lastLines(lines, kind.MatchString); len(found) > 0 {
			return found
		}
	}
	return lastLines(lines, func(line string) bool { return strings.TrimSpace(line) != "" })
}

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
