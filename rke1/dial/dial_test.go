package dial_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/drover-project/drover/rke1/dial"
)

// service is a socket and a port that answer with their names and then echo.
type service struct{ socket, port string }

func startService(t *testing.T) service {
	t.Helper()
	s := service{socket: filepath.Join(t.TempDir(), "sock")}
	unix, err := net.Listen("unix", s.socket)
	if err != nil {
		t.Fatal(err)
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.port = tcp.Addr().String()
	for _, l := range []net.Listener{unix, tcp} {
		t.Cleanup(func() { l.Close() })
		go func() {
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				go func() {
					defer conn.Close()
					_, _ = io.Copy(conn, conn)
				}()
			}
		}()
	}
	return s
}

// echo sends a text to its end and reads what comes back.
func echo(t *testing.T, d dial.Dialer, network, address string) error {
	t.Helper()
	conn, err := d(t.Context(), network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("hello")); err != nil {
		return err
	}
	if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		return err
	}
	back, err := io.ReadAll(conn)
	if err == nil && string(back) != "hello" {
		t.Errorf("%s %s: %q came back", network, address, back)
	}
	return err
}

func open(t *testing.T, knownHosts string, o dial.Options) *dial.SSH {
	t.Helper()
	return openKeys(t, knownHosts, false, o)
}

func openKeys(t *testing.T, knownHosts string, acceptNew bool, o dial.Options) *dial.SSH {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	keys, err := dial.KnownHosts(knownHosts, acceptNew, func(text string) { t.Log(text) })
	if err != nil {
		t.Fatal(err)
	}
	o.Keys, o.Logger = keys, logger
	s := dial.NewSSH(o)
	t.Cleanup(s.Close)
	return s
}

func login(d *sshd, key string) dial.Login {
	host, port, _ := net.SplitHostPort(d.address)
	return dial.Login{Address: host, Port: port, User: "rke", Key: key}
}

func TestSocketsAndPorts(t *testing.T) {
	me := newPair(t)
	d, s := startSSHD(t, me.signer.PublicKey()), startService(t)
	host := open(t, known(t, d), dial.Options{}).Host(login(d, me.pem))

	var all sync.WaitGroup
	for range 8 {
		all.Add(2)
		for network, address := range map[string]string{"unix": s.socket, "tcp": s.port} {
			go func() {
				defer all.Done()
				if err := echo(t, host, network, address); err != nil {
					t.Error(err)
				}
			}()
		}
	}
	all.Wait()
	if n := d.logins.Load(); n != 1 {
		t.Errorf("%d logins for one host", n)
	}
}

func TestWaysToLogIn(t *testing.T) {
	me, ca := newPair(t), newPair(t)
	d, s := startSSHD(t, me.signer.PublicKey()), startService(t)
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	certified := newPair(t)
	cert := &ssh.Certificate{
		Key: certified.signer.PublicKey(), CertType: ssh.UserCert, ValidPrincipals: []string{"rke"}, ValidBefore: ssh.CertTimeInfinity,
	}
	if err := cert.SignCert(rand.Reader, ca.signer); err != nil {
		t.Fatal(err)
	}
	d.authority = ca.signer.PublicKey()
	certText := string(ssh.MarshalAuthorizedKey(cert))
	locked, err := ssh.MarshalPrivateKeyWithPassphrase(me.raw, "", []byte("sesame"))
	if err != nil {
		t.Fatal(err)
	}
	lockedText := string(pem.EncodeToMemory(locked))

	for name, c := range map[string]struct {
		login dial.Login
		want  string // of the error; empty for none
	}{
		"key":               {dial.Login{Key: me.pem}, ""},
		"key in a file":     {dial.Login{KeyPath: file("id", me.pem)}, ""},
		"inline wins":       {dial.Login{Key: me.pem, KeyPath: "/nowhere"}, ""},
		"certificate":       {dial.Login{Key: certified.pem, Cert: certText}, ""},
		"certificate file":  {dial.Login{Key: certified.pem, CertPath: file("cert", certText)}, ""},
		"agent":             {dial.Login{Agent: true}, ""},
		"nothing":           {dial.Login{}, "no key: give ssh_key_path"},
		"no such file":      {dial.Login{KeyPath: filepath.Join(dir, "none")}, "no such file"},
		"not a key":         {dial.Login{Key: "sekrit"}, "what ssh_key holds is not a private key"},
		"passphrase":        {dial.Login{KeyPath: file("locked", lockedText)}, "has a passphrase: add it to an agent"},
		"cert of another":   {dial.Login{Key: me.pem, Cert: certText}, "is not one of the key"},
		"cert is a key":     {dial.Login{Key: me.pem, Cert: string(ssh.MarshalAuthorizedKey(me.signer.PublicKey()))}, "is a public key, not an SSH certificate"},
		"cert is something": {dial.Login{Key: me.pem, Cert: "x"}, "is not an SSH certificate"},
		"not accepted":      {dial.Login{Key: newPair(t).pem}, "user rke is not accepted: add the public key to ~rke/.ssh/authorized_keys"},
	} {
		t.Run(name, func(t *testing.T) {
			l := login(d, "")
			c.login.Address, c.login.Port, c.login.User = l.Address, l.Port, l.User
			host := open(t, known(t, d), dial.Options{AgentSocket: startAgent(t, me)}).Host(c.login)
			err := echo(t, host, "unix", s.socket)
			expect(t, err, c.want)
			if err != nil && strings.Contains(err.Error(), "sekrit") {
				t.Errorf("the error holds what should be a key: %v", err)
			}
			var failed *dial.LoginError
			if c.want != "" && (!errors.As(err, &failed) || failed.Host != "127.0.0.1") {
				t.Errorf("%v is not a LoginError of the host", err)
			}
		})
	}
}

