// Package podlogs reads the logs of the static pods that a distribution runs its components in, as the kubelet keeps them
// on this host. Whatever stands there is untrusted: it is read to a limit, and nothing outside the directory is opened.
//
// Wire source: kubernetes/kubernetes pkg/kubelet/kuberuntime (BuildPodLogsDirectory, BuildContainerLogsPath,
// logs.parseCRILog): a directory NAMESPACE_POD_UID, in it one for each container, in that N.log for its Nth restart; a line
// is a time in RFC 3339, the stream, P or F for a part or the end of a line, and the text.
package podlogs

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Directory is where the kubelet keeps logs.
const Directory = "/var/log/pods"

const (
	// maxEntries is how many entries of a directory are looked at.
	maxEntries = 4096
	// maxRuns is how many runs of a container are looked at, the last ones.
	maxRuns = 8
)

// componentForm is the name of a component and of its container.
var componentForm = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`)

// IsComponent says whether a text can be the name of a component.
func IsComponent(name string) bool { return componentForm.MatchString(name) }

var runForm = regexp.MustCompile(`^([0-9]{1,6})\.log$`)

// Run is one life of the pod's container.
type Run struct {
	// Restart is 0 for the first run, and counts from there.
	Restart int
	// Wrote is when it wrote last.
	Wrote time.Time

	path string
}

// Pod is the newest static pod of a component.
type Pod struct {
	// Runs are its last ones that have a log, the oldest first; there is one at least.
	Runs []Run

	directory string
}

// Last is the run of now, or the last one.
func (p Pod) Last() Run { return p.Runs[len(p.Runs)-1] }

// Find is the pod of a component that wrote last, in a directory as Directory. That there is none is fs.ErrNotExist.
func Find(directory, component string) (Pod, error) {
	if !IsComponent(component) {
		return Pod{}, fmt.Errorf("%.80q is not the name of a component", component)
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return Pod{}, fmt.Errorf("look for logs of pods: %w", err)
	}
	defer root.Close()
	pods, err := list(root, ".")
	if err != nil {
		return Pod{}, err
	}
	newest := Pod{directory: directory}
	for _, pod := range pods {
		if !strings.HasPrefix(pod.Name(), "kube-system_"+component+"-") {
			continue
		}
		runs, err := runsIn(root, pod.Name()+"/"+component)
		if err != nil || len(runs) == 0 {
			continue // it has gone meanwhile, or is another's
		}
		if len(newest.Runs) == 0 || runs[len(runs)-1].Wrote.After(newest.Last().Wrote) {
			newest.Runs = runs
		}
	}
	if len(newest.Runs) == 0 {
		return Pod{}, fmt.Errorf("this host has no log of a static pod %s: %w", component, fs.ErrNotExist)
	}
	return newest, nil
}

func list(root *os.Root, name string) ([]fs.DirEntry, error) {
	d, err := root.Open(name)
	if err != nil {
		return nil, fmt.Errorf("look for logs of pods: %w", err)
	}
	defer d.Close()
	entries, err := d.ReadDir(maxEntries)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("look for logs of pods: %w", err)
	}
	return entries, nil
}

// runsIn are the last runs in the directory of a container.
func runsIn(root *os.Root, name string) ([]Run, error) {
	entries, err := list(root, name)
	if err != nil {
		return nil, err
	}
	var runs []Run
	for _, entry := range entries {
		m := runForm.FindStringSubmatch(entry.Name())
		if m == nil || !entry.Type().IsRegular() {
			continue
		}
		restart, err := strconv.Atoi(m[1])
		info, gone := entry.Info()
		if err == nil && gone == nil {
			runs = append(runs, Run{Restart: restart, Wrote: info.ModTime(), path: name + "/" + entry.Name()})
		}
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.Restart, b.Restart) })
	return runs[max(0, len(runs)-maxRuns):], nil
}

// Tail is the end of a run's log, at most limit bytes of it as they stand there, from the beginning of a line on.
func (p Pod) Tail(r Run, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(p.directory)
	if err != nil {
		return nil, fmt.Errorf("read the log of a pod: %w", err)
	}
	defer root.Close()
	f, err := root.OpenFile(r.path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("read the log of a pod: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s/%s is not a log", p.directory, r.path)
	}
	from := max(0, info.Size()-limit)
	text, err := io.ReadAll(io.NewSectionReader(f, from, limit))
	if err != nil {
		return nil, fmt.Errorf("read the log of a pod: %w", err)
	}
	if from > 0 {
		_, text, _ = bytes.Cut(text, []byte("\n"))
	}
	return text, nil
}

// Line is a line of a log.
type Line struct {
	// Time is when it was written, as it stands there; empty where the line has another form.
	Time string
	Text string
}

var lineForm = regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}T\S{1,40}) (?:stdout|stderr) ([FP])(?:$| )`)

// Lines are those of a log. Parts of a line are put together.
func Lines(log []byte) []Line {
	var all []Line
	open := false
	for text := range strings.Lines(string(log)) {
		text = strings.TrimRight(text, "\r\n")
		m := lineForm.FindStringSubmatch(text)
		if m == nil {
			all, open = append(all, Line{Text: text}), false
			continue
		}
		text = text[len(m[0]):]
		if open {
			all[len(all)-1].Text += text
		} else {
			all = append(all, Line{Time: m[1], Text: text})
		}
		open = m[2] == "P"
	}
	return all
}
