// What makes several servers one: they share an authority, a secret and the knowledge of
// who holds which tunnel, all through their store.

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/drover-project/drover"
	"github.com/drover-project/drover/server/pki"
	"github.com/drover-project/drover/server/planner"
	"github.com/drover-project/drover/server/presence"
	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/relay"
)

// Names of the secrets that all servers of a store share.
const (
	secretAuthority = "authority"
	secretRelay     = "relay"
)

// authority is that of the data directory; servers on one external etcd share the first one's.
func (s *Server) authority(ctx context.Context) (*pki.Authority, error) {
	dir := filepath.Join(s.DataDir, "tls")
	if len(s.Store.Endpoints) == 0 {
		return pki.Open(dir, s.Now)
	}
	bundle, err := s.shared(ctx, secretAuthority, func() (string, error) {
		own, err := pki.Open(dir, s.Now)
		if err != nil {
			return "", err
		}
		b, err := own.Bundle()
		return string(b), err
	})
	if err != nil {
		return nil, err
	}
	if err := pki.Adopt(dir, []byte(bundle)); err != nil {
		return nil, err
	}
	return pki.Open(dir, s.Now)
}

// shared is a secret of all servers of the store; the first that needs it makes it.
func (s *Server) shared(ctx context.Context, name string, first func() (string, error)) (string, error) {
	if d, ok := s.state.ServerSecrets.Get(name); ok {
		return d.Value.Value, nil
	}
	turn, err := s.state.Store.Campaign(ctx, "shared-"+name, "server")
	if err != nil {
		return "", fmt.Errorf("share the %s of all servers: %w", name, err)
	}
	defer func() { _ = turn.Resign(ctx) }() // where this fails the lease ends by itself
	if d, ok := s.state.ServerSecrets.Get(name); ok {
		return d.Value.Value, nil
	}
	value, err := first()
	if err != nil {
		return "", err
	}
	if _, err := s.state.ServerSecrets.Create(ctx, name, records.ServerSecret{Value: value}); err != nil {
		return "", fmt.Errorf("share the %s of all servers: %w", name, err)
	}
	return value, nil
}

// join makes this server one of those of its store.
func (s *Server) join(ctx context.Context) error {
	secret, err := s.shared(ctx, secretRelay, func() (string, error) { return random.Secret(), nil })
	if err != nil {
		return err
	}
	trust, err := s.peerTrust()
	if err != nil {
		return err
	}
	s.presence = presence.New(presence.Options{
		State: s.state, Changed: s.tunnelChanged, Logger: s.Logger, Now: s.Now,
		Self: records.Replica{ID: random.ID(8), URL: s.names.url(s.PeerURL), Version: drover.Version, Started: s.Now().UTC()},
	})
	s.relay = relay.New(relay.Options{Local: s.tunnels, Presence: s.presence, Secret: secret, TLS: trust, Logger: s.Logger})
	s.tunnels.OnChange(s.presence.Local)
	return nil
}

// peerTrust is the trust in the other servers, whose certificates are of the same authority.
func (s *Server) peerTrust() (*tls.Config, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(s.caPEM) == 0 {
		return trust, nil // the system's, as agents have it
	}
	trust.RootCAs = x509.NewCertPool()
	if !trust.RootCAs.AppendCertsFromPEM(s.caPEM) {
		return nil, errors.New("the authority of this server is not a PEM certificate")
	}
	return trust, nil
}

// tunnelChanged is told when a host's tunnel to any server came or went.
func (s *Server) tunnelChanged(subject string, connected bool) {
	s.nodes.TunnelChanged(subject, connected)
	if d, ok := s.state.Machines.Get(records.MachineOfSubject(subject)); ok && d.Value.Docker != nil {
		s.control.Changed(d.Value.ClusterKey())
	}
}

// openTunnels are those of all servers.
func (s *Server) openTunnels(ctx context.Context) []relay.Held {
	return s.relay.Sessions(ctx, s.presence.Self, s.presence.Others())
}

// tunnelOf is what is known of a host's tunnel; only the server where it ended knows why.
func (s *Server) tunnelOf(subject string) planner.Tunnel {
	since, connected := s.presence.Connected(subject)
	t := planner.Tunnel{Connected: connected, Since: since}
	if ended := s.tunnels.Ended(subject); !connected && len(ended) > 0 {
		t.Reason = ended[len(ended)-1].Reason
	}
	return t
}
