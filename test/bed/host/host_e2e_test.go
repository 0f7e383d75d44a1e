//go:build e2e

package host_test

// Test hosts behave like machines: real containers, real systemd. Needs root or a Docker engine.

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/engine"
	"github.com/drover-project/drover/test/bed/host"
)

// cleanUpTimeout bounds what happens after a test's context ended.
const cleanUpTimeout = 5 * time.Minute

// start gives the test an engine and a host, and takes them away after it.
func start(t *testing.T, o host.Options) (context.Context, *engine.Engine, *host.Host) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute) // the first run builds the image
	t.Cleanup(cancel)
	e, err := engine.Start(ctx, engine.Options{Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpTimeout)
		defer cancel()
		if err := e.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	h, err := host.Start(ctx, e, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Log("the host's console:\n" + h.Console(context.WithoutCancel(ctx)))
		}
	})
	return ctx, e, h
}

func TestHostIsAMachine(t *testing.T) {
	ctx, e, h := start(t, host.Options{Name: "alpha", Memory: "1g", Env: []string{"DROVER_TEST=from the harness"}})

	t.Run("systemd is up and nothing failed", func(t *testing.T) {
		expect(t, sh(ctx, t, h, `systemctl is-system-running; systemctl list-units --failed --no-legend`), "running\n")
	})
	t.Run("it knows its name and address", func(t *testing.T) {
		expect(t, sh(ctx, t, h, `hostname; hostname -I`), "alpha\n"+h.IP()+" \n")
	})
	t.Run("commands get input, variables and their exit code", func(t *testing.T) {
		out, err := h.Run(ctx, strings.NewReader("typed in"), "sh", "-c", `cat; echo " $DROVER_TEST"; echo spoilt >&2; exit 7`)
		expect(t, out, "typed in from the harness\n")
		exit, ok := errors.AsType[*host.ExitError](err)
		if !ok {
			t.Fatalf("error %v is no ExitError", err)
		}
		if exit.Code != 7 || exit.Stderr != "spoilt" {
			t.Errorf("exit code %d and error output %q, want 7 and spoilt", exit.Code, exit.Stderr)
		}
	})
	t.Run("a capability this machine withholds is dropped", func(t *testing.T) {
		status, err := os.ReadFile("/proc/self/status")
		if err != nil {
			t.Fatal(err)
		}
		ours := boundingSet(t, string(status))
		for _, process := range []string{"1", "self"} { // made by create, made by exec
			theirs := boundingSet(t, sh(ctx, t, h, "cat /proc/"+process+"/status"))
			if bit := theirs & (1 << 24); bit != ours&(1<<24) {
				t.Errorf("CAP_SYS_RESOURCE of process %s: capabilities %#x, ours %#x", process, theirs, ours)
			}
			if theirs&(1<<21) == 0 {
				t.Errorf("process %s lacks CAP_SYS_ADMIN, which every host needs: capabilities %#x", process, theirs)
			}
		}
	})
	t.Run("mounts propagate as systemd has them on a machine", func(t *testing.T) {
		sh(ctx, t, h, `findmnt --noheadings --output PROPAGATION / | grep -w shared`) // it may be a slave of this machine, too
	})
	t.Run("a unit may ask for what the machine withholds", func(t *testing.T) {
		// As k3s.service and docker.service do.
		sh(ctx, t, h, `systemd-run --quiet --wait --property=LimitNOFILE=infinity --property=LimitNPROC=infinity \
			--property=OOMScoreAdjust=-999 --property=Delegate=yes --property=TasksMax=infinity true`)
	})
	t.Run("a transient unit runs", func(t *testing.T) {
		sh(ctx, t, h, `systemd-run --unit=steady --quiet sleep infinity; systemctl is-active steady`)
	})
	t.Run("a transient unit outlives the command that made it", func(t *testing.T) {
		expect(t, sh(ctx, t, h, `systemctl is-active steady`), "active\n")
	})
	t.Run("a unit of type notify waits until it is ready", func(t *testing.T) {
		write(ctx, t, h, "/etc/systemd/system/notifier.service", notifyUnit, 0o644)
		sh(ctx, t, h, `systemctl daemon-reload; systemctl start notifier`)
		expect(t, sh(ctx, t, h, `systemctl show --property=ActiveState,SubState,StatusText notifier; cat /run/notifier-was`),
			"StatusText=sleeping\nActiveState=active\nSubState=running\nactivating\n")
	})
	t.Run("it reaches a server on the gateway", func(t *testing.T) {
		reachesGateway(ctx, t, h)
	})
	t.Run("this machine reaches it", func(t *testing.T) {
		sh(ctx, t, h, `systemd-run --quiet --unit=answerer --property=StandardInput=null openssl s_server -accept 8200 -nocert -quiet`)
		dial(ctx, t, net.JoinHostPort(h.IP(), "8200"))
	})
	t.Run("another host reaches it by name and has another identity", func(t *testing.T) {
		other, err := host.Start(ctx, e, host.Options{Name: "beta"})
		if err != nil {
			t.Fatal(err)
		}
		expect(t, sh(ctx, t, other, `getent hosts alpha | cut -d ' ' -f 1`), h.IP()+"\n")
		sh(ctx, t, other, `timeout 120 bash -c '</dev/tcp/alpha/8200'`)
		for _, path := range []string{"/etc/machine-id", "/proc/sys/kernel/random/boot_id"} {
			if one, two := sh(ctx, t, h, "cat "+path), sh(ctx, t, other, "cat "+path); one == two || len(one) < 32 {
				t.Errorf("%s: %q on one host, %q on the other", path, one, two)
			}
		}
		if err := other.Remove(ctx); err != nil {
			t.Error(err)
		}
		if err := other.Remove(ctx); err != nil {
			t.Errorf("remove it again: %v", err)
		}
	})
	t.Run("its memory", func(t *testing.T) {
		bytes, err := h.Memory(ctx)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%d MiB", bytes>>20)
		if bytes < 1<<20 || bytes > 1<<30 {
			t.Errorf("%d bytes", bytes)
		}
	})
}

