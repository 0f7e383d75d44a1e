// Logs of this host: of its units, as journalctl prints them, line by line while they come, and of its static pods.

package hostservice

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/daemon/podlogs"
)

const (
	usualTail = 200
	maxTail   = 100_000
	// maxLogs is how many logs are read at once.
	maxLogs = 16
	// takeLimit is how long a reader may take to accept a piece.
	takeLimit = 30 * time.Second
	// maxUnitName is the longest name of a unit, in bytes.
	maxUnitName = 255
)

var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*$`)

// logs is GET /v1/logs?unit=NAME&tail=N&follow=1, or pod=COMPONENT&tail=N&follow=1.
func (s *Service) logs(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	tail, follow, err := usualTail, false, error(nil)
	if text := q.Get("tail"); text != "" {
		tail, err = strconv.Atoi(text)
	}
	if text := q.Get("follow"); text != "" && err == nil {
		follow, err = strconv.ParseBool(text)
	}
	switch {
	case q.Get("container") != "":
		http.Error(w, "this host has a system agent, which shows the logs of units alone", http.StatusBadRequest)
		return
	case q.Get("pod") != "" && (q.Get("unit") != "" || !podlogs.IsComponent(q.Get("pod"))):
		http.Error(w, "pod has to be the name of a component, such as kube-apiserver, without unit", http.StatusBadRequest)
		return
	case q.Get("pod") == "" && (len(q.Get("unit")) > maxUnitName || !unitName.MatchString(q.Get("unit"))):
		http.Error(w, "unit is not a valid name of a systemd unit", http.StatusBadRequest)
		return
	case err != nil || tail < 0 || tail > maxTail:
		http.Error(w, fmt.Sprintf("tail has to be a number of lines from 0 to %d, follow 1 or 0", maxTail), http.StatusBadRequest)
		return
	}
	select {
	case s.reading <- struct{}{}:
		defer func() { <-s.reading }()
	default:
		http.Error(w, fmt.Sprintf("%d logs are read already; close one", maxLogs), http.StatusTooManyRequests)
		return
	}
	s.o.Logger.Info("log is sent to the server", "unit", q.Get("unit"), "pod", q.Get("pod"))
	if component := q.Get("pod"); component != "" {
		s.podLog(w, r, component, tail, follow)
		return
	}
	UnitLog(w, r, q.Get("unit"), tail, follow)
}

// maxPodLog is how much is read of the logs of a pod, in bytes. The kubelet begins another file at 10 MiB.
const maxPodLog = 16 << 20

// podLog answers with the last lines of the newest static pod of a component, those of its runs before with them, and, with
// follow, what comes, until the request ends.
func (s *Service) podLog(w http.ResponseWriter, r *http.Request, component string, tail int, follow bool) {
	pod, err := podlogs.Find(filepath.Join(s.o.Root, podlogs.Directory), component)
	if err != nil {
		code := http.StatusServiceUnavailable
		if errors.Is(err, fs.ErrNotExist) {
			code = http.StatusNotFound
		}
		http.Error(w, err.Error(), code)
		return
	}
	out := bufio.NewWriter(Prompt(w))
	send := func(lines []string) error {
		for _, line := range lines {
			_, _ = out.WriteString(line + "\n") // Flush says it
		}
		return out.Flush()
	}
	if err = send(lastOf(pod, component, tail)); err == nil && follow {
		err = pod.Follow(r.Context(), component,
			func(restart int) error { return send([]string{runHeading(component, restart)}) },
			func(lines []podlogs.Line) error { return send(readable(lines)) })
	}
	if err != nil {
		s.o.Logger.Debug("log of a pod is not read to its end", "error", err)
	}
}

// lastOf are the last lines of a pod's runs.
func lastOf(pod podlogs.Pod, component string, tail int) (lines []string) {
	left := int64(maxPodLog)
	for _, run := range slices.Backward(pod.Runs) {
		if len(lines) >= tail || left <= 0 {
			break
		}
		log, err := pod.Tail(run, left)
		if err != nil {
			continue // the kubelet has removed it meanwhile
		}
		left -= int64(len(log))
		of := append([]string{runHeading(component, run.Restart)}, readable(podlogs.Lines(log))...)
		lines = append(of[max(0, len(of)-(tail-len(lines))):], lines...)
	}
	return lines
}

func runHeading(component string, restart int) string {
	return fmt.Sprintf("-- %s, started again %d times --", component, restart)
}

func readable(lines []podlogs.Line) []string {
	all := make([]string, len(lines))
	for i, line := range lines {
		all[i] = strings.TrimSpace(line.Time + " " + line.Text)
	}
	return all
}

// UnitLog answers with the last lines of a unit's part of the journal and, with follow, what
// comes, until the request ends.
func UnitLog(w http.ResponseWriter, r *http.Request, unit string, tail int, follow bool) {
	journalctl, err := exec.LookPath("journalctl")
	if err != nil {
		http.Error(w, "there is no journalctl where the agent runs; in a container, ask for container logs", http.StatusNotImplemented)
		return
	}
	args := []string{"--no-pager", "--output=short-iso", "--lines=" + strconv.Itoa(tail), "--unit=" + unit}
	if follow {
		args = append(args, "--follow")
	}
	cmd := exec.CommandContext(r.Context(), journalctl, args...)
	cmd.WaitDelay = requestLimit
	cmd.Stdout = Prompt(w)
	if err := cmd.Run(); err != nil && r.Context().Err() == nil {
		fmt.Fprintf(w, "journalctl: %v\n", err)
	}
}

// Prompt writes text and sends each piece on its way at once. It lifts the server's limits
// for a whole request: a log may be followed for days.
func Prompt(w http.ResponseWriter) io.Writer {
	p := prompter{w, http.NewResponseController(w)}
	_ = p.control.SetReadDeadline(time.Time{}) // a connection without deadlines has none to lift
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(http.StatusOK)
	_ = p.control.Flush() // an error of it comes again with the first Write
	return p
}

type prompter struct {
	io.Writer
	control *http.ResponseController
}

func (p prompter) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(takeLimit)) // as above
	n, err := p.Writer.Write(b)
	if err == nil {
		err = p.control.Flush()
	}
	return n, err
}
