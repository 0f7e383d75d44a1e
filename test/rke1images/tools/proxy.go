package main

// nginx-proxy: on hosts without a control plane, 6443 leads to those that have one.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	proxyPort = "6443"
	// dialTimeout is nginx' in the original.
	dialTimeout = 2 * time.Second
)

// serveProxy passes connections on to the hosts, which are separated by commas, in turn, and past those that do not answer.
func serveProxy(ctx context.Context, hosts string) error {
	if hosts == "" {
		return errors.New("the variable CP_HOSTS is empty; it has the addresses of control-plane hosts, separated by commas")
	}
	upstreams := strings.Split(hosts, ",")
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", ":"+proxyPort)
	if err != nil {
		return fmt.Errorf("listen for the API of %s: %w", hosts, err)
	}
	fmt.Printf("passing port %s on to %s\n", proxyPort, hosts)
	stop := context.AfterFunc(ctx, func() { _ = listener.Close() })
	defer stop()
	var connections sync.WaitGroup
	defer connections.Wait()
	var turn atomic.Uint32
	for {
		client, err := listener.Accept()
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("accept a connection: %w", err)
		}
		connections.Go(func() {
			if err := pass(ctx, client, upstreams, int(turn.Add(1))); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		})
	}
}

// pass carries one connection until either side ends it, or ctx.
func pass(ctx context.Context, client net.Conn, upstreams []string, turn int) error {
	defer client.Close()
	var upstream net.Conn
	var errs []error
	for i := range upstreams {
		var err error
		dialer := net.Dialer{Timeout: dialTimeout}
		if upstream, err = dialer.DialContext(ctx, "tcp", net.JoinHostPort(upstreams[(turn+i)%len(upstreams)], proxyPort)); err == nil {
			break
		}
		errs = append(errs, err)
	}
	if upstream == nil {
		return errors.Join(errs...)
	}
	defer upstream.Close()
	stop := context.AfterFunc(ctx, func() { _, _ = client.Close(), upstream.Close() })
	defer stop()
	var copying sync.WaitGroup
	copying.Go(func() { carry(upstream, client) })
	copying.Go(func() { carry(client, upstream) })
	copying.Wait()
	return nil
}

// carry copies one direction and passes its end on.
func carry(to, from net.Conn) {
	_, err := io.Copy(to, from)
	if half, ok := to.(*net.TCPConn); ok && err == nil {
		err = half.CloseWrite()
	}
	if err != nil { // the other direction is of no use any more
		_, _ = to.Close(), from.Close()
	}
}
