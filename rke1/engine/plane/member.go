// The members of the cluster's etcd: asked and changed over connections from the hosts.

package plane

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
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki"
)

// etcdLimit bounds one call of etcd.
const etcdLimit = 10 * time.Second

func endpoint(n config.Node) string { return "https://" + net.JoinHostPort(run.Internal(n), "2379") }

// PeerURL is where members reach the member of a node.
func PeerURL(n config.Node) string { return "https://" + net.JoinHostPort(run.Internal(n), "2380") }

// clientOf is a client of the member on a host. Close it.
func clientOf(ctx context.Context, r *run.Run, h *run.Host) (*clientv3.Client, error) {
	trust, err := r.Trust(pki.Node, run.Internal(h.Node))
	if err != nil {
		return nil, err
	}
	client, err := clientv3.New(clientv3.Config{
		Context: ctx, Endpoints: []string{endpoint(h.Node)}, TLS: trust, DialTimeout: etcdLimit, Logger: zap.NewNop(),
		DialOptions: []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return h.DialTCP(ctx, "tcp", net.JoinHostPort(run.Internal(h.Node), "2379"))
		})},
	})
	if err != nil {
		return nil, fmt.Errorf("reach etcd on host %s: %w", h.Node.Address, err)
	}
	return client, nil
}

// Ask makes one call of the member on a host. The error says what was asked, and of which host.
func Ask(ctx context.Context, r *run.Run, h *run.Host, what string, call func(context.Context, *clientv3.Client) error) error {
	client, err := clientOf(ctx, r, h)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, etcdLimit)
	defer cancel()
	if err := call(ctx, client); err != nil {
		return fmt.Errorf("%s by etcd on host %s: %w", what, h.Node.Address, err)
	}
	return nil
}

// Members are those that the first of these hosts knows that answers for a quorum. The error is that of the last host.
func Members(ctx context.Context, r *run.Run, hosts []*run.Host) (by *run.Host, members []*etcdserverpb.Member, err error) {
	for _, h := range hosts {
		err = Ask(ctx, r, h, "list the members", func(ctx context.Context, c *clientv3.Client) error {
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

// MemberOf is a node's member; nil when it has none.
func MemberOf(members []*etcdserverpb.Member, n config.Node) *etcdserverpb.Member {
	i := slices.IndexFunc(members, func(m *etcdserverpb.Member) bool { return slices.Contains(m.PeerURLs, PeerURL(n)) })
	if i < 0 {
		return nil
	}
	return members[i]
}

// healthy waits until the member on a host answers for a quorum.
func healthy(ctx context.Context, r *run.Run, h *run.Host) error {
	for attempt := 1; ; attempt++ {
		err := Ask(ctx, r, h, "read a key", func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.Get(ctx, "health")
			return err
		})
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.Line("etcd", "host [%s] does not answer yet, try %d of %d: %v", h.Node.Address, attempt, run.EtcdTries, err)
		if attempt == run.EtcdTries {
			output, _ := h.Logs(ctx, "etcd", 20) // without them the sentence is still true
			return fmt.Errorf("etcd on host %s does not work: %w; its last lines:\n  %s", h.Node.Address, err, strings.Join(output, "\n  "))
		}
		if err := r.Wait(ctx); err != nil {
			return err
		}
	}
}

// AllHealthy waits for each of the hosts' members. The error names a host whose member does not work.
func AllHealthy(ctx context.Context, r *run.Run, hosts []*run.Host) error {
	return run.Each(ctx, hosts, run.Parallel, r.On(healthy))
}
