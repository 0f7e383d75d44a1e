// What is asked of hosts, and kept of their answers.

package certificates

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"

	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
)

// Read asks the hosts of a cluster; there is false when the cluster has none that can be asked. What is known of a host that does not
// answer stays.
func (c *Controller) Read(ctx context.Context, key records.ClusterKey) (there bool) {
	cluster, ok := c.State.Clusters.Get(string(key))
	if !ok || cluster.Value.Spec.Docker() {
		return false
	}
	dir := render.DataDir(cluster.Value)
	turns := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	for _, m := range c.State.MachinesByCluster.Find(key) {
		if ctx.Err() != nil {
			break
		}
		turns <- struct{}{}
		all.Go(func() {
			defer func() { <-turns }()
			if err := c.machine(ctx, *m, dir); err != nil && ctx.Err() == nil {
				c.Logger.Debug("certificates not read", "machine", m.Key, "error", err)
			}
		})
	}
	all.Wait()
	return true
}

// machine asks one host, and keeps what it says.
func (c *Controller) machine(ctx context.Context, d store.Document[records.Machine], dir string) error {
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	ending, err := c.ask(ctx, d.Value.Subject(), dir)
	if err != nil && d.Value.Roles.ControlPlane {
		ending, err = c.served(ctx, d.Value.Subject()) // an agent that cannot say it
	}
	if err != nil {
		return err
	}
	_, err = c.State.Machines.Modify(ctx, d.Key, func(m records.Machine) (records.Machine, error) {
		if m.Certificate.Name == ending.Name && m.Certificate.End.Equal(ending.End) {
			return m, store.ErrUnchanged
		}
		m.Certificate = ending
		return m, nil
	})
	if err != nil {
		return fmt.Errorf("keep when the certificates of %s end: %w", d.Key, err)
	}
	return nil
}

// ask is the first certificate that ends on a host, by its agent.
func (c *Controller) ask(ctx context.Context, subject records.Subject, dir string) (first records.CertificateEnd, err error) {
	answer, err := c.Ask(ctx, subject, "/v1/certificates?dir="+url.QueryEscape(dir))
	if err != nil {
		return first, fmt.Errorf("ask the agent: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return first, fmt.Errorf("the agent answers %s", answer.Status)
	}
	var said report
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxAnswer)).Decode(&said); err != nil {
		return first, fmt.Errorf("read the agent's answer: %w", err)
	}
	return said.first(), nil
}

// served is the certificate that the API server on a host shows. It is looked at and not trusted: nothing is said to it.
func (c *Controller) served(ctx context.Context, subject records.Subject) (records.CertificateEnd, error) {
	conn, err := c.Dial(ctx, subject, tunnel.Target{Network: "tcp", Address: apiAddress})
	if err != nil {
		return records.CertificateEnd{}, fmt.Errorf("reach the API server: %w", err)
	}
	defer conn.Close()
	client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) // #nosec G402 -- one that has ended is what is looked for
	if err := client.HandshakeContext(ctx); err != nil {
		return records.CertificateEnd{}, fmt.Errorf("look at the certificate of the API server: %w", err)
	}
	shown := client.ConnectionState().PeerCertificates[0]
	return records.CertificateEnd{Name: "of the Kubernetes API", End: shown.NotAfter.UTC()}, nil
}