func TestHostReboots(t *testing.T) {
	ctx, _, h := start(t, host.Options{Name: "rebooter", Volumes: []string{"/var/lib/rancher"}})
	sh(ctx, t, h, `echo kept >/root/file; echo kept >/var/lib/rancher/file; echo gone >/run/file`)
	// A unit that counts its starts and says so in the journal, as an agent would.
	write(ctx, t, h, "/etc/systemd/system/counter.service", counterUnit, 0o644)
	sh(ctx, t, h, `systemctl enable --quiet --now counter`)
	counted(ctx, t, h, 1)
	machine, boot, ip := sh(ctx, t, h, `cat /etc/machine-id`), bootID(ctx, t, h), h.IP()

	ways := []struct {
		name  string
		again func() error
	}{
		{"in order", func() error { return h.Reboot(ctx) }},
		{"after a power cut", func() error { return errors.Join(h.Kill(ctx), h.Boot(ctx)) }},
	}
	for i, way := range ways {
		t.Run(way.name, func(t *testing.T) {
			begin := time.Now()
			if err := way.again(); err != nil {
				t.Fatal(err)
			}
			t.Log("took", time.Since(begin))
			expect(t, sh(ctx, t, h, `cat /root/file /var/lib/rancher/file; ls /run/file 2>/dev/null || true`), "kept\nkept\n")
			expect(t, sh(ctx, t, h, `cat /etc/machine-id`), machine)
			expect(t, sh(ctx, t, h, `hostname -I`), ip+" \n")
			if next := bootID(ctx, t, h); next == boot {
				t.Error("the boot id is the one before")
			} else {
				boot = next
			}
			counted(ctx, t, h, i+2)
			expect(t, sh(ctx, t, h, `journalctl --quiet --boot --unit counter --output cat | grep -c 'start number'`), "1\n")
		})
	}
}

