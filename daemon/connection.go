// The connection to the server: the plan Secret, and the tunnel when the server offers one.
// Its file is read again whenever it changes: tokens end, and servers move.

package daemon

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/drover-project/drover/daemon/config"
	"github.com/drover-project/drover/daemon/filewatch"
	"github.com/drover-project/drover/daemon/hostservice"
	"github.com/drover-project/drover/daemon/lifecycle"
	"github.com/drover-project/drover/plans/remote"
	"github.com/drover-project/drover/tunnel"
)

// connection is what one content of the file leads to.
type connection struct {
	sum            filewatch.Sum
	server, secret string // for people
	tunnel         string // empty when there is none
	remote         *remote.Source
	refresh        func() // looks the tunnel's server up; nil when there is no tunnel
	parts          []lifecycle.Part
}

// connect reads the file and makes what it asks for; nothing runs yet.
func (a *agent) connect(file string) (*connection, error) {
	sum := filewatch.Of(file) // before it is read: what comes in between is read again
	c, err := config.LoadConnection(file)
	if err != nil {
		return nil, err
	}
	access, err := remote.ParseKubeconfig(c.KubeConfig)
	if err != nil {
		return nil, fmt.Errorf("connection information %s: %w", file, err)
	}
	source, err := remote.New(remote.Options{
		Access: access, Namespace: c.Namespace, SecretName: c.SecretName, Engine: noted{a.engine, a.liveStatus},
		UserAgent: a.UserAgent, Changed: a.liveStatus.setRemote, Logger: a.Logger, Now: a.Now, HostReport: a.hostReport,
	})
	if err != nil {
		return nil, fmt.Errorf("connection information %s: %w", file, err)
	}
	made := &connection{
		sum: sum, server: access.Server.Redacted(), secret: c.Namespace + "/" + c.SecretName, remote: source,
		parts: []lifecycle.Part{{Name: "plan Secret", Run: source.Run}},
	}
	if c.TunnelURL == "" {
		return made, nil
	}
	u, err := url.Parse(c.TunnelURL)
	if err != nil || u.Scheme != "wss" || u.Host == "" {
		return nil, fmt.Errorf("connection information %s: tunnelURL %q is not of the form wss://host[:port]/path", file, c.TunnelURL)
	}
	service := hostservice.New(hostservice.Options{Root: a.Root, Status: a.looking(), Logger: a.Logger})
	spared := &access.Spared
	if u.Host != access.Server.Host { // another server's requests are its own
		spared = nil
	}
	client := tunnel.NewClient(tunnel.ClientOptions{
		URL: c.TunnelURL, Header: a.tunnelHeader(access), TLS: access.TLS, Spared: spared, Dial: service.Dial,
		Changed: a.liveStatus.setTunnel, Logger: a.Logger, Now: a.Now,
	})
	made.tunnel, made.refresh = c.TunnelURL, client.Refresh
	made.parts = append(made.parts, lifecycle.Part{Name: "host service", Run: service.Run}, lifecycle.Part{Name: "tunnel", Run: client.Run})
	return made, nil
}

// tunnelHeader has the credentials of the kubeconfig, read anew for each attempt.
func (a *agent) tunnelHeader(access *remote.Access) func() http.Header {
	return func() http.Header {
		h := http.Header{"User-Agent": {a.UserAgent}}
		authorization, err := access.Authorization()
		if err != nil {
			a.Logger.Error("credentials cannot be read", "error", err)
		} else if authorization != "" {
			h.Set("Authorization", authorization)
		}
		return h
	}
}

// stayConnected keeps the connection, and another one once its file has changed. A file that
// cannot be used leaves the old one in place.
func (a *agent) stayConnected(ctx context.Context, file string) error {
	for {
		c := a.connection.Load()
		inner, stop := context.WithCancel(ctx)
		next := make(chan *connection, 1)
		go func() {
			defer stop()
			next <- a.renewed(inner, file, c.sum)
		}()
		err := (&lifecycle.Life{Parts: c.parts, Logger: a.Logger, Now: a.Now, Hopeless: hopeless, Fault: a.liveStatus.setFault}).Run(inner)
		stop()
		renewed := <-next
		if err != nil || ctx.Err() != nil {
			return err
		}
		a.liveStatus.setTunnel(tunnel.Status{})
		a.connection.Store(renewed)
		a.Logger.Info("connection information has changed, connecting anew", "file", file, "server", renewed.server, "secret", renewed.secret)
	}
}

// renewed waits for a content of the file that can be used; nil when the context ends.
func (a *agent) renewed(ctx context.Context, file string, known filewatch.Sum) *connection {
	for {
		now, err := filewatch.Wait(ctx, file, known)
		if err != nil {
			return nil
		}
		c, err := a.connect(file)
		if err == nil {
			return c
		}
		if now != (filewatch.Sum{}) { // gone for a moment, while another is put in its place
			a.Logger.Error("connection information has changed and cannot be used, the old one stays in use", "error", err)
		}
		known = now
	}
}
