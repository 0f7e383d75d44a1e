//go:build e2e

package rescue

// Three servers on one etcd of three members: what happens when the leader is killed, paused for longer
// than its lease, or cut off from etcd, and how long until a host runs a plan again.

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/drover-project/drover/plans"
)

// takeover is within which a host is to have the first plan of the next leader. It is printed beside what
// was measured, as a machine that is busy with other things says nothing about the server.
const takeover = 15 * time.Second

// link carries connections to one of several addresses, and can be cut.
type link struct {
	listener net.Listener
	mu       sync.Mutex
	to       []string // tried in this order; empty is cut
	open     map[net.Conn]struct{}
}

func newLink(t *testing.T, to ...string) *link {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &link{listener: listener, to: to, open: map[net.Conn]struct{}{}}
	var carrying sync.WaitGroup
	carrying.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			carrying.Go(func() { l.carry(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		l.lead()
		carrying.Wait()
	})
	return l
}

func (l *link) address() string { return l.listener.Addr().String() }

// lead has new connections go to other addresses, and ends those that are open.
func (l *link) lead(to ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.to = to
	for conn := range l.open {
		conn.Close()
	}
}

func (l *link) carry(from net.Conn) {
	defer from.Close()
	l.mu.Lock()
	targets := l.to
	l.mu.Unlock()
	for _, address := range targets {
		to, err := net.Dial("tcp", address)
		if err != nil {
			continue
		}
		defer to.Close()
		l.mu.Lock()
		same := slices.Equal(targets, l.to)
		if same {
			l.open[from], l.open[to] = struct{}{}, struct{}{}
		}
		l.mu.Unlock()
		if !same {
			return
		}
		var both sync.WaitGroup
		for _, way := range [][2]net.Conn{{from, to}, {to, from}} {
			both.Go(func() {
				_, _ = io.Copy(way[0], way[1]) // ends with either
				way[0].Close()
				way[1].Close()
			})
		}
		both.Wait()
		l.mu.Lock()
		delete(l.open, from)
		delete(l.open, to)
		l.mu.Unlock()
		return
	}
}

// ports are free ones of loopback.
func ports(t *testing.T, n int) []string {
	t.Helper()
	var free []string
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		free = append(free, l.Addr().String())
	}
	return free
}

// threeMembers starts an etcd cluster in this process and returns its clients' addresses.
func threeMembers(t *testing.T) []string {
	t.Helper()
	clients, peers := ports(t, 3), ports(t, 3)
	var initial []string
	for i, peer := range peers {
		initial = append(initial, fmt.Sprintf("m%d=http://%s", i, peer))
	}
	var members []*embed.Etcd
	for i := range peers {
		cfg := embed.NewConfig()
		cfg.Name, cfg.Dir = fmt.Sprintf("m%d", i), t.TempDir()
		cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
		cfg.UnsafeNoFsync = true
		cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: clients[i]}}
		cfg.ListenPeerUrls = []url.URL{{Scheme: "http", Host: peers[i]}}
		cfg.AdvertiseClientUrls, cfg.AdvertisePeerUrls = cfg.ListenClientUrls, cfg.ListenPeerUrls
		cfg.InitialCluster = strings.Join(initial, ",")
		member, err := embed.StartEtcd(cfg)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(member.Close)
		members = append(members, member)
	}
	for _, member := range members {
		<-member.Server.ReadyNotify()
	}
	return clients
}

// replica is one server process with its way to etcd.
type replica struct {
	address, dir string
	etcd         []*link
	members      []string
	process      *exec.Cmd
	ended        chan error
}

type several struct {
	*office
	program  string
	keys     string
	door     *link // where hosts and people find the servers
	replicas []*replica
	client   *clientv3.Client
}

