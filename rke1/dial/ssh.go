// One SSH connection a host, over which all connections to it go, made again when it has
// ended.

package dial

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"
)

const (
	// connectLimit bounds the TCP connection and the handshake of one SSH connection.
	connectLimit = 30 * time.Second
	// answerLimit bounds the TCP connection alone: a host that is down answers nothing. Three packets that were lost still fit.
	answerLimit = 10 * time.Second
	// aliveInterval is how often a connection is asked whether it lives, aliveLimit how long an
	// answer may take. A host that lost its power answers nothing for ever.
	aliveInterval = 15 * time.Second
	aliveLimit    = 30 * time.Second
)

// Login is how to log in on a host.
type Login struct {
	// Address is a name or an IP address; Port defaults to 22.
	Address, Port string
	User          string
	// Key is the private key's text in PEM, KeyPath a file with it; the text wins.
	Key, KeyPath string
	// Cert is an SSH certificate for the key, as one line; CertPath a file with it; the text wins.
	Cert, CertPath string
	// Agent asks the agent behind SSH_AUTH_SOCK for signatures instead.
	Agent bool
}

func (l Login) endpoint() string {
	port := cmp.Or(l.Port, "22")
	return net.JoinHostPort(l.Address, port)
}

// Options are what the SSH connections of one run share.
type Options struct {
	// Bastion is the host that all others are reached through; nil for none.
	Bastion *Login
	// Keys are the hosts' keys that are known.
	Keys *HostKeys
	// AgentSocket is the path of the SSH agent's socket, which is SSH_AUTH_SOCK's value.
	AgentSocket string
	// Direct opens TCP connections from this machine: to the bastion, or to the hosts when
	// there is none. Nil means a plain dialer; a proxy of the environment is another.
	Direct func(ctx context.Context, network, address string) (net.Conn, error)
	Logger *slog.Logger
}

// SSH holds the SSH connections of one run. Its methods may be called from many goroutines.
type SSH struct {
	options Options

	mu      sync.Mutex
	clients map[string]*kept
	closed  bool
	// alive are the goroutines that watch over connections.
	alive sync.WaitGroup
}

// kept is the connection to one host; made under its own lock, so that hosts do not wait for each other.
type kept struct {
	mu     sync.Mutex
	client *ssh.Client
}

// NewSSH is ready to dial. Close it.
func NewSSH(o Options) *SSH {
	if o.Direct == nil {
		o.Direct = (&net.Dialer{Timeout: connectLimit}).DialContext
	}
	return &SSH{options: o, clients: map[string]*kept{}}
}

// Close ends all connections and waits for what watched over them.
func (s *SSH) Close() {
	s.mu.Lock()
	s.closed = true
	all := s.clients
	s.clients = map[string]*kept{}
	s.mu.Unlock()
	for _, k := range all {
		k.mu.Lock()
		if k.client != nil {
			k.client.Close()
		}
		k.mu.Unlock()
	}
	s.alive.Wait()
}

// Host dials on a host that is logged in to. The first connection logs in; errors of that
// are *LoginError.
func (s *SSH) Host(l Login) Dialer {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		// A connection that ended since its last use shows it only now: once more with a new one.
		for attempt := 0; ; attempt++ {
			c, err := s.connection(ctx, l)
			if err != nil {
				return nil, err
			}
			conn, err := c.DialContext(ctx, network, address)
			if err == nil {
				return conn, nil
			}
			var refused *ssh.OpenChannelError
			if errors.As(err, &refused) {
				return nil, refusal(l, network, address, refused)
			}
			if ctx.Err() != nil {
				return nil, fmt.Errorf("dial %s on host %s over SSH: %w", address, l.Address, context.Cause(ctx))
			}
			s.forget(l, c)
			if attempt > 0 {
				return nil, fmt.Errorf("dial %s on host %s over SSH: %w", address, l.Address, err)
			}
		}
	}
}

// refusal says what an sshd's refusal of a connection most likely means.
func refusal(l Login, network, address string, refused *ssh.OpenChannelError) error {
	advice := "look at sshd's log there"
	switch {
	case refused.Reason == ssh.Prohibited:
		advice = "sshd there has to allow it: AllowTcpForwarding yes, and AllowStreamLocalForwarding yes"
	case refused.Reason == ssh.UnknownChannelType:
		advice = "sshd there is older than 6.7 or forwards no sockets"
	case network == "unix":
		advice = "see that Docker runs there and that user " + l.User + " may open the socket: usermod -aG docker " + l.User
	case refused.Reason == ssh.ConnectionFailed:
		advice = "see whether something listens there"
	}
	return fmt.Errorf("dial %s on host %s over SSH: %w: %s", address, l.Address, &RefusedError{refused.Message}, advice)
}

// RefusedError is that sshd made no connection to a port or a socket of the host: nothing
// listens there, or it may not.
type RefusedError struct{ message string }

