// The cluster agent: the same tunnel, opened from a pod, that leads to the API server of the pod's own cluster and to
// nothing else. What the server may do there is that of the pod's service account.
//
// Wire source: rancher/rancher v2.8.5 pkg/agent/cluster.

package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/daemon/lifecycle"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
)

// onAccount is the condition that the pod has its service account; of the cluster agent alone.
const onAccount = "service account"

const (
	// maxAccount bounds a file of the service account, in bytes.
	maxAccount = 64 << 10
	// accountEvery is how often the files are looked at: Kubernetes replaces a token that ends.
	accountEvery = time.Minute
)

// InCluster is what a cluster agent is made of beside Options.
type InCluster struct {
	// API is host:port of the cluster's API server as pods reach it.
	API string
	// Accounts are directories with token and ca.crt of the pod's service account; the first that exists counts.
	Accounts []string
}

// inCluster is one life of a cluster agent.
type inCluster struct {
	*line
	cluster InCluster
}

var errNewAccount = errors.New("the token of the service account is another one")

// runCluster lives until the context ends.
func runCluster(ctx context.Context, o Options) error {
	if o.Now == nil {
		o.Now = time.Now
	}
	o.NoRegister = true // there is no host to register
	a := &agent{Options: o, liveStatus: newLiveStatus(o.Logger, o.Now), needs: map[string]bool{onTunnel: true, onAccount: true}}
	a.authority = newAuthority(o, a.liveStatus)
	c := &inCluster{line: &line{agent: a}, cluster: *o.Cluster}
	parts := []lifecycle.Part{{Name: "checks", Run: c.look}, {Name: "tunnel", Run: c.connect}, {Name: "refresh", Run: c.again}}
	if a.HealthSocket != "" || a.HealthAddress != "" {
		parts = append(parts, lifecycle.Part{Name: "health", Run: a.serveHealth})
	}
	err := (&lifecycle.Life{Parts: parts, Logger: a.Logger, Now: a.Now, Hopeless: stuck}).Run(ctx)
	if err != nil {
		return fmt.Errorf("%w; Kubernetes is to start this pod's container again", err)
	}
	return nil
}

// look looks at the pod once and at the server for ever.
func (c *inCluster) look(ctx context.Context) error {
	c.checkResolvConf("/etc/resolv.conf")
	c.checkNames(ctx)
	return c.watchServer(ctx)
}

// account is the pod's service account now, as the tunnel announces it.
func (c *inCluster) account() (*connect.Cluster, error) {
	for _, dir := range c.cluster.Accounts {
		dir = filepath.Join("/", c.Root, dir)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		token, err := durable.ReadFile(filepath.Join(dir, "token"), maxAccount)
		if err != nil {
			return nil, fmt.Errorf("the token of the service account is not there yet: %w", err)
		}
		ca, err := durable.ReadFile(filepath.Join(dir, "ca.crt"), maxAccount)
		if err != nil {
			return nil, fmt.Errorf("the CA of the cluster is not there yet: %w", err)
		}
		said := connect.NewCluster(c.cluster.API, strings.TrimSpace(string(token)), ca)
		if _, err := connect.EncodeCluster(*said); err != nil {
			return nil, fmt.Errorf("the service account in %s cannot be used: %w", dir, err)
		}
		return said, nil
	}
	return nil, fmt.Errorf("none of %s is mounted; the manifest of the cluster agent mounts the first one", strings.Join(c.cluster.Accounts, " and "))
}

// connect keeps the tunnel open, made anew when the service account's token is another one.
func (c *inCluster) connect(ctx context.Context) error {
	pause := backoff.Server(c.Now)
	for {
		said, err := c.account()
		c.liveStatus.set(onAccount, err)
		trusted, sum, caErr := c.authority.tls(ctx)
		if caErr != nil {
			c.liveStatus.set(onTunnel, fmt.Errorf("the server's CA is not known yet: %w", caErr))
		}
		if err != nil || caErr != nil {
			if err := pause.Wait(ctx, errors.Join(err, caErr), c.spared); err != nil {
				return err
			}
			continue
		}
		pause.Reset()
		one, end := context.WithCancelCause(ctx)
		client := tunnel.NewClient(tunnel.ClientOptions{
			URL: "wss://" + c.Server.Host + connect.Path, Header: func() http.Header { return c.said(said) }, TLS: trusted,
			Renewal: c.authority.renewal(sum), Resolve: c.Resolve, Spared: c.spared, Dial: c.dialAPI, Changed: c.changes, Logger: c.Logger, Now: c.Now,
		})
		c.mu.Lock()
		c.client = client
		c.mu.Unlock()
		watching := make(chan struct{})
		go func() {
			defer close(watching)
			c.watchAccount(one, said, end)
		}()
		err = client.Run(one)
		anew := errors.Is(context.Cause(one), errNewAccount)
		end(nil)
		<-watching
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case !anew:
			return err
		}
		c.Logger.Info("tunnel is made anew", "because", errNewAccount)
	}
}

// watchAccount ends a tunnel that announced another token than there is now.
func (c *inCluster) watchAccount(ctx context.Context, said *connect.Cluster, end context.CancelCauseFunc) {
	for backoff.Wait(ctx, accountEvery) == nil {
		if now, err := c.account(); err == nil && *now != *said {
			end(errNewAccount)
			return
		}
	}
}

func (c *inCluster) said(account *connect.Cluster) http.Header {
	h := http.Header{"User-Agent": {c.UserAgent}}
	h.Set(connect.TokenHeader, c.Token)
	if params, err := connect.EncodeCluster(*account); err == nil { // account has tried it
		h.Set(connect.ParamsHeader, params)
	}
	return h
}

func (c *inCluster) changes(s tunnel.Status) {
	switch {
	case s.State == tunnel.Connected:
		c.liveStatus.set(onTunnel, nil)
		c.liveStatus.set(onCA, nil)
	case s.Cause != nil:
		c.liveStatus.set(onTunnel, c.explain(s.Cause))
		c.authority.doubt(s.Cause)
	case s.State == tunnel.Connecting:
		c.liveStatus.await(onTunnel, "connecting for the first time")
	}
}

// again looks the server's name up whenever it is told to.
func (c *inCluster) again(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-c.Refresh:
		}
		c.mu.Lock()
		client := c.client
		c.mu.Unlock()
		if client != nil {
			client.Refresh()
		}
	}
}

// dialAPI opens the API server of the cluster. Nothing else is offered, even when the server asks for it.
func (c *inCluster) dialAPI(ctx context.Context, network, address string) (net.Conn, error) {
	if network != "tcp" || address != c.cluster.API {
		err := &tunnel.RefusedError{Network: network, Address: address, Reason: "a cluster agent offers the Kubernetes API alone"}
		c.Logger.Warn("tunnel target does not open", "network", network, "address", address, "error", err)
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, network, address)
}
