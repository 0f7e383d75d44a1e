// Whether a container works: asked over a connection from its own host.

package engine

import (
	"context"
	"crypto/tls"

	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/wanted"
)

// awaitHealth waits until a container works, when there is a way to ask it.
func (r *run) awaitHealth(ctx context.Context, h *host, c wanted.Container) error {
	if c.HealthCheck.URL == "" || c.Name == wanted.Etcd {
		return nil // etcd's health is its cluster's, and asked where that is known
	}
	var trust *tls.Config
	tries := healthTries
	if c.Name == wanted.KubeAPIServer {
		tries = apiTries
		var err error
		if trust, err = r.trust(pki.APIServer, "localhost"); err != nil {
			return err
		}
	}
	r.line("healthcheck", "Start Healthcheck on service [%s] on host [%s]", c.Name, h.node.Address)
	check := onhost.Check{URL: c.HealthCheck.URL, TLS: trust, Container: c.Name, Tries: tries, Pause: r.Pause}
	err := h.Await(ctx, check, func(attempt int, err error) {
		r.line("healthcheck", "service [%s] on host [%s] does not work yet, try %d of %d: %v", c.Name, h.node.Address, attempt, tries, err)
	})
	if err != nil {
		return err
	}
	r.line("healthcheck", "service [%s] on host [%s] is healthy", c.Name, h.node.Address)
	return nil
}