func expect(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Error(err)
	case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
		t.Errorf("got %v, want it to say %q", err, want)
	}
}

func TestHostKeys(t *testing.T) {
	me := newPair(t)
	d, other, s := startSSHD(t, me.signer.PublicKey()), startSSHD(t, nil), startService(t)
	none := filepath.Join(t.TempDir(), "none", "known_hosts")

	err := echo(t, open(t, none, dial.Options{}).Host(login(d, me.pem)), "unix", s.socket)
	var unknown *dial.UnknownKeyError
	if !errors.As(err, &unknown) || unknown.Fingerprint != ssh.FingerprintSHA256(d.key.PublicKey()) {
		t.Fatalf("a host that is not known: %v", err)
	}
	if d.logins.Load() != 0 {
		t.Error("the user's key was shown to a host that is not known")
	}

	if err := echo(t, openKeys(t, none, true, dial.Options{}).Host(login(d, me.pem)), "unix", s.socket); err != nil {
		t.Fatalf("a new key that may be accepted: %v", err)
	}
	if err := echo(t, open(t, none, dial.Options{}).Host(login(d, me.pem)), "unix", s.socket); err != nil {
		t.Fatalf("a key that was accepted before: %v", err)
	}
	if info, err := os.Stat(none); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("known_hosts: %v, %v", info, err)
	}

	d.mu.Lock()
	d.key = other.key
	d.mu.Unlock()
	for _, acceptNew := range []bool{false, true} {
		err = echo(t, openKeys(t, none, acceptNew, dial.Options{}).Host(login(d, me.pem)), "unix", s.socket)
		var changed *dial.ChangedKeyError
		if !errors.As(err, &changed) || changed.Line != 1 || changed.Path != none {
			t.Errorf("a host with another key (accept new: %t): %v", acceptNew, err)
		}
	}
}

// A host has a key of each kind; one that is known by one of them shows that one.
func TestAHostWithManyKeys(t *testing.T) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	curve, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	me := newPair(t)
	for _, swap := range []bool{false, true} {
		d, s := startSSHD(t, me.signer.PublicKey()), startService(t)
		d.mu.Lock()
		d.another = curve
		if swap {
			d.key, d.another = d.another, d.key
		}
		d.mu.Unlock()
		if err := echo(t, open(t, known(t, d), dial.Options{}).Host(login(d, me.pem)), "unix", s.socket); err != nil {
			t.Errorf("known by its %s key: %v", d.key.PublicKey().Type(), err)
		}
	}
}

// A file that does not end in a newline gains a line, not half of one.
func TestANewKeyIsALineOfItsOwn(t *testing.T) {
	me := newPair(t)
	first, second, s := startSSHD(t, me.signer.PublicKey()), startSSHD(t, me.signer.PublicKey()), startService(t)
	path := known(t, first)
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.TrimSpace(text), 0o600); err != nil {
		t.Fatal(err)
	}
	hosts := openKeys(t, path, true, dial.Options{})
	for _, d := range []*sshd{second, first} {
		if err := echo(t, hosts.Host(login(d, me.pem)), "tcp", s.port); err != nil {
			t.Error(err)
		}
	}
}