func (e *RefusedError) Error() string {
	if e.message == "" {
		return "refused"
	}
	return "refused (" + strings.TrimSpace(e.message) + ")"
}

// connection is the live one to a host, or a new one.
func (s *SSH) connection(ctx context.Context, l Login) (*ssh.Client, error) {
	name := l.User + "@" + l.endpoint()
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, fmt.Errorf("dial host %s over SSH: %w", l.Address, net.ErrClosed)
	}
	k := s.clients[name]
	if k == nil {
		k = &kept{}
		s.clients[name] = k
	}
	s.mu.Unlock()

	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client != nil {
		return k.client, nil
	}
	c, err := s.login(ctx, l)
	if err != nil {
		return nil, err
	}
	if !s.watch(c) {
		c.Close()
		return nil, fmt.Errorf("dial host %s over SSH: %w", l.Address, net.ErrClosed)
	}
	k.client = c
	return c, nil
}

// forget drops a connection that does not work any more.
func (s *SSH) forget(l Login, c *ssh.Client) {
	c.Close()
	s.mu.Lock()
	k := s.clients[l.User+"@"+l.endpoint()]
	s.mu.Unlock()
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.client == c {
		k.client = nil
	}
}

// login makes one connection, through the bastion if there is one.
func (s *SSH) login(ctx context.Context, l Login) (*ssh.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	dial := s.options.Direct
	if b := s.options.Bastion; b != nil && b.endpoint() != l.endpoint() {
		dial = s.Host(*b)
		// Its own login has its own limit.
		if _, err := s.connection(ctx, *b); err != nil {
			return nil, &LoginError{Host: l.Address, Err: fmt.Errorf("connect: %w", err)}
		}
	}
	methods, done, err := s.methods(ctx, l)
	if err != nil {
		return nil, &LoginError{Host: l.Address, Err: err}
	}
	defer done()
	conn, err := reach(ctx, dial, l.endpoint())
	if err != nil {
		return nil, &LoginError{Host: l.Address, Err: err}
	}
	client, err := s.handshake(ctx, conn, l, methods)
	if err != nil {
		conn.Close()
		return nil, &LoginError{Host: l.Address, Err: err}
	}
	return client, nil
}

// reach opens the TCP connection to an endpoint.
func reach(ctx context.Context, dial Dialer, endpoint string) (net.Conn, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, answerLimit, fmt.Errorf("it has not answered within %s", answerLimit))
	defer cancel()
	conn, err := dial(ctx, "tcp", endpoint)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("connect to %s: %w", endpoint, context.Cause(ctx))
	case err != nil:
		return nil, fmt.Errorf("connect: %w", err)
	}
	return conn, nil
}

// handshake bounds what ssh.NewClientConn does by the context: channels of a bastion know no deadlines.
func (s *SSH) handshake(ctx context.Context, conn net.Conn, l Login, methods []ssh.AuthMethod) (*ssh.Client, error) {
	trusted := false // the key came first; what fails after it is the user's
	config := &ssh.ClientConfig{
		User: l.User, Auth: methods,
		HostKeyCallback: func(host string, remote net.Addr, key ssh.PublicKey) error {
			err := s.options.Keys.check(host, remote, key)
			trusted = err == nil
			return err
		},
		HostKeyAlgorithms: s.options.Keys.algorithms(l.endpoint(), conn.RemoteAddr()),
		ClientVersion:     "SSH-2.0-drover",
	}
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	c, channels, requests, err := ssh.NewClientConn(conn, l.endpoint(), config)
	if !stop() && err == nil {
		c.Close()
		err = context.Cause(ctx)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, fmt.Errorf("log in: %w", context.Cause(ctx))
		}
		return nil, loginAdvice(l, trusted, err)
	}
	return ssh.NewClient(c, channels, requests), nil
}

// watch ends a connection whose host answers no more, so that its reader wakes
// up. It says no when everything is closed already.
func (s *SSH) watch(c *ssh.Client) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	ended := make(chan struct{})
	s.alive.Add(2)
	go func() {
		defer s.alive.Done()
		defer close(ended)
		_ = c.Wait() // it says only that the connection has ended
	}()
	go func() {
		defer s.alive.Done()
		defer c.Close()
		tick := time.NewTicker(aliveInterval)
		defer tick.Stop()
		for {
			select {
			case <-ended:
				return
			case <-tick.C:
			}
			if !answering(c, ended) {
				return
			}
		}
	}()
	return true
}

// answering asks a host for any answer.
func answering(c *ssh.Client, ended <-chan struct{}) bool {
	answer := make(chan error, 1)
	go func() {
		_, _, err := c.SendRequest("keepalive@openssh.com", true, nil)
		answer <- err
	}()
	limit := time.NewTimer(aliveLimit)
	defer limit.Stop()
	select {
	case err := <-answer:
		return err == nil
	case <-ended:
	case <-limit.C:
	}
	c.Close() // it ends the request
	<-answer
	return false
}
