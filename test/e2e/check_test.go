//go:build e2e && e2e_full

package e2e

// What `drover server check` finds on a host with one fault at a time, of those that only a host of its own can have.

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/test/bed/host"
)

type checked struct {
	Check, Level string
	Says         string
}

// serverHost starts a host with the program of the server on it.
func serverHost(ctx context.Context, t *testing.T) *host.Host {
	t.Helper()
	b, err := bed.Start(ctx, bed.Options{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	must(t, err)
	t.Cleanup(func() { must(t, b.Close(context.WithoutCancel(ctx))) })
	h, err := b.Host(ctx, host.Options{Name: "office"})
	must(t, err)
	must(t, h.Copy(ctx, filepath.Join("../..", "bin", "drover"), "/usr/local/bin/drover"))
	return h
}

func TestEachFaultOfAHostHasItsFinding(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	h := serverHost(ctx, t)
	sh := func(script string) string {
		t.Helper()
		out, err := h.Sh(ctx, script)
		if err != nil {
			t.Fatalf("%s: %v: %s", script, err, out)
		}
		return out
	}
	// check is what is not well, each as "level check: found".
	check := func(before string, flags string) (bad []string) {
		t.Helper()
		out := sh(before + "drover server check -o json " + flags + " || test $? = 1")
		var all []checked
		if err := json.Unmarshal([]byte(out), &all); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for _, one := range all {
			if one.Level != "ok" && one.Check != "disk" || one.Level == "error" { // how quick the disk of this machine is
				bad = append(bad, one.Level+" "+one.Check+": "+one.Says)
			}
		}
		return bad
	}
	well := "--data-dir /srv/well --listen 127.0.0.1:8443 --server-url https://127.0.0.1:8443"
	sh("mkdir -m 0700 -p /srv/well")
	baseline := check("", well)
	tmpfs := func(options, fill string) string {
		return "{ umount /srv/small 2>/dev/null || true; } && mkdir -p /srv/small && mount -t tmpfs -o mode=0700," + options + " tmpfs /srv/small && { " + fill + "; }"
	}
	small := strings.Replace(well, "/srv/well", "/srv/small", 1)
	for _, c := range []struct{ name, setup, before, flags, want string }{
		{"a disk that is full", tmpfs("size=4m", "head -c 8m /dev/zero >/srv/small/full 2>/dev/null || true"), "", small, "error disk space: 0.0 GiB are free"},
		{"a disk that is nearly full", tmpfs("size=2g", "true"), "", small, "warning disk space: 2.0 GiB are free"},
		{"a disk without inodes", tmpfs("size=16g,nr_inodes=2000", "true"), "", small, "error disk space: "},
		{"a disk that is read-only", tmpfs("size=16g", "mount -o remount,ro /srv/small"), "", small, "error disk: write to /srv/small"},
		{"few files", "true", "ulimit -n 1024; ", well, "warning limits: 1024 files may be open"},
		{"a data directory of another user", "true", "setpriv --reuid=65534 --regid=65534 --clear-groups ", well, "error data directory: "},
		{"names that are not known", "true", "mount --bind /dev/null /etc/resolv.conf; mount --bind /dev/null /etc/hosts; ", strings.Replace(well, "https://127.0.0.1", "https://office.lan", 1), "error server-url: "},
		{"a port that is taken", "drover server --ephemeral --data-dir /srv/other --listen 127.0.0.1:8444 >/dev/null 2>&1 & until curl -sfk https://127.0.0.1:8444/ping >/dev/null; do sleep 0.2; done", "",
			strings.ReplaceAll(well, "8443", "8444"), "error port: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			sh(c.setup)
			found := slices.DeleteFunc(check(c.before, c.flags), func(one string) bool { return slices.Contains(baseline, one) })
			if len(found) != 1 || !strings.HasPrefix(found[0], c.want) {
				t.Errorf("found %q, want %q alone", found, c.want)
			}
		})
	}
	t.Logf("on a host that is well: %q", baseline)
}
