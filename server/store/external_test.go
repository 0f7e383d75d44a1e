package store

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"
)

// externalEtcd is an etcd as its owner would run it: on a TCP port, with TLS and
// client certificates.
type externalEtcd struct {
	address string      // host:port
	tls     *tls.Config // of a client
	server  *embed.Etcd
	client  *clientv3.Client
}

func startExternalEtcd(t *testing.T) *externalEtcd {
	t.Helper()
	dir := t.TempDir()
	e := &externalEtcd{}
	cfg := embed.NewConfig()
	e.tls = certificates(t, dir)
	cfg.ClientTLSInfo.CertFile, cfg.ClientTLSInfo.KeyFile = filepath.Join(dir, "crt.pem"), filepath.Join(dir, "key.pem")
	cfg.ClientTLSInfo.TrustedCAFile, cfg.ClientTLSInfo.ClientCertAuth = filepath.Join(dir, "ca.pem"), true
	cfg.Dir = filepath.Join(dir, "etcd")
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	cfg.UnsafeNoFsync = true
	cfg.TickMs, cfg.ElectionMs = 50, 250
	cfg.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	cfg.AdvertiseClientUrls = cfg.ListenClientUrls
	cfg.ListenPeerUrls = nil
	var err error
	if e.server, err = embed.StartEtcd(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.server.Close)
	<-e.server.Server.ReadyNotify()
	e.address = e.server.Clients[0].Addr().String()
	e.client = must(clientv3.New(clientv3.Config{Endpoints: []string{"https://" + e.address}, TLS: e.tls, Logger: zap.NewNop()}))(t)
	t.Cleanup(func() { _ = e.client.Close() })
	return e
}

// TestAMigrationIsFenced: a server that is no longer the one that migrates writes nothing more.
func TestAMigrationIsFenced(t *testing.T) {
	t.Parallel()
	e := startExternalEtcd(t)
	dir := t.TempDir()
	s, notes, _ := e.open(t, e.address, dir)
	must(notes.Create(t.Context(), "a", note{Text: "one"}))(t)
	closeStore(t, s)
	o := Options{DataDir: dir, Endpoints: []string{"https://" + e.address}, TLS: e.tls, UnsafeNoFsync: true}
	step := rename("one", "two")
	depose := migrationStep{What: "rename while another takes over", Change: func(documents []migratedDocument) ([]migratedDocument, error) {
		deleted, err := e.client.Delete(t.Context(), leadersPrefix+"migration", clientv3.WithPrefix())
		if err != nil || deleted.Deleted == 0 {
			t.Errorf("deposed %d leaders: %v", deleted.Deleted, err)
		}
		return step.Change(documents)
	}}
	_, err := openWith(t.Context(), o, []migrationStep{depose}, NewCollection[note]("notes", false), NewCollection[note]("secrets", true))
	if err == nil || !strings.Contains(err.Error(), "another server changed the data at the same time") {
		t.Errorf("error %v", err)
	}
	if got := string(must(e.client.Get(t.Context(), documentKey("notes", "a")))(t).Kvs[0].Value); got != `{"text":"one"}` {
		t.Errorf("a deposed server wrote %s", got)
	}
}

// certificates makes a CA, and a certificate by it that serves and authenticates a
// client, in dir.
func certificates(t *testing.T, dir string) *tls.Config {
	t.Helper()
	caKey := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	caDER := must(x509.CreateCertificate(rand.Reader, template, template, &caKey.PublicKey, caKey))(t)
	ca := must(x509.ParseCertificate(caDER))(t)
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "drover"}, NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	leafDER := must(x509.CreateCertificate(rand.Reader, leaf, ca, &key.PublicKey, caKey))(t)
	for name, block := range map[string]*pem.Block{
		"ca.pem":  {Type: "CERTIFICATE", Bytes: caDER},
		"crt.pem": {Type: "CERTIFICATE", Bytes: leafDER},
		"key.pem": {Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))(t)},
	} {
		if err := os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AddCert(ca)
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: pool,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leafDER}, PrivateKey: key}},
	}
}

// open opens a store on the external etcd.
func (e *externalEtcd) open(t *testing.T, address, dir string) (*Store, *Collection[note], *Collection[note]) {
	t.Helper()
	return openNotesWith(t, Options{DataDir: dir, Endpoints: []string{"https://" + address}, TLS: e.tls})
}

