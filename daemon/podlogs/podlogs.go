// Package podlogs reads the logs of the static pods that a distribution runs its components in, as the kubelet keeps them
// on this host. All that stands there is untrusted: it is read to a limit, and nothing outside the directory is opened.
//
// Wire source: kubernetes/kubernetes pkg/kubelet/kuberuntime (BuildPodLogsDirectory, BuildContainerLogsPath,
// logs.parseCRILog), pkg/kubelet/logs (container_log_manager): a directory NAMESPACE_POD_UID, in it one for each container, in
// that N.log for its Nth restart. A log that got too long is N.log.TIME, and packed, N.log.TIME.gz, when the next one does. A
// line is a time in RFC 3339, the stream, P or F for a part or the end of a line, and the text.
package podlogs

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
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
	// maxUnpacked is how much one packed log may hold, in bytes. The kubelet packs logs of 10 MiB.
	maxUnpacked = 32 << 20
)

// componentForm is the name of a component and of its container.
var componentForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`) })

// IsComponent says whether a text can be the name of a component.
func IsComponent(name string) bool { return componentForm().MatchString(name) }

var runForm = regexp.MustCompile(`^([0-9]{1,6})\.log(?:\.([0-9]{8}-[0-9]{6})(\.gz)?)?$`)

// Run is one life of the pod's container.
type Run struct {
	// Restart is 0 for the first run, and counts from there.
	Restart int
	// Wrote is when it wrote last.
	Wrote time.Time

	parts []part
}

// part is one file of a run's log.
type part struct {
	path   string
	ended  string // when the kubelet began another one, as it stands in the name, or current
	packed bool
	info   fs.FileInfo
}

// current is ended of the part that is written; it comes after all times.
const current = "now"

// inOrder is the order of time; of a part that is just being packed the packed file is last.
func (p part) inOrder(other part) int {
	return cmp.Or(cmp.Compare(p.ended, other.ended), cmp.Compare(len(p.path), len(other.path)))
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
	byRestart := map[int][]part{}
	for _, entry := range entries {
		m := runForm.FindStringSubmatch(entry.Name())
		if m == nil || !entry.Type().IsRegular() {
			continue
		}
		restart, err := strconv.Atoi(m[1])
		info, gone := entry.Info()
		if err == nil && gone == nil {
			byRestart[restart] = append(byRestart[restart], part{path: name + "/" + entry.Name(), ended: cmp.Or(m[2], current), packed: m[3] != "", info: info})
		}
	}
	var runs []Run
	for restart, parts := range byRestart {
		slices.SortFunc(parts, part.inOrder)
		parts = slices.CompactFunc(parts, func(a, b part) bool { return a.ended == b.ended })
		runs = append(runs, Run{Restart: restart, Wrote: parts[len(parts)-1].info.ModTime(), parts: parts})
	}
	slices.SortFunc(runs, func(a, b Run) int { return cmp.Compare(a.Restart, b.Restart) })
	return runs[max(0, len(runs)-maxRuns):], nil
}

// Tail is the end of a run's log, at most limit bytes of it, from the beginning of a line on. Older parts that cannot be read
// are left out.
func (p Pod) Tail(r Run, limit int64) ([]byte, error) {
	root, err := os.OpenRoot(p.directory)
	if err != nil {
		return nil, fmt.Errorf("read the log of a pod: %w", err)
	}
	defer root.Close()
	var log []byte
	for i, part := range slices.Backward(r.parts) {
		if int64(len(log)) == limit {
			break
		}
		text, whole, err := tail(root, part, limit-int64(len(log)))
		if err != nil && i == len(r.parts)-1 {
			return nil, fmt.Errorf("read the log of a pod, %s/%s: %w", p.directory, part.path, err)
		}
		if err != nil {
			break
		}
		if log = append(text, log...); !whole {
			break
		}
	}
	return log, nil
}

// tail is the end of one part, from the beginning of a line on, and whether it is the whole part.
func tail(root *os.Root, p part, limit int64) (text []byte, whole bool, err error) {
	f, err := open(root, p.path)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	if p.packed {
		text, err = unpack(f)
	} else {
		// What comes after the part was found is left to Follow.
		from := max(0, p.info.Size()-limit-1)
		text, err = io.ReadAll(io.NewSectionReader(f, from, p.info.Size()-from))
		whole = from == 0
	}
	if err != nil {
		return nil, false, err
	}
	if int64(len(text)) <= limit && (whole || p.packed) {
		return text, true, nil
	}
	_, text, _ = bytes.Cut(text[max(0, int64(len(text))-limit-1):], []byte("\n"))
	return text, false, nil
}

// unpack is all that a packed log holds.
func unpack(packed io.Reader) ([]byte, error) {
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		return nil, fmt.Errorf("unpack it: %w", err)
	}
	text, err := io.ReadAll(io.LimitReader(unpacked, maxUnpacked+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unpack it: %w", err)
	case len(text) > maxUnpacked:
		return nil, fmt.Errorf("it holds more than %d bytes", maxUnpacked)
	}
	return text, nil
}

// open opens a log, and nothing else that stands there by its name.
func open(root *os.Root, path string) (*os.File, error) {
	f, err := root.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		_ = f.Close()
		return nil, errors.New("it is not a log")
	}
	return f, nil
}

// Line is a line of a log.
type Line struct {
	// Time is when it was written, as it stands there; empty where the line has another form.
	Time string
	Text string
}

var lineForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(\d{4}-\d{2}-\d{2}T\S{1,40}) (?:stdout|stderr) ([FP])(?:$| )`)
})

// Lines are those of a log. Parts of a line are put together.
func Lines(log []byte) []Line {
	var all []Line
	open := false
	for text := range strings.Lines(string(log)) {
		text = strings.TrimRight(text, "\r\n")
		m := lineForm().FindStringSubmatch(text)
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
