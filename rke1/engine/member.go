// The members of the cluster's etcd: asked and changed over connections from the hosts.

package engine

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
)

// etcdLimit bounds one call of etcd.
const etcdLimit = 10 * time.Second

func endpoint(n config.Node) string { return "https://" + net.JoinHostPort(internal(n), "2379") }
func peerURL(n config.Node) string  { return "https://" + net.JoinHostPort(internal(n), "2380") }

// etcd is a client of the member on a host. Close it.
func (r *run) etcd(ctx context.Context, h *host) (*clientv3.Client, error) {
	trust, err := r.trust(pki.Node, internal(h.node))
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{endpoint(h.node)}, TLS: trust, DialTimeout: etcdLimit, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return h.DialTCP(ctx, "tcp", net.JoinHostPort(internal(h.node), "2379"))
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("reach etcd on host %s: %w", h.node.Address, err)
	}
	return client, nil
}

// ask makes one call of the member on a host.
func (r *run) ask(ctx context.Context, h *host, what string, call func(context.Context, *clientv3.Client) error) error {
	client, err := r.etcd(ctx, h)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, etcdLimit)
	defer cancel()
	if err := call(ctx, client); err != nil {
		return fmt.Errorf("%s by etcd on host %s: %w", what, h.node.Address, err)
	}
	return nil
}

// members are those that the first of these hosts knows that answers for a quorum.
func (r *run) members(ctx context.Context, hosts []*host) (by *host, members []*etcdserverpb.Member, err error) {
	for _, h := range hosts {
		err = r.ask(ctx, h, "list the members", func(ctx context.Context, c *clientv3.Client) error {
			answer, err := c.MemberList(ctx) // linearizable
			if err == nil {
				members = answer.Members
			}
			return err
		})
		if err == nil {
			return h, members, nil
		}
	}
	return nil, nil, err
}

// memberOf is a node's member; nil when it has none.
func memberOf(members []*etcdserverpb.Member, n config.Node) *etcdserverpb.Member {
	i := slices.IndexFunc(members, func(m *etcdserverpb.Member) bool { return slices.Contains(m.PeerURLs, peerURL(n)) })
	if i < 0 {
		return nil
	}
	return members[i]
}

// healthy waits until the member on a host answers for a quorum.
func (r *run) healthy(ctx context.Context, h *host) error {
	for attempt := 1; ; attempt++ {
		err := r.ask(ctx, h, "read a key", func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.Get(ctx, "health")
			return err
		})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.line("etcd", "host [%s] does not answer yet, try %d of %d: %v", h.node.Address, attempt, etcdTries, err)
		if attempt == etcdTries {
			output, _ := h.Logs(ctx, "etcd", 20) // without them the sentence is still true
			return fmt.Errorf("etcd on host %s does not work: %w; its last lines:\n  %s", h.node.Address, err, strings.Join(output, "\n  "))
		}
		if err := r.pause(ctx); err != nil {
			return err
		}
	}
}

// allHealthy waits for each of the hosts' members.
func (r *run) allHealthy(ctx context.Context, hosts []*host) error {
	return each(ctx, hosts, parallel, r.healthy)
}
