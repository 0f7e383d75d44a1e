package packaging

// How a run shares the host with an agent that is at work.

import (
	"bufio"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestInterlock(t *testing.T) {
	sh := shells(t)[0]
	mark := func(h *host, name string) { h.write(h.root+interlock+"/"+name, "", 0o600) }
	const unit = " rancher-system-agent.service"
	start := []string{"daemon-reload held", "enable" + unit + " held", "restart" + unit + " held"}
	poll := "is-active --quiet" + unit + " held"
	tests := []struct {
		name    string
		prepare func(h *host)
		want    []string // of systemctl
		sleeps  int
		fails   string
	}{
		{name: "agent not running", prepare: func(h *host) { mark(h, "applyinator-active") }, want: []string{"is-active" + unit, "daemon-reload", "enable" + unit, "restart" + unit}},
		{name: "agent idle", prepare: func(h *host) { h.write(h.log+"/active", "active\n", 0o600) }, want: slices.Concat([]string{"is-active" + unit}, start)},
		{name: "agent starts", prepare: func(h *host) { h.write(h.log+"/active", "activating\n", 0o600) }, want: slices.Concat([]string{"is-active" + unit}, start)},
		{name: "agent applies a plan for two seconds", prepare: func(h *host) {
			h.write(h.log+"/active", "active\n", 0o600)
			mark(h, "applyinator-active")
			h.tool("sleep", `echo "$1" >>`+h.log+`/sleep; [ "$(wc -l <`+h.log+`/sleep)" -lt 2 ] || rm `+h.root+interlock+`/applyinator-active`)
		}, want: slices.Concat([]string{"is-active" + unit, poll, poll}, start), sleeps: 2},
		{name: "agent dies meanwhile", prepare: func(h *host) {
			h.write(h.log+"/active", "active\n", 0o600)
			mark(h, "applyinator-active")
			h.tool("sleep", `echo "$1" >>`+h.log+`/sleep; rm `+h.log+`/active`)
		}, want: slices.Concat([]string{"is-active" + unit, poll, poll}, start), sleeps: 1},
		{name: "mark left behind", prepare: func(h *host) {
			h.write(h.log+"/active", "active\n", 0o600)
			mark(h, "applyinator-active")
		}, want: slices.Concat([]string{"is-active" + unit}, slices.Repeat([]string{poll}, 301), start), sleeps: 300},
		{name: "restart fails", prepare: func(h *host) {
			h.write(h.log+"/active", "active\n", 0o600)
			h.write(h.log+"/fails-restart", "", 0o600)
		}, want: slices.Concat([]string{"is-active" + unit}, start), fails: "journalctl"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t, sh)
			tt.prepare(h)
			res := h.installAlone()
			if tt.fails == "" && res.code != 0 {
				t.Fatal(res.stderr)
			}
			if tt.fails != "" {
				wantRefusal(t, res, tt.fails)
			}
			if diff := cmp.Diff(tt.want, h.logged("systemctl")); diff != "" {
				t.Errorf("systemctl (-want +got):\n%s", diff)
			}
			if got := len(h.logged("sleep")); got != tt.sleeps {
				t.Errorf("slept %d times, want %d", got, tt.sleeps)
			}
			if _, ok := h.modes()[interlock+"/restart-pending"]; ok {
				t.Error("restart-pending is left behind; the agent would apply nothing")
			}
			h.wantNoLeftovers()
		})
	}
}

// Ended in the middle, at its latest wait, it takes its marks and temporary files along.
func TestKilled(t *testing.T) {
	// Under nohup the shell would inherit that SIGHUP is ignored, which no trap can change;
	// a signal that is caught here is at its default there.
	hangups := make(chan os.Signal, 1)
	signal.Notify(hangups, syscall.SIGHUP)
	t.Cleanup(func() { signal.Stop(hangups) })
	ca := newAuthority(t, "drover")
	for i, sent := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGTERM} {
		t.Run(sent.String(), func(t *testing.T) {
			oneShell(t, i, func(t *testing.T, sh shell) {
				s, h := newServer(t, ca), newHost(t, sh)
				h.write(h.root+"/usr/local/bin/rancher-system-agent", "old", 0o755)
				h.write(h.root+interlock+"/applyinator-active", "", 0o600)
				h.write(h.log+"/active", "active\n", 0o600)
				before := h.read("/usr/local/bin/rancher-system-agent")
				cmd := h.command(t.Context(), readFile(installScript), append(joinFlags(s), "--worker")...)
				stdout, err := cmd.StdoutPipe()
				if err != nil {
					t.Fatal(err)
				}
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				lines := bufio.NewScanner(stdout)
				waiting := false
				for lines.Scan() {
					if strings.Contains(lines.Text(), "waiting: the agent finishes") && !waiting {
						waiting = true
						if _, ok := h.modes()[interlock+"/restart-pending"]; !ok {
							t.Error("restart-pending is not there during the wait")
						}
						if err := cmd.Process.Signal(sent); err != nil {
							t.Fatal(err)
						}
					}
				}
				err = cmd.Wait()
				if want := 128 + int(sent); !waiting || cmd.ProcessState.ExitCode() != want {
					t.Errorf("waited: %v, ended with %v, want exit code %d", waiting, err, want)
				}
				if _, ok := h.modes()[interlock+"/restart-pending"]; ok {
					t.Error("restart-pending is left behind")
				}
				if h.read("/usr/local/bin/rancher-system-agent") != before {
					t.Error("the agent was replaced")
				}
				h.wantNoLeftovers()
			})
		})
	}
}
