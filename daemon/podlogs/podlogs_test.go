package podlogs_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/drover-project/drover/daemon/podlogs"
)

func write(t *testing.T, path, text string, wrote time.Time) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(path, wrote, wrote); err != nil {
		t.Fatal(err)
	}
}

func TestTheNewestPodIsFound(t *testing.T) {
	dir, noon := t.TempDir(), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	write(t, dir+"/kube-system_etcd-pier-1_a/etcd/0.log", "old\n", noon.Add(-time.Hour))
	write(t, dir+"/kube-system_etcd-pier-1_b/etcd/0.log", "0\n", noon.Add(-time.Minute))
	write(t, dir+"/kube-system_etcd-pier-1_b/etcd/10.log", "first\nsecond\nthird\n", noon)
	write(t, dir+"/kube-system_etcd-pier-1_b/etcd/9.log", "9\n", noon.Add(-time.Second))
	write(t, dir+"/kube-system_etcd-pier-1_b/etcd/9.log.20261121-115958.tmp", "x", noon)
	pod, err := podlogs.Find(dir, "etcd")
	if err != nil {
		t.Fatal(err)
	}
	var restarts []int
	for _, run := range pod.Runs {
		restarts = append(restarts, run.Restart)
	}
	if diff := cmp.Diff([]int{0, 9, 10}, restarts); diff != "" || !pod.Last().Wrote.Equal(noon) {
		t.Errorf("%s, wrote last at %s", diff, pod.Last().Wrote)
	}
	for limit, want := range map[int64]string{1 << 20: "first\nsecond\nthird\n", 10: "third\n"} {
		if got, err := pod.Tail(pod.Last(), limit); err != nil || string(got) != want {
			t.Errorf("the last %d bytes are %q, %v", limit, got, err)
		}
	}
}

// TestOnlyLogsAreRead: a pod may have put any entry into the directory.
func TestOnlyLogsAreRead(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	write(t, outside+"/etcd/0.log", "secret\n", time.Now())
	write(t, outside+"/shadow", "secret\n", time.Now())
	if err := os.Symlink(outside, dir+"/kube-system_etcd-link_a"); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/kube-system_etcd-pier-1_b/etcd", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside+"/shadow", dir+"/kube-system_etcd-pier-1_b/etcd/0.log"); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mkfifo(dir+"/kube-system_etcd-pier-1_b/etcd/1.log", 0o600); err != nil {
		t.Fatal(err)
	}
	for _, component := range []string{"etcd", "", "..", "../x", "etcd/../..", "Etcd", strings.Repeat("a", 64)} {
		if pod, err := podlogs.Find(dir, component); err == nil {
			t.Errorf("of %q it finds %+v", component, pod)
		}
	}
	if _, err := podlogs.Find(dir, "kube-apiserver"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without a pod: %v", err)
	}
	// A log that becomes a link, or a pipe, after it was found.
	path := dir + "/kube-system_kube-proxy-pier-1_c/kube-proxy/0.log"
	write(t, path, "a line\n", time.Now())
	pod, err := podlogs.Find(dir, "kube-proxy")
	if err != nil {
		t.Fatal(err)
	}
	for _, turn := range []func() error{func() error { return os.Symlink(outside+"/shadow", path) }, func() error { return unix.Mkfifo(path, 0o600) }} {
		if err := errors.Join(os.Remove(path), turn()); err != nil {
			t.Fatal(err)
		}
		if text, err := pod.Tail(pod.Last(), 100); err == nil {
			t.Errorf("it reads %q", text)
		}
	}
}