func newSeveral(t *testing.T) *several {
	t.Helper()
	dir := t.TempDir()
	s := &several{program: filepath.Join(dir, "drover"), keys: filepath.Join(dir, "encryption.key")}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", s.program, "./cmd/drover")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build drover: %v\n%s", err, out)
	}
	members := threeMembers(t)
	var err error
	if s.client, err = clientv3.New(clientv3.Config{Endpoints: members, Logger: zap.NewNop()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	for i, address := range ports(t, 3) {
		r := &replica{address: address, dir: filepath.Join(dir, strconv.Itoa(i)), members: members}
		for _, member := range members {
			r.etcd = append(r.etcd, newLink(t, member))
		}
		s.replicas = append(s.replicas, r)
	}
	s.door = newLink(t, s.addresses(nil)...)
	s.office = &office{T: t, dir: s.replicas[0].dir, address: s.door.address(), url: "https://" + s.door.address()}
	for _, r := range s.replicas {
		s.run(r)
	}
	return s
}

// addresses are those of all replicas but one.
func (s *several) addresses(without *replica) []string {
	var all []string
	for _, r := range s.replicas {
		if r != without {
			all = append(all, r.address)
		}
	}
	return all
}

// run starts a replica and waits until it serves.
func (s *several) run(r *replica) {
	s.Helper()
	var endpoints []string
	for _, l := range r.etcd {
		endpoints = append(endpoints, "http://"+l.address())
	}
	log, err := os.OpenFile(r.dir+".log", os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		s.Fatal(err)
	}
	defer log.Close()
	r.process = exec.Command(s.program, "server", "--data-dir", r.dir, "--listen", r.address, "--server-url", s.url, "--peer-url", "https://"+r.address,
		"--encryption-key-file", s.keys, "--etcd-endpoints", strings.Join(endpoints, ","))
	r.process.Env = append(os.Environ(), "DROVER_BOOTSTRAP_PASSWORD=a long first password")
	r.process.Stdout, r.process.Stderr = log, log
	if err := r.process.Start(); err != nil {
		s.Fatal(err)
	}
	ended := make(chan error, 1)
	r.ended = ended
	process := r.process
	go func() { ended <- process.Wait() }()
	s.Cleanup(func() {
		_ = process.Process.Kill() // it may have ended
		if s.Failed() {
			text, _ := os.ReadFile(r.dir + ".log")
			s.Logf("log of %s:\n%s", r.address, text[max(0, len(text)-3000):])
		}
	})
	own := &office{T: s.T, dir: r.dir}
	s.until("it serves", func() bool {
		answer, err := own.client().Get("https://" + r.address + "/ping")
		if err == nil {
			answer.Body.Close()
		}
		return err == nil
	})
}

// leader is the replica that leads; nil while none does.
func (s *several) leader() *replica {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), 5*time.Second)
	defer cancel()
	answer, err := s.client.Get(ctx, "/drover/leaders/clusters/", clientv3.WithFirstCreate()...)
	if err != nil || len(answer.Kvs) == 0 {
		return nil
	}
	for _, r := range s.replicas {
		if strings.HasSuffix(string(answer.Kvs[0].Value), "-"+strconv.Itoa(r.process.Process.Pid)) {
			return r
		}
	}
	return nil
}

// TestSeveralServers takes the leader away in three ways while a host waits for plans.
func TestSeveralServers(t *testing.T) {
	s := newSeveral(t)
	p := s.join("a1")
	p.live()
	p.let("p0")
	p.give("p0")
	p.until("the first plan", p.wants("p0", plans.StateSucceeded))
	want := []string{"p0"}
	table := tabwriter.NewWriter(t.Output(), 0, 4, 3, ' ', 0)
	fmt.Fprintln(table, "the leader was\ta host ran the next plan after (at most "+takeover.String()+")\tlost\trun twice")
	for i, how := range []struct {
		what string
		take func(*replica)
		back func(*replica)
	}{
		{"killed (SIGKILL)",
			func(r *replica) { s.signal(r, syscall.SIGKILL); <-r.ended },
			func(r *replica) { s.run(r) }},
		{"paused (SIGSTOP) and woken",
			func(r *replica) { s.signal(r, syscall.SIGSTOP) },
			func(r *replica) { s.signal(r, syscall.SIGCONT) }},
		{"cut off from etcd",
			func(r *replica) {
				for _, l := range r.etcd {
					l.lead()
				}
			},
			func(r *replica) {
				for j, l := range r.etcd {
					l.lead(r.members[j])
				}
			}},
	} {
		var before *replica
		s.until("there is a leader", func() bool { before = s.leader(); return before != nil })
		word := fmt.Sprintf("p%d", i+1)
		p.let(word)
		began := time.Now()
		how.take(before)
		s.door.lead(s.addresses(before)...) // as a load balancer does that asks for /healthz
		p.give(word)
		p.until("the next leader's plan", p.wants(word, plans.StateSucceeded))
		took := time.Since(began)
		after := s.leader()
		if after == before || after == nil {
			t.Errorf("%s: the leader is still the old one", how.what)
		}
		how.back(before)
		// Woken, it finds that it leads no more: what it writes below its old leadership is refused.
		word += "-back"
		s.door.lead(append([]string{before.address}, s.addresses(before)...)...)
		p.let(word)
		s.until("the old leader serves", func() bool {
			answer, err := s.office.client().Get(s.url + "/healthz")
			if err == nil {
				answer.Body.Close()
			}
			return err == nil && answer.StatusCode == 200
		})
		p.give(word)
		p.until("a plan that came through the old leader", p.wants(word, plans.StateSucceeded))
		if now := s.leader(); now != after {
			t.Errorf("%s: the old leader leads again while the new one lives", how.what)
		}
		want = append(want, fmt.Sprintf("p%d", i+1), word)
		lost, twice := 0, 0
		for _, w := range want {
			switch n := count(p.ran(), w); {
			case n == 0:
				lost++
			case n > 1:
				twice++
			}
		}
		fmt.Fprintf(table, "%s\t%.1f s\t%d\t%d\n", how.what, took.Seconds(), lost, twice)
	}
	if err := table.Flush(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(want, p.ran()); diff != "" {
		t.Errorf("runs (-want +got):\n%s", diff)
	}
}

func count(all []string, one string) (n int) {
	for _, w := range all {
		if w == one {
			n++
		}
	}
	return n
}

func (s *several) signal(r *replica, signal syscall.Signal) {
	s.Helper()
	if err := r.process.Process.Signal(signal); err != nil {
		s.Fatal(err)
	}
}