func TestBastion(t *testing.T) {
	me := newPair(t)
	bastion, d, s := startSSHD(t, me.signer.PublicKey()), startSSHD(t, me.signer.PublicKey()), startService(t)
	way := login(bastion, me.pem)
	var direct []string
	hosts := open(t, known(t, bastion, d), dial.Options{Bastion: &way, Direct: func(ctx context.Context, network, address string) (net.Conn, error) {
		direct = append(direct, address)
		return new(net.Dialer).DialContext(ctx, network, address)
	}})
	if err := echo(t, hosts.Host(login(d, me.pem)), "unix", s.socket); err != nil {
		t.Fatal(err)
	}
	if len(direct) != 1 || direct[0] != bastion.address {
		t.Errorf("connections of this machine: %v, want one to the bastion %s", direct, bastion.address)
	}
	bastion.cut()
	if err := echo(t, hosts.Host(login(d, me.pem)), "unix", s.socket); err != nil {
		t.Errorf("after the bastion's reboot: %v", err)
	}
}

func TestAHostThatReboots(t *testing.T) {
	me := newPair(t)
	d, s := startSSHD(t, me.signer.PublicKey()), startService(t)
	host := open(t, known(t, d), dial.Options{}).Host(login(d, me.pem))
	for range 3 {
		if err := echo(t, host, "unix", s.socket); err != nil {
			t.Fatal(err)
		}
		d.cut()
	}
	if n := d.logins.Load(); n != 3 {
		t.Errorf("%d logins, want one after each cut", n)
	}
}

func TestRefusals(t *testing.T) {
	me := newPair(t)
	d, s := startSSHD(t, me.signer.PublicKey()), startService(t)
	host := open(t, known(t, d), dial.Options{}).Host(login(d, me.pem))
	var refused *dial.RefusedError

	err := echo(t, host, "unix", filepath.Join(t.TempDir(), "none"))
	expect(t, err, "usermod -aG docker rke")
	if !errors.As(err, &refused) {
		t.Errorf("%v is not a RefusedError", err)
	}
	expect(t, echo(t, host, "tcp", "127.0.0.1:1"), "see whether something listens there")
	d.forbid.Store(true)
	expect(t, echo(t, host, "unix", s.socket), "AllowTcpForwarding yes")
	if n := d.logins.Load(); n != 1 {
		t.Errorf("%d logins; a refusal does not end the connection", n)
	}
}

// A host that accepts and says nothing does not hold a run for longer than its context.
func TestASilentHost(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		cancel()
		_, _ = io.Copy(io.Discard, conn)
	}()
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	dialer := open(t, filepath.Join(t.TempDir(), "none"), dial.Options{}).
		Host(dial.Login{Address: host, Port: port, User: "rke", Key: newPair(t).pem})
	if _, err := dialer(ctx, "unix", "/x"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the end of the context", err)
	}
}

func TestClosed(t *testing.T) {
	me := newPair(t)
	d, s := startSSHD(t, me.signer.PublicKey()), startService(t)
	hosts := open(t, known(t, d), dial.Options{})
	host := hosts.Host(login(d, me.pem))
	if err := echo(t, host, "unix", s.socket); err != nil {
		t.Fatal(err)
	}
	hosts.Close()
	if err := echo(t, host, "unix", s.socket); !errors.Is(err, net.ErrClosed) {
		t.Errorf("got %v, want that it is closed", err)
	}
}

func TestDocker(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "docker.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Api-Version", "1.41")
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close() })

	me := newPair(t)
	d := startSSHD(t, me.signer.PublicKey())
	var calls atomic.Int64
	docker, err := dial.Docker(open(t, known(t, d), dial.Options{}).Host(login(d, me.pem)), "2001:db8::1", socket, &calls)
	if err != nil {
		t.Fatal(err)
	}
	defer docker.Close()
	answer, err := docker.Ping(t.Context())
	if err != nil || answer.APIVersion != "1.41" {
		t.Errorf("%+v, %v", answer, err)
	}
	if n := calls.Load(); n == 0 {
		t.Error("calls are not counted")
	}
}
