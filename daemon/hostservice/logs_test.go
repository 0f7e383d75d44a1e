package hostservice

import (
	"bufio"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// journal puts a journalctl first into PATH that prints how it was called and then lives on
// when it is asked to follow.
func journal(t *testing.T) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\necho \"$@\"\ncase \"$*\" in *--follow*) exec sleep 600;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "journalctl"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
}

func TestLogsOfUnits(t *testing.T) {
	journal(t)
	s := start(t, Options{})
	for _, tc := range []struct {
		query string
		code  int
		text  string
	}{
		{"unit=k3s.service&tail=3", http.StatusOK, "--no-pager --output=short-iso --lines=3 --unit=k3s.service\n"},
		{"unit=k3s", http.StatusOK, "--no-pager --output=short-iso --lines=200 --unit=k3s\n"},
		{"unit=-f", http.StatusBadRequest, "unit is not a valid name of a systemd unit\n"},
		{"unit=--file%3D/etc/shadow", http.StatusBadRequest, "unit is not a valid name of a systemd unit\n"},
		{"unit=k3s%0A--file", http.StatusBadRequest, "unit is not a valid name of a systemd unit\n"},
		{"unit=../k3s", http.StatusBadRequest, "unit is not a valid name of a systemd unit\n"},
		{"unit=*", http.StatusBadRequest, "unit is not a valid name of a systemd unit\n"},
		{"unit=k3s%20ssh", http.StatusBadRequest, "unit is not a valid name of a systemd unit\n"},
		{"unit=" + strings.Repeat("k", 256), http.StatusBadRequest, "unit is not a valid name of a systemd unit\n"},
		{"", http.StatusBadRequest, "unit is not a valid name of a systemd unit\n"},
		{"unit=k3s&tail=-1", http.StatusBadRequest, "tail has to be a number of lines from 0 to 100000, follow 1 or 0\n"},
		{"unit=k3s&follow=perhaps", http.StatusBadRequest, "tail has to be a number of lines from 0 to 100000, follow 1 or 0\n"},
		{"container=etcd", http.StatusBadRequest, "this host has a system agent, which shows the logs of units alone\n"},
	} {
		if code, text := ask(t, s, "/v1/logs?"+tc.query); code != tc.code || text != tc.text {
			t.Errorf("%s: %d %q, want %d %q", tc.query, code, text, tc.code, tc.text)
		}
	}
}

func TestLogsOfPods(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"0.log": "2026-11-21T11:58:00.1Z stderr F Error: unknown flag: --x\n",
		"1.log": "2026-11-21T11:59:00.1Z stderr P Error: unknown \n2026-11-21T11:59:00.2Z stderr F flag: --x\n",
	} {
		dir := filepath.Join(root, "var/log/pods/kube-system_kube-apiserver-pier-1_0a1b/kube-apiserver")
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o640); err != nil {
			t.Fatal(err)
		}
	}
	s := start(t, Options{Root: root})
	const refused = "pod has to be the name of a component, such as kube-apiserver, without unit\n"
	for _, tc := range []struct {
		query string
		code  int
		text  string
	}{
		{"pod=kube-apiserver", http.StatusOK, "-- kube-apiserver, started again 0 times --\n2026-11-21T11:58:00.1Z Error: unknown flag: --x\n-- kube-apiserver, started again 1 times --\n2026-11-21T11:59:00.1Z Error: unknown flag: --x\n"},
		{"pod=kube-apiserver&tail=3", http.StatusOK, "2026-11-21T11:58:00.1Z Error: unknown flag: --x\n-- kube-apiserver, started again 1 times --\n2026-11-21T11:59:00.1Z Error: unknown flag: --x\n"},
		{"pod=etcd", http.StatusNotFound, "this host has no log of a static pod etcd: file does not exist\n"},
		{"pod=..", http.StatusBadRequest, refused},
		{"pod=a/../../etc", http.StatusBadRequest, refused},
		{"pod=etcd&unit=k3s", http.StatusBadRequest, refused},
		{"pod=etcd&follow=1", http.StatusNotFound, "this host has no log of a static pod etcd: file does not exist\n"},
	} {
		if code, text := ask(t, s, "/v1/logs?"+tc.query); code != tc.code || text != tc.text {
			t.Errorf("%s: %d %q, want %d %q", tc.query, code, text, tc.code, tc.text)
		}
	}
}

func TestALogIsFollowedUntilTheReaderLeaves(t *testing.T) {
	journal(t)
	s := start(t, Options{})
	client := http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}
	answer, err := client.Get("http://" + Address + "/v1/logs?unit=k3s&follow=1")
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(answer.Body).ReadString('\n')
	if err != nil || !strings.HasSuffix(line, "--unit=k3s --follow\n") {
		t.Errorf("%q, %v", line, err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	for range maxLogs { // all places are free again once it has noticed
		s.reading <- struct{}{}
	}
}

// TestTheLogOfAPodIsFollowed into the next run, until the reader leaves.
func TestTheLogOfAPodIsFollowed(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "var/log/pods/kube-system_etcd-pier-1_0a1b/etcd")
	write := func(name, text string) {
		t.Helper()
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if _, err := f.WriteString(text); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	write("0.log", "2026-11-21T11:58:00Z stderr F one\n2026-11-21T11:58:01Z stderr F two\n")
	s := start(t, Options{Root: root})
	client := http.Client{Transport: &http.Transport{DialContext: s.Dial, DisableKeepAlives: true}}
	answer, err := client.Get("http://" + Address + "/v1/logs?pod=etcd&tail=1&follow=1")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(answer.Body)
	for _, step := range []struct{ name, text, want string }{
		{"0.log", "", "2026-11-21T11:58:01Z two\n"},
		{"0.log", "2026-11-21T11:58:02Z stderr F three\n", "2026-11-21T11:58:02Z three\n"},
		{"1.log", "2026-11-21T11:59:00Z stderr F four\n", "-- etcd, started again 1 times --\n"},
		{"1.log", "", "2026-11-21T11:59:00Z four\n"},
	} {
		write(step.name, step.text)
		if line, err := lines.ReadString('\n'); err != nil || line != step.want {
			t.Fatalf("%q, %v, want %q", line, err, step.want)
		}
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	for range maxLogs { // all places are free again once it has noticed
		s.reading <- struct{}{}
	}
}
