// The bundle command: what is known of this host and its agent, in one file, without a server.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/daemon"
	"github.com/drover-project/drover/daemon/bundle"
	"github.com/drover-project/drover/daemon/config"
	"github.com/drover-project/drover/daemon/status"
)

// bundleLimit is how long it may take to collect a bundle.
const bundleLimit = 2 * time.Minute

// hostUnits are the units of a host that a bundle looks at.
func hostUnits() []string {
	return []string{"rancher-system-agent.service", "k3s.service", "k3s-agent.service", "rke2-server.service", "rke2-agent.service", "rancher-agent.service", "docker.service"}
}

func writeBundle(args []string, env func(string) string, stdout, stderr io.Writer) int {
	host, err := os.Hostname()
	if err != nil {
		host = "host"
	}
	now := time.Now()
	path := fmt.Sprintf("drover-bundle-%s-%s.tar.zst", host, now.UTC().Format("20060102T150405Z"))
	switch {
	case len(args) == 1 && args[0] != "" && args[0][0] != '-':
		path = args[0]
	case len(args) > 0:
		return fail(stderr, errors.New("bundle takes the name of the file alone"))
	}
	stopped, stop := untilStopped()
	defer stop()
	ctx, cancel := context.WithTimeout(stopped, bundleLimit)
	defer cancel()
	b := bundle.New("Host "+host, now)
	b.Value("version.json", "The agent's release", map[string]string{"version": drover.Version}, bundle.Allow("version"))
	if s, err := status.NewClient(statusSocket(env)).Status(ctx); err != nil {
		b.Fail("agent.json", err)
	} else {
		b.Value("agent.json", "What the agent does, waits for and failed at", s, bundle.AgentStatus)
	}
	if c, err := config.LoadAgent(config.Find(env)); err != nil {
		b.Fail("interrupted.txt", err)
	} else if left, err := daemon.Interrupted(c.LedgerDirectory()); err != nil {
		b.Fail("interrupted.txt", err)
	} else {
		b.Text("interrupted.txt", "Plans that were begun and not ended", left)
	}
	b.Host(ctx, hostUnits()...)
	if err := bundle.Save(path, b); err != nil {
		return fail(stderr, err)
	}
	fmt.Fprintf(stdout, "%s: unpack it (tar --zstd -xf %s) and open index.html\n", path, path)
	return 0
}