func packed(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestOlderParts are those that the kubelet has put aside, as it names and packs them.
func TestOlderParts(t *testing.T) {
	const now, before, last, first = "0.log", "0.log.20261121-100000", "0.log.20261121-090000.gz", "0.log.20261121-080000.gz"
	for name, tc := range map[string]struct {
		files map[string]string
		limit int64
		want  string
	}{
		"all":                      {map[string]string{now: "4\n", before: "3\n", last: packed(t, "2\n"), first: packed(t, "1\n")}, 100, "1\n2\n3\n4\n"},
		"as much as may be":        {map[string]string{now: "4\n", before: "3\n", last: packed(t, "1\n2\n")}, 6, "2\n3\n4\n"},
		"to the border of a part":  {map[string]string{now: "4\n", before: "3\n", last: packed(t, "1\n2\n")}, 4, "3\n4\n"},
		"a part of one put aside":  {map[string]string{now: "4\n", before: "one\nthree\n"}, 10, "three\n4\n"},
		"just put aside":           {map[string]string{before: "3\n", last: packed(t, "2\n")}, 100, "2\n3\n"},
		"just being packed":        {map[string]string{now: "4\n", before: "3\n", before + ".gz": packed(t, "3\n"), before + ".gz.tmp": "x"}, 100, "3\n4\n"},
		"not packed":               {map[string]string{now: "4\n", last: "2\n", first: packed(t, "1\n")}, 100, "4\n"},
		"packed, and far too long": {map[string]string{now: "4\n", last: packed(t, strings.Repeat("2\n", 20<<20))}, 100, "4\n"},
		"names of another form":    {map[string]string{now: "4\n", "0.log.1": "x\n", "0.log.20261121-090000.xz": "x\n", "a.log": "x\n"}, 100, "4\n"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, text := range tc.files {
				write(t, dir+"/kube-system_etcd-pier-1_a/etcd/"+file, text, time.Now())
			}
			pod, err := podlogs.Find(dir, "etcd")
			if err != nil {
				t.Fatal(err)
			}
			if got, err := pod.Tail(pod.Last(), tc.limit); err != nil || string(got) != tc.want {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
}

// TestFollow goes on where Tail ended, through parts that are put aside, runs that end and pods that are replaced.
func TestFollow(t *testing.T) {
	dir, noon := t.TempDir(), time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	first, second := dir+"/kube-system_etcd-pier-1_a/etcd/", dir+"/kube-system_etcd-pier-1_b/etcd/"
	write(t, first+"0.log", "old\n", noon)
	pod, err := podlogs.Find(dir, "etcd")
	if err != nil {
		t.Fatal(err)
	}
	write(t, first+"0.log", "old\ncame meanwhile\nhalf", noon)
	came, ended := make(chan string), make(chan error)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- pod.Follow(ctx, "etcd", func(restart int) error {
			came <- fmt.Sprint("run ", restart)
			return nil
		}, func(lines []podlogs.Line) error {
			for _, line := range lines {
				came <- line.Text
			}
			return nil
		})
	}()
	want := func(texts ...string) {
		t.Helper()
		for _, text := range texts {
			if got := <-came; got != text {
				t.Fatalf("%q, want %q", got, text)
			}
		}
	}
	want("came meanwhile")
	f, err := os.OpenFile(first+"0.log", os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	fmt.Fprint(f, " a line\n")
	want("half a line")
	fmt.Fprint(f, "before it was put aside\n")
	if err := os.Rename(first+"0.log", first+"0.log.20261121-120000"); err != nil {
		t.Fatal(err)
	}
	write(t, first+"0.log", "of the next part\n", noon)
	want("before it was put aside", "of the next part")
	write(t, first+"1.log", "of the next run\n", noon.Add(time.Second))
	want("run 1", "of the next run")
	write(t, second+"0.log", strings.Repeat("x", 100<<10)+"\nof the next pod\n", noon.Add(2*time.Second))
	want("run 0")
	for long := 0; long < 100<<10; {
		text := <-came
		if long += len(text); strings.Trim(text, "x") != "" {
			t.Fatalf("%q in a long line", text)
		}
	}
	want("of the next pod")
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestLines(t *testing.T) {
	const log = "2026-11-21T11:59:58.1Z stderr F whole\n2026-11-21T11:59:59.1Z stdout P in \n2026-11-21T11:59:59.2Z stdout F parts\n2026-11-21T12:00:00Z stdout F\n" +
		"another form\n2026-11-21T12:00:01Z stdout P unfinished"
	want := []podlogs.Line{
		{"2026-11-21T11:59:58.1Z", "whole"}, {"2026-11-21T11:59:59.1Z", "in parts"}, {"2026-11-21T12:00:00Z", ""}, {"", "another form"}, {"2026-11-21T12:00:01Z", "unfinished"},
	}
	if diff := cmp.Diff(want, podlogs.Lines([]byte(log))); diff != "" {
		t.Error(diff)
	}
}

func FuzzLines(f *testing.F) {
	f.Add([]byte("2026-11-21T11:59:58.1Z stderr P a\n2026-11-21T11:59:58.1Z stderr F b\n"))
	f.Add([]byte("2026-11-21T11:59:58.1Z stderr P \r\n\x00\xff\n\n"))
	f.Fuzz(func(t *testing.T, log []byte) {
		size := 0
		for _, line := range podlogs.Lines(log) {
			size += len(line.Text)
			if strings.Contains(line.Text, "\n") || len(line.Time) > 60 {
				t.Errorf("a line is %q", line)
			}
		}
		if size > len(log) {
			t.Errorf("%d bytes of %d", size, len(log))
		}
	})
}
