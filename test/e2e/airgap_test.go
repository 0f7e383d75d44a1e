//go:build e2e && e2e_full

package e2e

// A host that reaches the server and nothing else, prepared as docs/how-to/provision-without-a-network.md says, by that page's own commands.

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/test/journey"
)

// commands are the shell commands of a section of a page.
func commands(t *testing.T, page, section string) []string {
	t.Helper()
	text, err := os.ReadFile(page)
	must(t, err)
	_, rest, found := strings.Cut(string(text), "\n## "+section+"\n")
	if !found {
		t.Fatalf("%s has no section %q", page, section)
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	var all []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(rest, -1) {
		all = append(all, block[1])
	}
	return all
}

func TestAnAirGappedHost(t *testing.T) {
	module, err := filepath.Abs("../..")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	j, err := journey.Start(ctx, journey.Options{
		Dir: t.TempDir(), CacheDir: os.Getenv("DROVER_CACHE"), Module: module, AirGapped: true, Say: t.Logf, Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	must(t, err)
	w := &walk{T: t, Journey: j, ctx: ctx}
	t.Cleanup(func() {
		if t.Failed() {
			w.evidence()
		}
		if err := j.Close(context.WithoutCancel(ctx)); err != nil {
			t.Error(err)
		}
	})
	must(t, j.StartServer(ctx))
	w.drover("apply", "-f", filepath.Join(module, "examples/k3s.yaml"))
	w.host, err = w.Host(ctx, "pier-1")
	must(t, err)
	must(t, w.CarryArchives(ctx, w.host, "/media/airgap"))
	w.sh("iptables -I OUTPUT -o eth0 ! -d " + w.host.Gateway() + " -j REJECT")
	before, after := commands(t, filepath.Join(module, "docs/how-to/provision-without-a-network.md"), "On the host"), ""
	if len(before) != 2 {
		t.Fatalf("the page has %d pieces of commands for the host: %q", len(before), before)
	}
	before, after = before[:1], before[1]
	w.sh(before[0])
	w.join, err = w.JoinCommand(ctx, "harbour")
	must(t, err)
	started := time.Now()
	w.sh(w.join)
	w.becomesActive("joined without a network", started)
	if out := w.sh(after); !strings.Contains(out, "/var/lib/rancher/agent/images/installer.tar") {
		t.Errorf("the journal says\n%s", out)
	}
	w.pods()
}