func TestExternalEtcd(t *testing.T) {
	t.Parallel()
	e := startExternalEtcd(t)
	dir := t.TempDir()
	s, notes, secrets := e.open(t, e.address, dir)
	must(notes.Create(t.Context(), "a", note{Text: "1"}))(t)
	must(secrets.Create(t.Context(), "b", note{Text: "2"}))(t)
	if _, err := os.Stat(filepath.Join(dir, "etcd")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an embedded etcd was started too: %v", err)
	}
	keyFile := must(os.ReadFile(filepath.Join(dir, "encryption.key")))(t)

	t.Run("another server", func(t *testing.T) {
		key := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(key, keyFile, 0o600); err != nil {
			t.Fatal(err)
		}
		other, otherNotes, otherSecrets := openNotesWith(t, Options{KeyFile: key, Endpoints: []string{"https://" + e.address}, TLS: e.tls})
		if got, _ := otherSecrets.Get("b"); got.Value.Text != "2" {
			t.Errorf("the secret is %v", got)
		}
		events := observed(otherNotes)
		d := must(notes.Modify(t.Context(), "a", func(n note) (note, error) { n.Text = "3"; return n, nil }))(t)
		if event := <-events; event.Revision != d.Revision || event.Value.Text != "3" {
			t.Errorf("the other server sees %v", event)
		}
		// Its modification begins with what it has, conflicts and works on what is newer.
		for range 20 {
			for _, c := range []*Collection[note]{notes, otherNotes} {
				must(c.Modify(t.Context(), "a", func(n note) (note, error) { n.Text += "x"; return n, nil }))(t)
			}
		}
		if got, _ := otherNotes.Get("a"); got.Value.Text != "3"+strings.Repeat("x", 40) {
			t.Errorf("after 40 changes of two servers: %q", got.Value.Text)
		}
		leader := must(s.Campaign(t.Context(), "controllers", "one"))(t)
		won := make(chan *Leadership)
		go func() {
			l, err := other.Campaign(t.Context(), "controllers", "two")
			if err != nil {
				t.Error(err)
			}
			won <- l
		}()
		if err := leader.Resign(t.Context()); err != nil {
			t.Error(err)
		}
		next := <-won
		for _, c := range []struct {
			server string
			*Store
		}{{"one", s}, {"two", other}} { // by the watch of each
			if err := c.CatchUp(t.Context()); err != nil || c.Leader("controllers") != "two" {
				t.Errorf("server %s knows %q as the leader, %v", c.server, c.Leader("controllers"), err)
			}
		}
		third, _, _ := openNotesWith(t, Options{KeyFile: key, Endpoints: []string{"https://" + e.address}, TLS: e.tls})
		if got := third.Leader("controllers"); got != "two" {
			t.Errorf("a server that was started later knows %q as the leader", got)
		}
		if _, err := notes.Create(Fenced(t.Context(), leader), "c", note{}); !is[*DeposedError](err) {
			t.Errorf("a write of the leader before: %v", err)
		}
		must(otherNotes.Create(Fenced(t.Context(), next), "c", note{}))(t)
	})

	for _, c := range []struct {
		name    string
		options func(dir string) Options
		want    string
	}{
		{"other key", func(dir string) Options {
			if err := os.WriteFile(filepath.Join(dir, "encryption.key"), []byte(keyLine(t)), 0o600); err != nil {
				t.Fatal(err)
			}
			return Options{DataDir: dir, Endpoints: []string{"https://" + e.address}, TLS: e.tls}
		}, "does not belong to this store"},
		{"no key", func(dir string) Options {
			return Options{DataDir: dir, Endpoints: []string{"https://" + e.address}, TLS: e.tls}
		}, "is missing"},
		{"no certificate", func(dir string) Options {
			return Options{DataDir: dir, Endpoints: []string{"https://" + e.address}, TLS: &tls.Config{RootCAs: e.tls.RootCAs}}
		}, "connect to etcd at https://" + e.address + ": check the addresses and the TLS files"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			limit := time.Minute
			if c.name == "no certificate" { // it is tried again as long as it may
				limit = 500 * time.Millisecond
			}
			ctx, cancel := context.WithTimeout(t.Context(), limit)
			defer cancel()
			_, err := Open(ctx, c.options(dir), NewCollection[note]("notes", false))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
			if made, _ := os.ReadFile(filepath.Join(dir, "encryption.key")); c.name != "other key" && len(made) > 0 {
				t.Error("a key was made")
			}
		})
	}
}

