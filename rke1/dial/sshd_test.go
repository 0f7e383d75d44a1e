package dial_test

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"golang.org/x/crypto/ssh/knownhosts"
)

// sshd is an SSH server on this machine that forwards connections to ports and sockets,
// as OpenSSH's does; the end-to-end tests have the real one.
type sshd struct {
	t       *testing.T
	address string
	// accepts is the user's public key; authority signs certificates that are taken as well.
	accepts, authority ssh.PublicKey
	// forbid refuses to forward.
	forbid atomic.Bool
	logins atomic.Int32

	mu  sync.Mutex
	key ssh.Signer
	// another is a second key of the host, of another kind.
	another ssh.Signer
	conns   []net.Conn
	done    sync.WaitGroup
}

type pair struct {
	signer ssh.Signer
	pem    string
	raw    ed25519.PrivateKey
}

func newPair(t *testing.T) pair {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(private, "test")
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pair{signer, string(pem.EncodeToMemory(block)), private}
}

func startSSHD(t *testing.T, accepts ssh.PublicKey) *sshd {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &sshd{t: t, address: listener.Addr().String(), key: newPair(t).signer, accepts: accepts}
	d.done.Add(1)
	go d.serve(listener)
	t.Cleanup(func() {
		listener.Close()
		d.cut()
		d.done.Wait()
	})
	return d
}

func (d *sshd) serve(listener net.Listener) {
	defer d.done.Done()
	for {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		d.conns = append(d.conns, conn)
		d.mu.Unlock()
		d.done.Add(1)
		go d.talk(conn)
	}
}

// cut ends all connections, as a reboot does.
func (d *sshd) cut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, c := range d.conns {
		c.Close()
	}
	d.conns = nil
}

func (d *sshd) talk(conn net.Conn) {
	defer d.done.Done()
	defer conn.Close()
	checker := &ssh.CertChecker{
		IsUserAuthority: func(k ssh.PublicKey) bool { return d.authority != nil && same(k, d.authority) },
		UserKeyFallback: func(_ ssh.ConnMetadata, k ssh.PublicKey) (*ssh.Permissions, error) {
			if d.accepts == nil || !same(k, d.accepts) {
				return nil, fmt.Errorf("not accepted")
			}
			return nil, nil
		},
	}
	config := &ssh.ServerConfig{PublicKeyCallback: checker.Authenticate}
	d.mu.Lock()
	config.AddHostKey(d.key)
	if d.another != nil {
		config.AddHostKey(d.another)
	}
	d.mu.Unlock()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	d.logins.Add(1)
	go ssh.DiscardRequests(requests)
	for c := range channels {
		d.done.Add(1)
		go d.forward(c)
	}
}

func (d *sshd) forward(c ssh.NewChannel) {
	defer d.done.Done()
	network, address := "unix", ""
	switch c.ChannelType() {
	case "direct-streamlocal@openssh.com":
		var m struct {
			Path, Reserved string
			Port           uint32
		}
		if ssh.Unmarshal(c.ExtraData(), &m) == nil {
			address = m.Path
		}
	case "direct-tcpip":
		var m struct {
			Host       string
			Port       uint32
			Origin     string
			OriginPort uint32
		}
		if ssh.Unmarshal(c.ExtraData(), &m) == nil {
			network, address = "tcp", net.JoinHostPort(m.Host, fmt.Sprint(m.Port))
		}
	}
	if d.forbid.Load() {
		_ = c.Reject(ssh.Prohibited, "open failed")
		return
	}
	to, err := net.Dial(network, address)
	if err != nil {
		_ = c.Reject(ssh.ConnectionFailed, "open failed")
		return
	}
	defer to.Close()
	channel, requests, err := c.Accept()
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	var both sync.WaitGroup
	both.Go(func() {
		_, _ = io.Copy(to, channel)
		_ = to.(interface{ CloseWrite() error }).CloseWrite()
	})
	_, _ = io.Copy(channel, to)
	_ = channel.CloseWrite()
	both.Wait()
	channel.Close()
}

func same(a, b ssh.PublicKey) bool { return string(a.Marshal()) == string(b.Marshal()) }

// known writes a known_hosts file with the keys of these servers.
func known(t *testing.T, servers ...*sshd) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "known_hosts")
	var text string
	for _, d := range servers {
		text += knownhosts.Line([]string{d.address}, d.key.PublicKey()) + "\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// startAgent is an SSH agent with one key.
func startAgent(t *testing.T, p pair) string {
	t.Helper()
	ring := agent.NewKeyring()
	if err := ring.Add(agent.AddedKey{PrivateKey: p.raw}); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(t.TempDir(), "agent")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(func() { cancel(); listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { conn.Close() })
			go func() { _ = agent.ServeAgent(ring, conn) }()
		}
	}()
	return socket
}
