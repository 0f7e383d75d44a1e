// What makes several servers one: they share an authority and a secret through their store.

package server

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/drover-project/drover/server/pki"
	"github.com/drover-project/drover/server/records"
)

// Names of the secrets that all servers of a store share.
const (
	secretAuthority = "authority"
	secretRelay     = "relay"
	secretLogins    = "logins"
	// secretChecksum is the checksum of the authority that hosts have pinned.
	secretChecksum = "authority-checksum"
)

// authority is that of the data directory; servers on one external etcd share the first one's.
func (d *data) authority(ctx context.Context) (*pki.Authority, error) {
	dir := filepath.Join(d.DataDir, "tls")
	if len(d.Store.Endpoints) == 0 {
		return d.ownAuthority(ctx, dir)
	}
	bundle, err := d.shared(ctx, secretAuthority, func() (string, error) {
		own, err := pki.Open(dir, d.Now)
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
	return pki.Open(dir, d.Now)
}

// ownAuthority is that of the data directory, if it is the one that the store knows. The
// first one is recorded; another one is taken with --new-authority only, since no host
// trusts it.
func (d *data) ownAuthority(ctx context.Context, dir string) (*pki.Authority, error) {
	known, recorded := d.state.ServerSecrets.Get(secretChecksum)
	if recorded && !d.NewAuthority && !pki.Exists(dir) {
		return nil, fmt.Errorf("the authority of this server (checksum %s) is missing in %s: restore its ca.crt and ca.key from a backup; without one, "+
			"start once with --new-authority, and join all hosts again", known.Value.Value, dir)
	}
	a, err := pki.Open(dir, d.Now)
	if err != nil {
		return nil, err
	}
	switch {
	case !recorded:
		_, err = d.state.ServerSecrets.Create(ctx, secretChecksum, records.ServerSecret{Value: a.Checksum()})
	case known.Value.Value == a.Checksum():
	case d.NewAuthority:
		d.Logger.Warn("the server has another authority from now on: all hosts have to join again", "before", known.Value.Value, "now", a.Checksum())
		known.Value.Value = a.Checksum()
		_, err = d.state.ServerSecrets.Update(ctx, known)
	default:
		return nil, fmt.Errorf("the authority in %s (checksum %s) is not the one of this server (%s): restore ca.crt and ca.key from a backup; without one, "+
			"start once with --new-authority, and join all hosts again", dir, a.Checksum(), known.Value.Value)
	}
	if err != nil {
		return nil, fmt.Errorf("record the checksum of the authority: %w", err)
	}
	return a, nil
}

// shared is a secret of all servers of the store; the first that needs it makes it.
func (d *data) shared(ctx context.Context, name string, first func() (string, error)) (string, error) {
	if known, ok := d.state.ServerSecrets.Get(name); ok {
		return known.Value.Value, nil
	}
	turn, err := d.state.Store.Campaign(ctx, "shared-"+name, "server")
	if err != nil {
		return "", fmt.Errorf("share the %s of all servers: %w", name, err)
	}
	defer func() { _ = turn.Resign(ctx) }() // where this fails the lease ends by itself
	if known, ok := d.state.ServerSecrets.Get(name); ok {
		return known.Value.Value, nil
	}
	value, err := first()
	if err != nil {
		return "", err
	}
	if _, err := d.state.ServerSecrets.Create(ctx, name, records.ServerSecret{Value: value}); err != nil {
		return "", fmt.Errorf("share the %s of all servers: %w", name, err)
	}
	return value, nil
}

// peerTrust is the trust in the other servers, whose certificates are of the same authority.
func (d *data) peerTrust() (*tls.Config, error) {
	trust := &tls.Config{MinVersion: tls.VersionTLS12}
	if len(d.caPEM) == 0 {
		return trust, nil // the system's, as agents have it
	}
	trust.RootCAs = x509.NewCertPool()
	if !trust.RootCAs.AppendCertsFromPEM(d.caPEM) {
		return nil, errors.New("the authority of this server is not a PEM certificate")
	}
	return trust, nil
}
