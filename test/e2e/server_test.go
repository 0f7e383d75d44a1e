//go:build e2e

package e2e

// The server as a service of its host: installed by its own program, with a user and a sandbox, and what its unit says and does
// when something is wrong.

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
)

// service is a host on which the server is installed.
type service struct {
	*testing.T
	ctx  context.Context
	host *host.Host
	url  string
}

func TestTheServerIsAService(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	bin := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-X github.com/drover-project/drover.Version="+version, "-o", filepath.Join(bin, version), "../../cmd/drover")
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		out, err := build.CombinedOutput()
		if err != nil {
			t.Fatalf("build drover %s: %v: %s", version, err, out)
		}
	}
	b, err := bed.Start(ctx, bed.Options{Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	must(t, err)
	s := &service{T: t, ctx: ctx}
	t.Cleanup(func() {
		if t.Failed() && s.host != nil {
			log, _ := s.host.Sh(context.WithoutCancel(ctx), "systemctl status --no-pager drover; journalctl --no-pager -u drover | tail -n 80")
			t.Logf("the server's unit:\n%s", log)
		}
		if err := b.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	s.host, err = b.Host(ctx, host.Options{Name: "office"})
	must(t, err)
	s.url = "https://" + s.host.IP() + ":8443"
	for _, version := range []string{"v1", "v2"} {
		must(t, s.host.Copy(ctx, filepath.Join(bin, version), "/root/"+version))
	}
	must(t, s.host.Copy(ctx, agentOf(t, ctx, bin), "/root/assets/rancher-system-agent-amd64"))
	for _, step := range []struct {
		name string
		run  func(*service)
	}{
		{"installed by one command", (*service).install},
		{"a host joins and does what it is given", (*service).joins},
		{"a server that hangs is started again", (*service).hangs},
		{"what is wrong is one sentence of the status", (*service).wrong},
		{"its key is a credential of the unit", (*service).credential},
		{"a newer release takes its place, and one that does not start does not", (*service).upgrade},
		{"taken off, and on again with what was there", (*service).again},
		{"purged but for its keys", (*service).purge},
	} {
		if !t.Run(step.name, func(t *testing.T) {
			sub := *s
			sub.T = t
			step.run(&sub)
		}) {
			return
		}
	}
}

// agentOf builds the agent that hosts download, as the server of this test has none inside.
func agentOf(t *testing.T, ctx context.Context, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "agent")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", file, "../../cmd/rancher-system-agent")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the agent: %v: %s", err, out)
	}
	return file
}

// sh runs a script on the host, which has to succeed.
func (s *service) sh(format string, args ...any) string {
	s.Helper()
	out, err := s.host.Sh(s.ctx, fmt.Sprintf(format, args...)+" 2>&1")
	if err != nil {
		s.Fatalf("%s: %v: %s", fmt.Sprintf(format, args...), err, out)
	}
	return out
}

// fails runs a script, which has to fail and to say something.
func (s *service) fails(script, says string) {
	s.Helper()
	out, err := s.host.Sh(s.ctx, script+" 2>&1")
	if err == nil || !strings.Contains(out, says) {
		s.Fatalf("%s: %v: %s, want %q", script, err, out, says)
	}
}

// until waits until a script succeeds.
func (s *service) until(script string) {
	s.Helper()
	for end := time.Now().Add(3 * time.Minute); ; <-time.After(time.Second) {
		out, err := s.host.Sh(s.ctx, script+" 2>&1")
		if err == nil {
			return
		}
		if time.Now().After(end) {
			s.Fatalf("still not: %s: %v: %s", script, err, out)
		}
	}
}

func (s *service) install() {
	s.fails("setpriv --reuid=1 --clear-groups /root/v1 server install", "run it with sudo")
	// A first start that fails is no first start: the next one has the first login still.
	s.sh("systemd-run --quiet --unit=taken --socket-property=ListenStream=8443 true")
	s.fails("/root/v1 server install --server-url "+s.url, "if another program has the port")
	s.sh("systemctl stop taken.socket")
	out := s.sh("/root/v1 server install --server-url %s", s.url)
	found := regexp.MustCompile(`password ([a-z0-9]{20,}):`).FindStringSubmatch(out)
	if found == nil || !strings.Contains(out, "the server is at "+s.url+" (drover v1;") {
		s.Fatalf("it says %q", out)
	}
	s.sh("test \"$(ps -o user= -C drover)\" = drover")
	s.sh("test $(stat -c %%a /var/lib/drover) = 700")
	s.sh("systemd-analyze security --no-pager --threshold=20 drover.service >/dev/null")
	s.sh(`curl -sfk -X POST -H 'Content-Type: application/json' -d '{"username":"admin","password":"%s"}' '%s/v3-public/localProviders/local?action=login' | grep -q token`, found[1], s.url)
	s.sh("! journalctl -u drover | grep -q %s && ! grep -rqs %s /etc /run/drover-first-start /run/systemd", found[1], found[1])
	s.fails("drover server", "belongs to user drover")
	s.sh("drover clusters ls && drover server config | grep -E 'server-url +%s +/etc/drover/drover.yaml:1'", s.url)
	s.fails("/root/v1 server install --server-url https://elsewhere.example", "is there already and has another server-url")
}

