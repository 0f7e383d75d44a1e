package podlogs_test

import (
	"errors"
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
	write(t, dir+"/kube-system_etcd-pier-1_b/etcd/0.log.20261121-115958.gz", "x", noon)
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
