package main

import (
	"bytes"
	endian "encoding/binary"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// journald takes entries as the journal does, and keeps them.
type journald struct {
	mu      sync.Mutex
	entries []map[string]string
}

func startJournald(t *testing.T) *journald {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: journalSocket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	j, done := &journald{}, make(chan struct{})
	go func() {
		defer close(done)
		b, oob := make([]byte, 1<<20), make([]byte, 1024)
		for {
			n, m, _, _, err := conn.ReadMsgUnix(b, oob)
			if err != nil {
				return
			}
			message := b[:n]
			if n == 0 && m > 0 {
				message = readPassed(t, oob[:m])
			}
			entry := parseEntry(t, message)
			j.mu.Lock()
			j.entries = append(j.entries, entry)
			j.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-done
		os.Remove(journalSocket)
	})
	return j
}

// readPassed reads an entry that came as an open file, as those too large for a message do.
func readPassed(t *testing.T, oob []byte) []byte {
	messages, err := syscall.ParseSocketControlMessage(oob)
	if err != nil || len(messages) != 1 {
		t.Errorf("control messages %v, %v", messages, err)
		return nil
	}
	fds, err := syscall.ParseUnixRights(&messages[0])
	if err != nil || len(fds) != 1 {
		t.Errorf("descriptors %v, %v", fds, err)
		return nil
	}
	f := os.NewFile(uintptr(fds[0]), "entry")
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Error(err)
		return nil
	}
	b := make([]byte, info.Size())
	if _, err := f.ReadAt(b, 0); err != nil {
		t.Error(err)
	}
	return b
}

// parseEntry reads the journal's own protocol: NAME=value, or NAME, a length and bytes.
func parseEntry(t *testing.T, b []byte) map[string]string {
	entry := map[string]string{}
	for len(b) > 0 {
		line, rest, _ := bytes.Cut(b, []byte{'\n'})
		if key, value, ok := strings.Cut(string(line), "="); ok {
			entry[key], b = value, rest
			continue
		}
		if len(rest) < 8 || uint64(len(rest)-9) < endian.LittleEndian.Uint64(rest) {
			t.Errorf("damaged entry at %q", line)
			return entry
		}
		n := 8 + endian.LittleEndian.Uint64(rest)
		entry[string(line)], b = string(rest[8:n]), rest[n+1:]
	}
	return entry
}

// find is the first entry that fits; nil when there is none.
func (j *journald) find(fits func(message string) bool) map[string]string {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.entries {
		if fits(e["MESSAGE"]) {
			return e
		}
	}
	return nil
}

func (j *journald) begins(text string) map[string]string {
	return j.find(func(m string) bool { return strings.HasPrefix(m, text) })
}

// journalStream is a file in the place of the journal's stream, and what systemd says of it.
func journalStream(t *testing.T) (stdout *os.File, env string) {
	t.Helper()
	stdout, err := os.Create(filepath.Join(t.TempDir(), "stdout"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { stdout.Close() })
	var is syscall.Stat_t
	if err := syscall.Fstat(int(stdout.Fd()), &is); err != nil {
		t.Fatal(err)
	}
	return stdout, fmt.Sprintf("JOURNAL_STREAM=%d:%d", is.Dev, is.Ino)
}

func TestJournal(t *testing.T) {
	j := startJournald(t)
	m := newManagement(t)
	dir := t.TempDir()
	stdout, env := journalStream(t)
	long := strings.Repeat("x", 15<<10)
	m.deliver(`{"instructions":[{"name":"install","command":"sh","args":["-c","echo out=1; echo \"two words\" >&2; echo ` + long + `"]}],
		"periodicInstructions":[{"name":"beat","command":"sh","args":["-c","echo pulse >&2"]}]}`)
	p := sentinelOn(t, stdout, m.install(t, dir), env)
	waitUntil(t, "the plan is applied", func() bool { return m.value("plan-state") == "succeeded" })
	waitUntil(t, "what comes again has run", func() bool { return j.begins("beat[stderr]: pulse") != nil })
	p.stop(t, syscall.SIGTERM)

	for message, want := range map[string]map[string]string{
		"install[stdout]: out=1":      {"DROVER_INSTRUCTION": "install", "DROVER_STREAM": "stdout", "DROVER_SOURCE": "remote", "PRIORITY": "6", "SYSLOG_IDENTIFIER": name},
		"install[stderr]: two words":  {"DROVER_STREAM": "stderr", "DROVER_INSTRUCTION": "install"},
		"beat[stderr]: pulse":         {"DROVER_STREAM": "stderr", "DROVER_INSTRUCTION": "beat", "DROVER_SOURCE": "remote", "PRIORITY": "6"},
		"install[stdout]: " + long:    {"DROVER_STREAM": "stdout"},
		"no such message, never said": nil,
	} {
		got := j.find(func(m string) bool { return m == message })
		if (got == nil) != (want == nil) {
			t.Errorf("%.60q in the journal: %v", message, got)
		}
		for k, v := range want {
			if got[k] != v {
				t.Errorf("%.60q: %s is %q, want %q", message, k, got[k], v)
			}
		}
		if want != nil && got["DROVER_PLAN"] == "" {
			t.Errorf("%.60q names no plan", message)
		}
	}
	if b, err := os.ReadFile(stdout.Name()); err != nil || len(b) > 0 {
		t.Errorf("standard output has %q, %v", b, err)
	}
}

// A message that no datagram holds goes to the journal as a file. What remains of an
// interrupted plan of very many instructions is one.
func TestLargeJournalEntry(t *testing.T) {
	j := startJournald(t)
	m := newManagement(t)
	dir := t.TempDir()
	config := m.install(t, dir)
	// No process is left to stop the instruction, so it ends with the directory of the test.
	plan := fmt.Sprintf(`{"instructions":[{"name":"first","command":"sh","args":["-c","while test -d %s; do sleep 0.05; done"]}`, dir)
	for i := range 2500 {
		plan += fmt.Sprintf(`,{"name":"%d-%s","command":"true"}`, i, strings.Repeat("n", 100))
	}
	m.deliver(plan + "]}")
	for _, resumed := range []bool{false, true} {
		stdout, env := journalStream(t)
		p := sentinelOn(t, stdout, config, env)
		if !resumed {
			waitUntil(t, "the instruction runs", func() bool { return j.begins("instruction begins") != nil })
		} else {
			waitUntil(t, "the plan goes on", func() bool { return j.begins("apply resumed ") != nil })
			if e := j.begins("apply resumed "); len(e["MESSAGE"]) < 250<<10 || e["DROVER_SOURCE"] != "remote" {
				t.Errorf("%d bytes, of %s", len(e["MESSAGE"]), e["DROVER_SOURCE"])
			}
		}
		p.stop(t, syscall.SIGKILL)
	}
}
