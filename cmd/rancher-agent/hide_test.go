package main

import (
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/tunnel/connect"
)

func TestWithoutToken(t *testing.T) {
	for _, test := range []struct {
		args, kept, token string
		found             bool
	}{
		{"", "", "", false},
		{"--server https://h --worker", "--server https://h --worker", "", false},
		{"--server https://h --token tok --worker", "--server https://h --worker", "tok", true},
		{"-t tok -w", "-w", "tok", true},
		{"--token=tok -w", "-w", "tok", true},
		{"-t=tok -token other -a", "-a", "other", true},
		{"--token= -w", "-w", "", true},
		{"--token", "--token", "", false},
		{"-n --token tok", "-n --token tok", "", false},
		{"--label t=tok --token tok", "--label t=tok", "tok", true},
		{"-w loglevel --token tok", "-w loglevel --token tok", "", false},
		{"-- run --token tok", "-- run --token tok", "", false},
		{"health --ready", "health --ready", "", false},
	} {
		kept, token, found := withoutToken(strings.Fields(test.args))
		if got := strings.Join(kept, " "); got != test.kept || token != test.token || found != test.found {
			t.Errorf("%s: %q, token %q, %v", test.args, got, token, found)
		}
	}
}

// TestValueFlagsAreThoseOfTheSettings: a flag that withoutToken takes for a switch would have its
// value read as the next flag.
func TestValueFlagsAreThoseOfTheSettings(t *testing.T) {
	for _, flag := range valueFlags {
		var all inputs
		if err := all.parse([]string{"-" + flag}); err == nil || !strings.Contains(err.Error(), "needs an argument") {
			t.Errorf("-%s takes no value: %v", flag, err)
		}
	}
	for flag := range strings.FieldsSeq("e p w a r o d etcd controlplane worker all-roles no-register only-write-certs debug") {
		if err := new(inputs).parse([]string{"-" + flag}); err != nil {
			t.Errorf("-%s: %v", flag, err)
		}
	}
	for line := range strings.Lines(usage) {
		for word := range strings.FieldsSeq(line) {
			if name, ok := strings.CutPrefix(word, "--"); ok && name != "" && name != "set" && name != "socket-location" && name != "ready" {
				err := new(inputs).parse([]string{"-" + name})
				if takes := err != nil; takes != slices.Contains(valueFlags, name) {
					t.Errorf("--%s takes a value: %v", name, takes)
				}
			}
		}
	}
}

// TestTheTokenLeavesTheArguments starts the real program with the commands of a Rancher server,
// and looks at it as any other user of the host does.
func TestTheTokenLeavesTheArguments(t *testing.T) {
	const token = "a-secret-token"
	binary := build(t)
	connected := make(chan http.Header, 100)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == connect.RegisterPath {
			connected <- r.Header
			http.Error(w, "later", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprint(w, "pong")
	}))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	ca := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	out := &output{}
	cmd := exec.CommandContext(t.Context(), binary, "--server", server.URL, "--token", token, "--worker", "--address", "192.0.2.1", "--node-name", "n1")
	cmd.Env = []string{"CATTLE_TOKEN=another", "SSL_CERT_FILE=" + ca, "DROVER_AGENT_DOCKER_SOCKET=" + dir + "/docker.sock",
		"DROVER_AGENT_STATE_DIR=" + dir + "/state", "LOG_SOCKET_LOCATION=" + dir + "/log", "DROVER_AGENT_HEALTH_SOCKET=" + dir + "/health"}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("the agent's log:\n%s", out)
		}
	})
	var header http.Header
	waitUntil(t, "it asks the server", func() bool {
		select {
		case header = <-connected:
			return true
		default:
			return false
		}
	})
	if got := header.Get(connect.TokenHeader); got != token {
		t.Errorf("the server got the token %q", got)
	}
	proc := fmt.Sprintf("/proc/%d/", cmd.Process.Pid)
	line, err := os.ReadFile(proc + "cmdline")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{binary, "--server", server.URL, "--worker", "--address", "192.0.2.1", "--node-name", "n1"}
	if diff := cmp.Diff(want, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")); diff != "" {
		t.Errorf("the arguments (-want +got):\n%s", diff)
	}
	if comm, err := os.ReadFile(proc + "comm"); err != nil || strings.TrimSpace(string(comm)) != name {
		t.Errorf("the process is named %q, %v", comm, err)
	}
	if log := out.String(); strings.Contains(log, token) || strings.Count(log, "INFO: Arguments:") != 1 {
		t.Error("the log has the token, or the agent started more than once")
	}
}