// cable is a TCP connection to the external etcd that can be cut.
type cable struct {
	net.Listener
	target string

	mu     sync.Mutex
	cut    bool
	frozen chan struct{} // not nil: nothing passes until it is closed
	conns  map[net.Conn]struct{}
}

func newCable(t *testing.T, target string) *cable {
	t.Helper()
	c := &cable{Listener: must(net.Listen("tcp", "127.0.0.1:0"))(t), target: target, conns: make(map[net.Conn]struct{})}
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := c.Accept()
			if err != nil {
				return
			}
			group.Go(func() { c.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = c.Close()
		c.setCut(true)
		group.Wait()
	})
	return c
}

func (c *cable) serve(conn net.Conn) {
	defer conn.Close()
	target, err := net.Dial("tcp", c.target)
	if err != nil {
		return
	}
	defer target.Close()
	c.mu.Lock()
	if c.cut {
		c.mu.Unlock()
		return
	}
	c.conns[conn], c.conns[target] = struct{}{}, struct{}{}
	c.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.copy(target, conn)
		_ = target.Close()
	}()
	c.copy(conn, target)
	_ = conn.Close()
	<-done
}

func (c *cable) copy(to io.Writer, from io.Reader) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		c.mu.Lock()
		frozen := c.frozen
		c.mu.Unlock()
		if frozen != nil {
			<-frozen
		}
		if n > 0 {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			return
		}
	}
}

// freeze lets nothing pass until the returned function is called, as a network that drops packets.
func (c *cable) freeze() (thaw func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	frozen := make(chan struct{})
	c.frozen = frozen
	return sync.OnceFunc(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.frozen = nil
		close(frozen)
	})
}

func (c *cable) setCut(cut bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = cut
	for conn := range c.conns {
		_ = conn.Close()
	}
	clear(c.conns)
}

// While the server cannot reach etcd, others write. It then sees what happened: each
// change when etcd still has the history, else the differences.
func TestCutOff(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		compact bool
		want    []happened
	}{
		{"with history", false, []happened{
			{"put", "changed", "1", "0"}, {"put", "changed", "2", "1"}, {"deleted", "gone", "0", "0"}, {"deleted", "made again", "0", "0"},
			{"put", "short-lived", "3", "none"}, {"deleted", "short-lived", "3", "3"},
			{"put", "made again", "4", "none"}, {"put", "new", "5", "none"}, {"put", "last", "6", "none"},
		}},
		{"history compacted", true, []happened{
			{"put", "changed", "2", "0"}, {"deleted", "made again", "0", "0"},
			{"put", "made again", "4", "none"}, {"put", "new", "5", "none"}, {"deleted", "gone", "0", "0"}, {"put", "last", "6", "none"},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			e := startExternalEtcd(t)
			line := newCable(t, e.address)
			s, notes, secrets := e.open(t, line.Addr().String(), t.TempDir())
			for _, key := range []string{"changed", "gone", "made again", "same"} {
				must(notes.Create(t.Context(), key, note{Text: "0"}))(t)
			}
			must(secrets.Create(t.Context(), "same", note{Text: "0"}))(t)
			seen := observed(notes)

			line.setCut(true)
			put := func(key, text string) int64 {
				t.Helper()
				return must(e.client.Put(t.Context(), documentKey("notes", key), `{"text":"`+text+`"}`))(t).Header.Revision
			}
			remove := func(key string) {
				t.Helper()
				must(e.client.Delete(t.Context(), documentKey("notes", key)))(t)
			}
			put("changed", "1")
			put("changed", "2")
			remove("gone")
			remove("made again")
			put("short-lived", "3")
			remove("short-lived")
			put("made again", "4")
			revision := put("new", "5")
			if c.compact {
				must(e.client.Compact(t.Context(), revision))(t)
			}
			line.setCut(false)

			events := take(t, seen, len(c.want)-1)
			put("last", "6") // the watch goes on
			events = append(events, take(t, seen, 1)...)
			if diff := cmp.Diff(c.want, events); diff != "" {
				t.Error(diff)
			}
			if err := s.await(t.Context(), revision+1); err != nil {
				t.Error(err)
			}
			var state []string
			for _, d := range notes.List() {
				state = append(state, d.Key+"="+d.Value.Text)
			}
			if diff := cmp.Diff([]string{"changed=2", "last=6", "made again=4", "new=5", "same=0"}, state); diff != "" {
				t.Error(diff)
			}
			must(notes.Modify(t.Context(), "same", func(n note) (note, error) { n.Text = "7"; return n, nil }))(t)
		})
	}
}

