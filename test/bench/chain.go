// What encryption alone costs on the way of people into a cluster: a chain of the same three TLS connections, with
// nothing between them but copying. On the same cores no proxy that encrypts as often can be expected to be much faster.

package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
)

// chain stands for a server and a host that do nothing but encrypt: what comes in at the server goes through a
// connection to the host, and within that one by TLS to the API.
type chain struct {
	ctx          context.Context
	server, host net.Listener
	carrier, api *tls.Config // what the server trusts
	address      string      // of the API
	work         sync.WaitGroup
}

// newChain begins one, and a way through it; stop ends it.
func newChain(ctx context.Context, api *httptest.Server) (through way, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	c := &chain{ctx: ctx, address: api.Listener.Addr().String(), api: trusting(api), carrier: trusting(api)}
	c.carrier.NextProtos = nil
	own := &tls.Config{MinVersion: tls.VersionTLS13, Certificates: api.TLS.Certificates}
	if c.host, err = tls.Listen("tcp", "127.0.0.1:0", own); err != nil {
		cancel()
		return way{}, nil, err
	}
	if c.server, err = tls.Listen("tcp", "127.0.0.1:0", own); err != nil {
		cancel()
		_ = c.host.Close()
		return way{}, nil, err
	}
	c.work.Go(func() { c.accept(c.host, c.toAPI) })
	c.work.Go(func() { c.accept(c.server, c.toHost) })
	address := c.server.Addr().String()
	return way{base: "https://" + address, address: address, tls: c.carrier}, func() {
		cancel()
		_, _ = c.server.Close(), c.host.Close()
		c.work.Wait()
	}, nil
}

// trusting is what a client of the server has, by HTTP/1.1.
func trusting(server *httptest.Server) *tls.Config {
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos, config.ServerName = []string{"http/1.1"}, "example.com" // of the certificate that test servers share
	return config
}

// accept joins each connection that comes with one that is dialled for it.
func (c *chain) accept(l net.Listener, dial func() (net.Conn, error)) {
	for {
		from, err := l.Accept()
		if err != nil {
			return
		}
		c.work.Go(func() {
			defer from.Close()
			to, err := dial()
			if err != nil {
				return
			}
			defer to.Close()
			stop := context.AfterFunc(c.ctx, func() { _, _ = from.Close(), to.Close() })
			defer stop()
			c.work.Go(func() { _, _ = io.Copy(to, from) })
			_, _ = io.CopyBuffer(from, to, make([]byte, 64<<10))
		})
	}
}

func (c *chain) toAPI() (net.Conn, error) {
	return new(net.Dialer).DialContext(c.ctx, "tcp", c.address)
}

func (c *chain) toHost() (net.Conn, error) {
	carrier, err := (&tls.Dialer{Config: c.carrier}).DialContext(c.ctx, "tcp", c.host.Addr().String())
	if err != nil {
		return nil, err
	}
	return tls.Client(carrier, c.api), nil
}
