//go:build e2e

package e2e

// Peers that are nothing but the original's tunnel library and the headers of the wire: our servers serve them, our
// agent serves them, and a thousand of them that come and go leave nothing behind.

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/rancher/remotedialer"

	"github.com/drover-project/drover/test/bed"
	"github.com/drover-project/drover/tunnel"
	"github.com/drover-project/drover/tunnel/connect"
	"github.com/drover-project/drover/tunnel/trust"
)

const (
	// simulatedCluster has the hosts that exist in this process alone.
	simulatedCluster = "harness"
	bareHost         = "bare-host"
	// storm is how many tunnels come and go, stormHosts at a time.
	storm, stormHosts = 1000, 20
	// What the storm may leave behind, in a server that has done it once before.
	moreGoroutines, moreDescriptors = 25, 15
	moreMemory                      = 48 << 20
)

// simulated is what a host of this process connects with.
type simulated struct {
	url    string
	header http.Header
	dialer *websocket.Dialer
}

func (d *dockyard) simulate(r *replica, name string) simulated {
	d.Helper()
	line := d.drover(r, "clusters", "join-command", simulatedCluster, "--docker", "--worker")
	token := regexp.MustCompile(`CATTLE_TOKEN=(\w+)`).FindStringSubmatch(line)
	if token == nil {
		d.Fatal("the printed line has no token")
	}
	params, err := connect.Encode(connect.Params{Node: &connect.Node{
		CustomConfig: &connect.CustomConfig{Address: "203.0.113.9", Roles: []string{connect.RoleWorker}}, Worker: true,
		RequestedHostname: name, DockerInfo: &connect.DockerInfo{ID: "engine of " + name, ServerVersion: "20.10.24"},
	}})
	must(d.T, err)
	ca, err := os.ReadFile(filepath.Join(r.dataDir, "tls", "ca.crt"))
	must(d.T, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca)
	return simulated{
		url:    "wss" + strings.TrimPrefix(strings.TrimSuffix(r.options.ReadyURL, "/ping"), "https") + connect.RegisterPath,
		header: http.Header{connect.TokenHeader: {token[1]}, connect.ParamsHeader: {params}},
		dialer: &websocket.Dialer{TLSClientConfig: &tls.Config{RootCAs: pool}, HandshakeTimeout: patience},
	}
}

// run serves the server until ctx ends; opened is called when the tunnel is open.
func (s simulated) run(ctx context.Context, dial remotedialer.Dialer, opened func()) error {
	tunnel.LogTo(slog.New(slog.DiscardHandler)) // the library logs each connection
	all := func(string, string) bool { return true }
	return remotedialer.ConnectToProxyWithDialer(ctx, s.url, s.header, all, s.dialer, dial, func(context.Context, *remotedialer.Session) error {
		opened()
		return nil
	})
}

// bareClient is the original's client at server A, at hand through server B.
func (d *dockyard) bareClient() {
	a, b := d.servers[0], d.servers[1]
	ctx, cancel := context.WithCancel(d.ctx)
	ended := make(chan error, 1)
	opened := make(chan struct{})
	one := d.simulate(a, bareHost)
	go func() {
		ended <- one.run(ctx, func(_ context.Context, network, address string) (net.Conn, error) {
			if network != "tcp" || address != "127.0.0.1:10256" {
				return nil, fmt.Errorf("%s %s was dialled", network, address)
			}
			ours, theirs := net.Pipe()
			go sayHealthy(ours)
			return theirs, nil
		}, func() { close(opened) })
	}()
	select {
	case <-opened:
	case err := <-ended:
		d.Fatalf("the tunnel: %v", err)
	}
	d.awaitSimulated(b, "Connected", bareHost)
	for _, r := range d.servers {
		d.forward(r, bareHost)
	}
	cancel()
	<-ended
	d.awaitSimulated(b, "Disconnected", bareHost)
}

// sayHealthy answers one request as the workload of the real hosts does.
func sayHealthy(conn net.Conn) {
	defer conn.Close()
	if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 8\r\n\r\nhealthy\n")
	}
}