// A store whose etcd does not answer closes soon all the same.
func TestCloseWhileCutOff(t *testing.T) {
	t.Parallel()
	e := startExternalEtcd(t)
	line := newCable(t, e.address)
	s, notes, _ := e.open(t, line.Addr().String(), t.TempDir())
	leader := must(s.Campaign(t.Context(), "controllers", "one"))(t)
	line.setCut(true)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := notes.Create(ctx, "a", note{}); err == nil {
		t.Error("a write without etcd succeeded")
	}
	if _, err := s.Campaign(ctx, "controllers", "two"); err == nil {
		t.Error("a campaign without etcd succeeded")
	}
	start := time.Now()
	closeStore(t, s)
	if took := time.Since(start); took > 2*resignTimeout {
		t.Errorf("Close took %s", took)
	}
	<-leader.Lost()
}

// TestCatchUp: after CatchUp the view has what etcd had, also what was written while the connection was cut.
func TestCatchUp(t *testing.T) {
	t.Parallel()
	e := startExternalEtcd(t)
	dir := t.TempDir()
	writer, written, _ := e.open(t, e.address, dir)
	defer closeStore(t, writer)
	line := newCable(t, e.address)
	s, seen, _ := openNotesWith(t, Options{
		KeyFile: filepath.Join(dir, "encryption.key"), Endpoints: []string{"https://" + line.Addr().String()}, TLS: e.tls, limits: limits{writeLimit: 3 * time.Second},
	})
	defer closeStore(t, s)
	for i, name := range []string{"a", "b", "c"} {
		line.setCut(i > 0)
		must(written.Create(t.Context(), name, note{Text: name}))(t)
		line.setCut(false)
		if err := s.CatchUp(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, ok := seen.Get(name); !ok || got.Value.Text != name {
			t.Errorf("%s: caught up, and the view has %v %v", name, got.Value, ok)
		}
	}
	if _, err := e.client.Put(t.Context(), "somebody else's", "key"); err != nil {
		t.Fatal(err)
	}
	if err := s.CatchUp(t.Context()); err != nil {
		t.Errorf("after a write of somebody else: %v", err)
	}
	thaw := line.freeze()
	defer thaw()
	if err := s.CatchUp(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cut off: %v", err)
	}
}

// A server that is cut off from etcd knows it after a bounded time, as nothing that is
// revoked meanwhile reaches it, and a write ends.
func TestStaleWhileCutOff(t *testing.T) {
	t.Parallel()
	e := startExternalEtcd(t)
	line := newCable(t, e.address)
	c := NewCollection[note]("notes", false)
	const limit = 2 * time.Second
	s := must(Open(t.Context(), Options{
		DataDir: t.TempDir(), Endpoints: []string{"https://" + line.Addr().String()}, TLS: e.tls, limits: limits{staleAfter: limit, writeLimit: limit},
	}, c))(t)
	t.Cleanup(func() { closeStore(t, s) })
	became := make(chan struct{}, 1)
	s.OnStale(func() { became <- struct{}{} })
	must(c.Create(t.Context(), "a", note{}))(t)
	for start := time.Now(); time.Since(start) < 2*limit; time.Sleep(limit / 20) {
		if since, stale := s.Stale(); stale {
			t.Fatalf("idle and connected, but stale since %s", since)
		}
	}
	thaw := line.freeze()
	defer thaw()
	start := time.Now()
	_, err := c.Create(t.Context(), "b", note{})
	if took := time.Since(start); err == nil || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "whether this was written is not known") || took > 10*limit {
		t.Errorf("after %s: %v", took, err)
	}
	<-became
	if _, stale := s.Stale(); !stale {
		t.Error("cut off, and not stale")
	}
	line.setCut(true)
	thaw()
	line.setCut(false)
	for limit := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		if _, stale := s.Stale(); !stale {
			break
		}
		if time.Now().After(limit) {
			t.Fatal("connected again, and still stale")
		}
	}
	must(c.Create(t.Context(), "c", note{}))(t)
}
