// Whether a container works: asked over a connection from its own host.

package plane

import (
	"context"
	"crypto/tls"
	"errors"

	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
)

// AwaitHealth waits until a container works, when there is a way to ask it. The error is an *onhost.UnhealthyError with the end of its log.
func AwaitHealth(ctx context.Context, r *run.Run, h *run.Host, c desired.Container) error {
	if c.HealthCheck.URL == "" || c.Name == desired.Etcd {
		return nil // etcd's health is its cluster's, and asked where that is known
	}
	var trust *tls.Config
	tries := run.HealthTries
	if c.Name == desired.KubeAPIServer {
		tries = run.ApiTries
		var err error
		if trust, err = r.Trust(pki.APIServer, "localhost"); err != nil {
			return err
		}
	}
	r.Line("healthcheck", "Start Healthcheck on service [%s] on host [%s]", c.Name, h.Node.Address)
	check := onhost.Check{URL: c.HealthCheck.URL, TLS: trust, Container: c.Name, Tries: tries, Pause: r.Pause}
	err := h.Await(ctx, check, func(attempt int, err error) {
		r.Line("healthcheck", "service [%s] on host [%s] does not work yet, try %d of %d: %v", c.Name, h.Node.Address, attempt, tries, err)
	})
	if err != nil {
		return err
	}
	r.Line("healthcheck", "service [%s] on host [%s] is healthy", c.Name, h.Node.Address)
	return nil
}

// AwaitSocket waits until cri-dockerd listens beside a kubelet that was started: the kubelet answers for a while without it, and
// the container that has both starts again and again. The error is an *onhost.UnhealthyError with the end of its log, or that of the host.
func AwaitSocket(ctx context.Context, r *run.Run, h *run.Host, c desired.Container) error {
	if !c.CRIDockerd() {
		return nil
	}
	once, err := r.Plan.Once(h.Node.Address)
	if err != nil {
		return err
	}
	for attempt := 1; ; attempt++ {
		_, err := h.Run(ctx, onhost.Once{Process: once.SocketChecker()})
		failed := new(onhost.FailedError)
		if err == nil || !errors.As(err, &failed) {
			return err
		}
		r.Line("healthcheck", "cri-dockerd on host [%s] does not listen yet, try %d of %d", h.Node.Address, attempt, run.HealthTries)
		if attempt == run.HealthTries {
			output, _ := h.Logs(ctx, c.Name, 20) // without them the sentence is still true
			return &onhost.UnhealthyError{Host: h.Node.Address, Container: c.Name, URL: "unix://" + desired.CRISocket, Last: errNobodyListens, Output: output}
		}
		if err := r.Wait(ctx); err != nil {
			return err
		}
	}
}

var errNobodyListens = errors.New("cri-dockerd does not listen there; see what its last lines say, and whether its port (cri_dockerd_stream_server_port) is another program's")