func (d *dockyard) awaitSimulated(r *replica, state, name string) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	must(d.T, bed.Await(ctx, name+" to be "+state, 200*time.Millisecond, func(ctx context.Context) error {
		all, err := d.machines(ctx, r, simulatedCluster)
		if err == nil && all[name].DroverState != state {
			err = fmt.Errorf("it is %q: %s", all[name].DroverState, all[name].Cause)
		}
		return err
	}))
}

// reconnects measures both servers before and after many tunnels to one of them.
func (d *dockyard) reconnects() {
	d.storm(storm / 5) // what is allocated once is not what is looked for
	var before [2]usage
	for i, r := range d.servers {
		before[i] = d.settled(r)
	}
	began := time.Now()
	d.storm(storm)
	d.Logf("%d tunnels in %s", storm, time.Since(began).Round(time.Millisecond))
	before[0].opened += storm
	for i, r := range d.servers {
		after := d.back(r, before[i])
		d.Logf("server %s: before %s, after %s", r.letter, before[i], after)
	}
	d.atHand(d.servers[0], patience)
}

// storm opens and ends n tunnels at server A.
func (d *dockyard) storm(n int) {
	d.Helper()
	var hosts sync.WaitGroup
	errs := make([]error, stormHosts)
	for i := range stormHosts {
		one := d.simulate(d.servers[0], fmt.Sprintf("storm-%d", i))
		hosts.Go(func() {
			for range n / stormHosts {
				ctx, cancel := context.WithCancel(d.ctx)
				opened := false
				err := one.run(ctx, nil, func() { opened = true; cancel() })
				cancel()
				if !opened {
					errs[i] = fmt.Errorf("storm-%d: %w", i, err)
					return
				}
			}
		})
	}
	hosts.Wait()
	must(d.T, errors.Join(errs...))
}

// usage is what a server holds.
type usage struct {
	tunnels, opened, goroutines, descriptors int
	memory                                   int64 // resident, in bytes
}

func (u usage) String() string {
	return fmt.Sprintf("%d tunnels of %d opened, %d goroutines, %d descriptors, %d MiB", u.tunnels, u.opened, u.goroutines, u.descriptors, u.memory>>20)
}

// back waits until a server has counted before.opened tunnels, as a client knows of its tunnel before the server does,
// and holds about as much as before the storm. What is on its way out takes its time, and the kernel gets memory back
// some time after it is free.
func (d *dockyard) back(r *replica, before usage) (after usage) {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	must(d.T, bed.Await(ctx, "server "+r.letter+" to have nothing left of what came and went", time.Second, func(ctx context.Context) (err error) {
		if after, err = d.usage(ctx, r); err != nil {
			return err
		}
		if after.opened < before.opened || after.tunnels > dockHosts || after.goroutines > before.goroutines+moreGoroutines ||
			after.descriptors > before.descriptors+moreDescriptors || after.memory > before.memory+moreMemory {
			return fmt.Errorf("before %s, after %s", before, after)
		}
		return nil
	}))
	return after
}

// settled is what a server holds once the storm's tunnels are gone and two looks a moment apart agree.
func (d *dockyard) settled(r *replica) usage {
	d.Helper()
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	var last usage
	must(d.T, bed.Await(ctx, "server "+r.letter+" to be at rest", time.Second, func(ctx context.Context) error {
		now, err := d.usage(ctx, r)
		if err != nil {
			return err
		}
		before := last
		last = now
		if now.tunnels > dockHosts || now.goroutines != before.goroutines || now.descriptors != before.descriptors {
			return fmt.Errorf("it holds %s after %s", now, before)
		}
		return nil
	}))
	return last
}

var metric = regexp.MustCompile(`^(drover_tunnel_sessions(?:\{[^}]*\})?|drover_tunnel_opened_total|go_goroutines|process_open_fds|process_resident_memory_bytes) (\S+)$`)