func TestHostFiles(t *testing.T) {
	ctx, _, h := start(t, host.Options{Name: "files"})
	src := t.TempDir()
	script, data := filepath.Join(src, "script"), strings.Repeat("0123456789abcdef\x00\n", 100_000)
	if err := os.WriteFile(script, []byte(data), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(src, "below"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../script", filepath.Join(src, "below", "link")); err != nil {
		t.Fatal(err)
	}

	for from, to := range map[string]string{script: "/opt/a b/script", src: "/run/dir"} { // /run is a tmpfs
		if err := h.Copy(ctx, from, to); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"/opt/a b/script", "/run/dir/script", "/run/dir/below/link"} {
		if got, err := h.ReadFile(ctx, path); err != nil || string(got) != data {
			t.Errorf("%s: %d bytes, error %v", path, len(got), err)
		}
	}
	expect(t, sh(ctx, t, h, `stat --format '%a %U' '/opt/a b/script' /run/dir/script; ls '/opt/a b'`), "750 root\n750 root\nscript\n")
	if _, err := h.ReadFile(ctx, "/missing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read of a missing file: %v", err)
	}
	if _, err := h.ReadFile(ctx, "/etc"); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read of a directory: %v", err)
	}

	dir := t.TempDir()
	if err := h.Collect(ctx, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"journal.txt": "Startup finished", "console.txt": "Welcome to", "units.txt": "dbus.service", "processes.txt": "/sbin/init", "network.txt": h.IP()} {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %q (error %v):\n%s", name, want, err, text)
		}
	}
}

// notifyUnit says that it is ready a moment after it started, and notes what systemd thought of it before.
const notifyUnit = `[Service]
Type=notify
NotifyAccess=all
ExecStart=/bin/sh -c 'sleep 0.3; systemctl show --property=ActiveState --value notifier >/run/notifier-was; systemd-notify --ready --status=sleeping; exec sleep infinity'
`

const counterUnit = `[Service]
ExecStart=/bin/sh -c 'echo x >>/root/count; echo "start number $(wc -l </root/count)"; exec sleep infinity'
[Install]
WantedBy=multi-user.target
`

// counted waits until the journal has so many starts of the counter: that its unit is started does not say that its
// script has spoken.
func counted(ctx context.Context, t *testing.T, h *host.Host, starts int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	err := bed.Await(ctx, fmt.Sprintf("%d starts in the journal", starts), 100*time.Millisecond, func(ctx context.Context) error {
		journal, err := h.Journal(ctx, "counter")
		if err != nil {
			return err
		}
		for start := range starts {
			if want := fmt.Sprintf("start number %d\n", start+1); !strings.Contains(journal, want) {
				return fmt.Errorf("it lacks %q:\n%s", want, journal)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// reachesGateway lets the host connect to a listener of this process.
func reachesGateway(ctx context.Context, t *testing.T, h *host.Host) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", net.JoinHostPort(h.Gateway(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	got := make(chan string, 1)
	go func() {
		defer close(got)
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer connection.Close()
		text, _ := bufio.NewReader(connection).ReadString('\n') // what came is compared
		got <- text
	}()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.Run(ctx, strings.NewReader("hello\n"), "timeout", "120", "curl", "--silent", "--no-buffer", "telnet://"+h.Gateway()+":"+port); err != nil {
		t.Fatal(err)
	}
	expect(t, <-got, "hello\n")
}

// dial connects to a server that may still be starting.
func dial(ctx context.Context, t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		connection, err := new(net.Dialer).DialContext(ctx, "tcp", address)
		if err == nil {
			_ = connection.Close()
			return
		}
		select {
		case <-ctx.Done():
			t.Fatal(err)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func sh(ctx context.Context, t *testing.T, h *host.Host, script string) string {
	t.Helper()
	out, err := h.Sh(ctx, script)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func write(ctx context.Context, t *testing.T, h *host.Host, path, text string, mode fs.FileMode) {
	t.Helper()
	if err := h.WriteFile(ctx, path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
}

func bootID(ctx context.Context, t *testing.T, h *host.Host) string {
	t.Helper()
	return sh(ctx, t, h, `cat /proc/sys/kernel/random/boot_id`)
}

// boundingSet reads the capability bounding set of a /proc/PID/status.
func boundingSet(t *testing.T, status string) uint64 {
	t.Helper()
	_, after, _ := strings.Cut(status, "CapBnd:")
	fields := strings.Fields(after)
	if len(fields) == 0 {
		t.Fatalf("no CapBnd line in %q", status)
	}
	set, err := strconv.ParseUint(fields[0], 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func expect(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
