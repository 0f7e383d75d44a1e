package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/dial"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/reach"
	"github.com/drover-project/drover/rke1/engine/restore"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/test/bed/dockerstandin"
	"github.com/drover-project/drover/test/bed/runbed"
)

// voter is the one voter of an etcd, on the first of two hosts. What is dialled on the second is down's.
func voter(t *testing.T, down func(ctx context.Context) (net.Conn, error)) (r *run.Run, to string) {
	t.Helper()
	y := newYard(t, twoMembers)
	of := y.o.Dial
	y.o.Dial = func(n config.Node) dial.Dialer {
		docker := of(n)
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			switch {
			case network == "unix":
				return docker(ctx, network, address)
			case n.Address == "10.0.0.1":
				return new(net.Dialer).DialContext(ctx, "tcp", to)
			}
			return down(ctx)
		}
	}
	s, _, err := run.Init(y.work, y.o.Source())
	if err != nil {
		t.Fatal(err)
	}
	y.work.Before = s.Deployed()
	r = run.New(y.o, y.work)
	t.Cleanup(r.Close)
	r.State = y.work.Before
	if err := reach.All(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	own := r.Bundle()[pki.EtcdName(r.Work.Config.Nodes[0])]
	for name, text := range map[string]string{"ca.pem": r.Bundle()[pki.CA].CertificatePEM, "crt.pem": own.CertificatePEM, "key.pem": own.KeyPEM} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c := embed.NewConfig()
	c.Dir, c.UnsafeNoFsync, c.TickMs, c.ElectionMs = filepath.Join(dir, "etcd"), true, 50, 250
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	c.ClientTLSInfo.CertFile, c.ClientTLSInfo.KeyFile = filepath.Join(dir, "crt.pem"), filepath.Join(dir, "key.pem")
	c.ClientTLSInfo.TrustedCAFile, c.ClientTLSInfo.ClientCertAuth = filepath.Join(dir, "ca.pem"), true
	c.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	c.AdvertiseClientUrls, c.ListenPeerUrls = c.ListenClientUrls, nil
	c.AdvertisePeerUrls = []url.URL{{Scheme: "https", Host: "10.0.0.1:2380"}}
	c.InitialCluster = c.Name + "=https://10.0.0.1:2380"
	server, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Close)
	<-server.Server.ReadyNotify()
	return r, server.Clients[0].Addr().String()
}

// TestAMemberLeavesWhenThoseThatStayWork: nothing is removed while another member is down, which could be the end of the quorum.
func TestAMemberLeavesWhenThoseThatStayWork(t *testing.T) {
	leaves := config.Node{Address: "10.0.0.3", Role: []string{config.RoleEtcd}}
	var to string
	for name, works := range map[string]bool{"all that stay work": true, "another is down": false} {
		t.Run(name, func(t *testing.T) {
			ctx, interrupt := context.WithCancel(t.Context())
			defer interrupt()
			var r *run.Run
			r, to = voter(t, func(ctx context.Context) (net.Conn, error) {
				if works {
					return new(net.Dialer).DialContext(ctx, "tcp", to)
				}
				interrupt() // what waits for it waits until then
				return nil, errors.New("connection refused")
			})
			first := r.Hosts["10.0.0.1"]
			err := plane.Ask(t.Context(), r, first, "add a member", func(ctx context.Context, c *clientv3.Client) error {
				_, err := c.MemberAddAsLearner(ctx, []string{plane.PeerURL(leaves)})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			err = plane.RemoveMember(ctx, r, leaves)
			if works && err != nil || !works && (err == nil || !strings.Contains(err.Error(), "host 10.0.0.3 leaves etcd when every member that stays works")) {
				t.Errorf("%v", err)
			}
			_, all, err := plane.Members(t.Context(), r, []*run.Host{first})
			if err != nil || (plane.MemberOf(all, leaves) == nil) != works {
				t.Errorf("the members are %v, %v", all, err)
			}
		})
	}
}

// TestAMemberJoinsWhenAllWork: nothing is added to an etcd of which a member is down.
func TestAMemberJoinsWhenAllWork(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	r, to := voter(t, func(context.Context) (net.Conn, error) {
		interrupt()
		return nil, errors.New("connection refused")
	})
	first, second := r.Hosts["10.0.0.1"], r.Hosts["10.0.0.2"]
	err := plane.JoinEtcd(ctx, r, second, []*run.Host{first, second})
	if err == nil || !strings.Contains(err.Error(), "etcd on host 10.0.0.2 joins when every member works") {
		t.Errorf("%v; etcd is at %s", err, to)
	}
}

// TestAllMembersReplaced: hosts none of which has the cluster's data do not become its etcd.
func TestAllMembersReplaced(t *testing.T) {
	r := runbed.Of([]config.Node{runbed.Node("10.0.0.8", config.RoleEtcd), runbed.Node("10.0.0.9", config.RoleEtcd)}, []config.Node{runbed.Node("10.0.0.1", config.RoleEtcd)})
	r.Before = *r.Work.Before
	err := plane.ChangeEtcd(t.Context(), r, r.With(config.RoleEtcd))
	if replaced, ok := errors.AsType[*plane.ReplacedError](err); !ok || len(replaced.Before) != 2 {
		t.Errorf("%v", err)
	}
}

// TestACopyThatIsNotTheSnapshot: members that restore different data never agree.
func TestACopyThatIsNotTheSnapshot(t *testing.T) {
	const data = "all that the cluster was"
	sumOf := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return hex.EncodeToString(sum[:])
	}
	for name, c := range map[string]struct {
		host string // whose disk keeps less than it is given
		want string
	}{
		"all have the same":  {"", ""},
		"the copy is cut":    {"10.0.0.2", "snapshot one on host 10.0.0.2 did not become what it is on host 10.0.0.1"},
		"what it is made of": {"10.0.0.1", "snapshot one on host 10.0.0.1 did not become what it is on host 10.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			y, r, _ := members(t)
			for address, e := range y.hosts {
				e.OnStart("etcd-extract-snapshot", func(dockerstandin.Container) (int, string) {
					e.SetFile(snapshots.Dir+"/one", &dockerstandin.File{Contents: data, Mode: 0o600})
					return 0, ""
				})
				e.OnStart("etcd-checksum-checker", func(dockerstandin.Container) (int, string) {
					text := e.Files()[snapshots.Dir+"/one"].Contents
					if address == c.host {
						text = text[:len(text)/2]
					}
					return 0, sumOf(text) + "\n"
				})
			}
			from := &restore.Source{Snapshot: &snapshots.Snapshot{Host: "10.0.0.1", Sum: sumOf(data)}, Holder: r.Hosts["10.0.0.1"]}
			err := restore.Copy(t.Context(), r, from, "one")
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if is := y.hosts["10.0.0.2"].Files()[snapshots.Dir+"/one"].Contents; c.host != "10.0.0.1" && is != data {
				t.Errorf("the other host has %q", is)
			}
		})
	}
}