func (d *dockyard) usage(ctx context.Context, r *replica) (u usage, err error) {
	token, err := os.ReadFile(filepath.Join(r.dataDir, "admin-token"))
	if err != nil {
		return u, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(r.options.ReadyURL, "/ping")+"/metrics", nil)
	if err != nil {
		return u, err
	}
	request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	answer, err := r.options.Client.Do(request)
	if err != nil {
		return u, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return u, fmt.Errorf("/metrics answered %s", answer.Status)
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() {
		match := metric.FindStringSubmatch(lines.Text())
		if match == nil {
			continue
		}
		value, err := strconv.ParseFloat(match[2], 64)
		if err != nil {
			return u, fmt.Errorf("read %q: %w", lines.Text(), err)
		}
		switch name, _, _ := strings.Cut(match[1], "{"); name {
		case "drover_tunnel_sessions":
			u.tunnels += int(value)
		case "drover_tunnel_opened_total":
			u.opened = int(value)
		case "go_goroutines":
			u.goroutines = int(value)
		case "process_open_fds":
			u.descriptors = int(value)
		default:
			u.memory = int64(value)
		}
	}
	return u, lines.Err()
}

// bareServer gives a second agent of a host to the original's server, which reaches Docker through it.
func (d *dockyard) bareServer() {
	h := d.hosts[2]
	const token = "bcdfghjklmnpqrstvwxz24567bcdfghjklmnpqrstvwxz24567bcdf"
	subject := simulatedCluster + ":" + connect.MachineName(h.Name())
	tunnels := remotedialer.New(func(r *http.Request) (string, bool, error) {
		if r.Header.Get(connect.TokenHeader) != token {
			return "", false, nil
		}
		p, err := connect.Decode(r.Header.Get(connect.ParamsHeader))
		if err != nil {
			return "", false, err
		}
		return simulatedCluster + ":" + connect.MachineName(p.Node.RequestedHostname), true, nil
	}, remotedialer.DefaultErrorWriter)
	web, ca := serveTLS(d.T, h.Gateway(), func(mux *http.ServeMux, ca string) {
		mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "pong") })
		mux.HandleFunc("/v3/settings/cacerts", func(w http.ResponseWriter, _ *http.Request) {
			_ = json.NewEncoder(w).Encode(map[string]string{"id": "cacerts", "type": "setting", "value": ca})
		})
		mux.Handle(connect.Path, tunnels)
		mux.Handle(connect.RegisterPath, tunnels)
	})
	_, err := h.Docker(d.ctx, "run", "--detach", "--name", "bare-agent", "--privileged", "--net=host", "--volume", "/var/run:/var/run", agentImage,
		"--server", web, "--token", token, "--ca-checksum", trust.Checksum([]byte(ca)), "--worker")
	must(d.T, err)
	ctx, cancel := context.WithTimeout(d.ctx, patience)
	defer cancel()
	client := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return tunnels.Dialer(subject)(ctx, "unix", "/var/run/docker.sock")
	}}}
	must(d.T, bed.Await(ctx, "Docker through the original's server", 300*time.Millisecond, func(ctx context.Context) error {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/containers/json", nil)
		if err != nil {
			return err
		}
		answer, err := client.Do(request)
		if err != nil {
			log, _ := h.Docker(ctx, "logs", "--tail", "5", "bare-agent")
			return fmt.Errorf("%w; the agent: %s", err, log)
		}
		defer answer.Body.Close()
		text, err := io.ReadAll(answer.Body)
		if err == nil && !strings.Contains(string(text), "/cargo-"+h.Name()) {
			err = fmt.Errorf("%s: %.300s", answer.Status, text)
		}
		return err
	}))
	if conn, err := tunnels.Dialer(subject)(ctx, "tcp", "169.254.169.254:80"); err == nil {
		must(d.T, conn.SetDeadline(time.Now().Add(patience)))
		if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			d.Errorf("an address that is not a host's is dialled: %v", err)
		}
		_ = conn.Close()
	}
	_, err = h.Docker(d.ctx, "rm", "--force", "bare-agent")
	must(d.T, err)
}

// serveTLS serves on an address with a certificate of its own making, and returns the URL and the certificate.
func serveTLS(t *testing.T, ip string, routes func(mux *http.ServeMux, ca string)) (base, ca string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bare server"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.ParseIP(ip)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(t, err)
	ca = string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	mux := http.NewServeMux()
	routes(mux, ca)
	web := httptest.NewUnstartedServer(mux)
	must(t, web.Listener.Close())
	web.Listener, err = new(net.ListenConfig).Listen(t.Context(), "tcp", net.JoinHostPort(ip, "0"))
	must(t, err)
	web.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	web.StartTLS()
	t.Cleanup(web.CloseClientConnections)
	t.Cleanup(func() { _ = web.Listener.Close() })
	return web.URL, ca
}