// joins has the server's own host join a fleet and get a plan: assets, tunnels and plans work for a server that is not root.
func (s *service) joins() {
	s.sh("mkdir -p /etc/systemd/system/drover.service.d && printf 'assets: /srv/assets\\n' >>/etc/drover/drover.yaml && install -D -m 0755 /root/assets/rancher-system-agent-amd64 /srv/assets/rancher-system-agent-amd64 && systemctl restart drover")
	line := s.sh("drover fleets join-command edge 2>/dev/null; exec 2>/dev/null")
	s.sh("%s", strings.Replace(strings.TrimSpace(line), "sudo ", "", 1)) // the host has none
	s.sh("printf 'files:\\n- {path: /root/given, content: aGVsbG8K}\\n' >/root/plan.yaml")
	s.until("drover machines ls -o json | grep -q custom-")
	s.sh("drover machines plan --fleet edge -f /root/plan.yaml --wait")
	s.sh("grep -q hello /root/given")
}

func (s *service) hangs() {
	s.sh("printf '[Service]\\nWatchdogSec=6\\n' >/etc/systemd/system/drover.service.d/quick.conf && systemctl daemon-reload && systemctl restart drover")
	pid := strings.TrimSpace(s.sh("sleep 10; systemctl show -p MainPID --value drover")) // longer than it may say nothing
	s.sh("test $(systemctl show -p NRestarts --value drover) = 0 && kill -STOP %s", pid)
	s.until("systemctl is-active --quiet drover && test $(systemctl show -p MainPID --value drover) != " + pid + " && drover clusters ls")
	s.sh("journalctl -u drover | grep -qi 'watchdog timeout'")
	s.sh("rm /etc/systemd/system/drover.service.d/quick.conf && systemctl daemon-reload")
}

func (s *service) wrong() {
	for _, c := range []struct{ breaks, mends, says string }{
		{"sed -i '1i lisen: :9443' /etc/drover/drover.yaml", "sed -i 1d /etc/drover/drover.yaml", `drover.yaml:1: there is no key "lisen"; did you mean listen?`},
		{"chown root /var/lib/drover/encryption.key", "chown drover /var/lib/drover/encryption.key", "permission denied"},
		{"echo 'listen: :22222' >>/etc/drover/drover.yaml; systemd-run --quiet --unit=taken --socket-property=ListenStream=22222 true",
			"sed -i '$d' /etc/drover/drover.yaml; systemctl stop taken.socket", "if another program has the port"},
	} {
		s.sh("systemctl stop drover; %s; systemctl reset-failed drover", c.breaks)
		s.fails("systemctl restart drover", "Job for drover.service failed")
		s.sh("systemctl status --no-pager -l drover | grep -F '%s'; systemctl status --no-pager -l drover | grep -qF '%s'", c.says, c.says)
		s.sh("%s; systemctl reset-failed drover; systemctl restart drover && drover clusters ls", c.mends)
	}
}

// credential moves the key file to where systemd takes credentials from, and back.
func (s *service) credential() {
	s.sh("install -D -m 0600 /var/lib/drover/encryption.key /etc/credstore/drover.encryption-key && systemctl stop drover && mv /var/lib/drover/encryption.key /root/key && systemctl start drover && drover fleets ls | grep -q edge && test ! -e /var/lib/drover/encryption.key")
	s.sh("systemctl stop drover && mv /root/key /var/lib/drover/encryption.key && rm /etc/credstore/drover.encryption-key && systemctl start drover && drover fleets ls | grep -q edge")
}

func (s *service) upgrade() {
	out := s.sh("/root/v2 server install")
	if !strings.Contains(out, "the server is at "+s.url+" (drover v2;") || strings.Contains(out, "password") {
		s.Errorf("it says %q", out)
	}
	s.sh("drover --version | grep -q v2 && drover fleets ls | grep -q edge")
	// The former release again, on a host on which it cannot start.
	s.sh("systemctl stop drover && cp /etc/drover/drover.yaml /root/kept.yaml && echo 'tls-cert: /etc/drover/none.pem' >>/etc/drover/drover.yaml")
	s.fails("/root/v1 server install", "--tls-cert and --tls-key go together")
	s.sh("drover --version | grep -q v2 && cp /root/kept.yaml /etc/drover/drover.yaml && systemctl reset-failed drover && systemctl restart drover && drover fleets ls | grep -q edge")
}

func (s *service) again() {
	s.sh("drover server uninstall")
	s.sh("test ! -e /usr/local/bin/drover && test ! -e /etc/systemd/system/drover.service && test -d /var/lib/drover/etcd && test -e /etc/drover/drover.yaml")
	// A server by hand, as root, on the same data.
	s.sh("chown -R root:root /var/lib/drover; systemd-run --unit=byhand -q /root/v1 server --config /etc/drover/drover.yaml")
	s.until("/root/v1 fleets ls | grep -q edge")
	s.fails("/root/v1 server install", "a server that was started by hand uses /var/lib/drover")
	s.sh("systemctl stop byhand && /root/v1 server install && drover fleets ls | grep -q edge && test \"$(ps -o user= -C drover)\" = drover")
}

func (s *service) purge() {
	s.fails("drover server uninstall --purge", "give --yes")
	s.sh("drover server uninstall --purge --yes | grep -q /var/backups/drover-removed-")
	s.sh("test ! -e /var/lib/drover && test ! -e /etc/drover && ! id drover && test -s /var/backups/drover-removed-*/encryption.key && test -s /var/backups/drover-removed-*/tls/ca.key")
}
