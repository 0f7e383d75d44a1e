// The keeper brings the host to the last node config and keeps it so, whether the server
// is there or not.

package node

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/apply/hostfs"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/rke1/nodeconfig"
)

const (
	// keepEvery is how often the containers are looked at when nothing seems to happen.
	keepEvery = 5 * time.Minute
	// settle is how long the keeper lets things happen before it looks, so that a container
	// that Docker itself restarts is not taken for a dead one.
	settle = 3 * time.Second
	// renewBefore is how long before its end the kubelet's certificate is asked for anew.
	renewBefore = 72 * time.Hour
)

type keeper struct {
	*agent
	engine *nodeconfig.Engine
	fresh  chan struct{} // has one entry when a node config came
	// applied gets the version of each node config that was brought about.
	applied chan int
	linked  map[string]bool // containers whose logs were linked in this life, by id; of run alone

	mu     sync.Mutex
	wanted *nodeconfig.NodeConfig // nil before the first
}

func newKeeper(a *agent) *keeper {
	k := &keeper{agent: a, engine: &nodeconfig.Engine{Docker: a.docker.client, Logger: a.Logger},
		fresh: make(chan struct{}, 1), applied: make(chan int, 1), linked: map[string]bool{}}
	wanted, err := k.load()
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		a.Logger.Warn("the last node config cannot be used; the server is asked for another", "error", err)
	default:
		a.Logger.Info("host is kept as the last node config says", "cluster", wanted.ClusterName, "version", wanted.NodeVersion)
		k.wanted = wanted
		k.fresh <- struct{}{}
	}
	return k
}

// The files of the keeper; they hold keys and passwords of registries.
func (k *keeper) configFile() string  { return filepath.Join(k.StateDir, "node-config.json") }
func (k *keeper) appliedFile() string { return filepath.Join(k.StateDir, "node-config-applied.json") }

func (k *keeper) load() (*nodeconfig.NodeConfig, error) {
	b, err := durable.ReadFile(k.configFile(), nodeconfig.MaxSize)
	if err != nil {
		return nil, err
	}
	return nodeconfig.Decode(b)
}

// take makes a node config the one to keep to.
func (k *keeper) take(wanted *nodeconfig.NodeConfig) {
	if err := durable.WriteJSON(k.configFile(), wanted, 0o600); err != nil {
		k.Logger.Warn("the node config cannot be kept for when the server is away", "error", err)
	}
	k.mu.Lock()
	k.wanted = wanted
	k.mu.Unlock()
	select {
	case k.fresh <- struct{}{}:
	default:
	}
}

func (k *keeper) now() *nodeconfig.NodeConfig {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.wanted
}

// run brings the host to each node config, and back to it after any change.
func (k *keeper) run(ctx context.Context) error {
	pause := backoff.Backoff{Min: 2 * time.Second, Max: time.Minute, Floor: 0.5}
	next := keepEvery
	for {
		timer := time.NewTimer(next)
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-k.fresh:
		case <-k.docker.stirred:
			if err := backoff.Wait(ctx, settle); err != nil {
				return err
			}
		case <-timer.C:
		}
		timer.Stop()
		wanted := k.now()
		if wanted == nil {
			continue
		}
		if err := k.pass(ctx, wanted); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			k.liveStatus.set(onContainers, err)
			next = pause.Next()
			continue
		}
		pause.Reset()
		next = keepEvery
		k.liveStatus.set(onContainers, nil)
		k.acknowledge(wanted.NodeVersion)
	}
}

// acknowledge leaves the version for the pull, in place of an older one.
func (k *keeper) acknowledge(version int) {
	select {
	case <-k.applied:
	default:
	}
	k.applied <- version
}

// pass brings the host to a node config once.
func (k *keeper) pass(ctx context.Context, wanted *nodeconfig.NodeConfig) error {
	renewed, err := nodeconfig.WriteFiles(hostfs.FS{Root: k.Root}, wanted)
	if err != nil {
		return err
	}
	// A restart that a crash or a missing engine came between is still due.
	before, after := k.appliedCerts(), digest(wanted.Certs)
	if wanted.Certs == "" { // it asks for nothing, as while the server's engine works here; what was applied stays what it is
		after = before
	}
	renewed = renewed || before != "" && before != after
	plan, err := k.engine.Apply(ctx, wanted, renewed)
	if err != nil {
		return err
	}
	if before != after {
		if err := durable.WriteJSON(k.appliedFile(), applied{Certs: after}, 0o600); err != nil {
			return fmt.Errorf("write down what was applied: %w", err)
		}
	}
	if len(plan) > 0 {
		k.Logger.Info("host is as the node config says", "version", wanted.NodeVersion, "actions", len(plan))
	}
	k.linkLogs(ctx, wanted)
	return nil
}

// applied is what was brought about last.
type applied struct {
	Certs string `json:"certs"` // SHA-256 of the bundle
}

func (k *keeper) appliedCerts() string {
	var a applied
	b, err := durable.ReadFile(k.appliedFile(), 4<<10)
	if err == nil {
		err = json.Unmarshal(b, &a)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		k.Logger.Warn("what was applied last cannot be read", "error", err)
	}
	return a.Certs
}

func digest(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

// linkLogs links the log of each container that is new to this life. It is a convenience;
// its failure is logged and keeps nothing back.
func (k *keeper) linkLogs(ctx context.Context, wanted *nodeconfig.NodeConfig) {
	found, err := k.engine.Look(ctx, wanted)
	if err != nil {
		k.Logger.Warn("the containers' logs cannot be linked", "error", err)
		return
	}
	for _, c := range found {
		p, mine := wanted.Processes[c.Name]
		if !mine || k.linked[c.ID] || c.Name == nodeconfig.Sidekick || c.Name == nodeconfig.ShareMnt {
			continue
		}
		k.linked[c.ID] = true
		image := p.Image
		if helper, ok := wanted.Processes[nodeconfig.Sidekick]; ok {
			image = helper.Image // which has a shell
		}
		if err := k.engine.LinkLog(ctx, image, c); err != nil {
			k.Logger.Warn("a container's log cannot be linked", "error", err)
		}
	}
}

// needsCertificate says whether the kubelet is to serve with a certificate that is
// missing, ends soon, or does not name this host.
func (k *keeper) needsCertificate() bool {
	wanted := k.now()
	if wanted == nil {
		return false
	}
	for _, arg := range wanted.Processes["kubelet"].Command {
		if path, ok := strings.CutPrefix(arg, "--tls-cert-file="); ok {
			b, err := durable.ReadFile(filepath.Join("/", k.Root, path), maxCA)
			return err != nil || outdated(b, k.Now(), k.NodeName, k.address) != nil
		}
	}
	return false
}

// outdated says why a serving certificate will not do, nil when it does.
func outdated(text []byte, now time.Time, hostname string, a addresses) error {
	block, _ := pem.Decode(text)
	if block == nil {
		return errors.New("it is no PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	if c.NotAfter.Sub(now) < renewBefore {
		return fmt.Errorf("it ends on %s", c.NotAfter.UTC().Format(time.RFC3339))
	}
	for _, name := range []string{hostname, a.external, a.internal} {
		if name == "" {
			continue
		}
		if err := c.VerifyHostname(bracketed(name)); err != nil {
			return err
		}
	}
	return nil
}

func bracketed(name string) string {
	if ip := net.ParseIP(name); ip != nil && ip.To4() == nil {
		return "[" + name + "]"
	}
	return name
}
