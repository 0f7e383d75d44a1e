// The way of people into a cluster beside the way that has no server in it: the same requests to the same API, in one run.
// The API, the server's end of the tunnel, the host's end and the clients are in this process, each connection with
// TLS over loopback; what a server does before (tokens, the audit log) is not measured here.

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/downstream"
	"github.com/drover-project/drover/server/downstream/kubeproxy"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/tunnel"
)

const (
	proxyRounds  = 300
	proxyWatches = 50
	proxyEvents  = 500
	proxyIdle    = 400
	proxyStream  = 1 << 30 // bytes
	proxyCluster = "c-m-bench234"
)

// podList is what `kubectl get pods` of a hundred pods gets as a table, about.
var podList = bytes.Repeat([]byte(`{"cells":["pod-with-a-name","1/1","Running","0","3d"],"object":{"kind":"PartialObjectMetadata"}},`), 400)

// kubeAPI stands for a cluster's API: a list, a watch of many events, one of none, and a stream after an upgrade.
func kubeAPI() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/list", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(podList)
	})
	mux.HandleFunc("/events", func(w http.ResponseWriter, _ *http.Request) {
		control := http.NewResponseController(w)
		for i := range proxyEvents {
			if _, err := fmt.Fprintf(w, `{"type":"MODIFIED","object":{"n":%d,"padding":%q}}`+"\n", i, podList[:1000]); err != nil || control.Flush() != nil {
				return
			}
		}
	})
	mux.HandleFunc("/idle", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: bench\r\n\r\n")
		block := make([]byte, 32<<10)
		for left := proxyStream; left > 0; left -= len(block) {
			if _, err := conn.Write(block); err != nil {
				return
			}
		}
	})
	return mux
}

// ways are those to one API: their addresses and the paths before its own. The bare one encrypts as often as the one
// through the server, and does nothing else.
type ways struct {
	direct, through, bare way
	close                 []func()
}

type way struct {
	base    string
	address string
	client  *http.Client
	tls     *tls.Config
}

func wayTo(server *httptest.Server, below string) way {
	config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	transport := &http.Transport{TLSClientConfig: config, MaxIdleConnsPerHost: 100}
	return way{server.URL + below, server.Listener.Addr().String(), &http.Client{Transport: transport}, config}
}

// waysTo builds all that is between a client and the API.
func (b *bench) waysTo(ctx context.Context, dir string) (w *ways, err error) {
	w = &ways{}
	defer func() {
		if err != nil {
			w.end()
		}
	}()
	api := httptest.NewTLSServer(kubeAPI())
	w.close = append(w.close, api.CloseClientConnections, api.Close)

	quiet := slog.New(slog.DiscardHandler)
	connected := make(chan struct{}, 1)
	relay := tunnel.NewServer(tunnel.ServerOptions{
		Authorize: func(*http.Request) (tunnel.Peer, error) { return tunnel.Peer{Subject: "host", Kind: "bench"}, nil },
		Allow:     func(tunnel.Peer, string, string) error { return nil }, Logger: quiet,
	})
	relay.OnChange(func(_ string, is bool) {
		if is {
			connected <- struct{}{}
		}
	})
	carrier := httptest.NewTLSServer(relay)
	w.close = append(w.close, carrier.CloseClientConnections, carrier.Close, relay.Close)
	ctx, cancel := context.WithCancel(ctx)
	host := tunnel.NewClient(tunnel.ClientOptions{
		URL: "wss" + strings.TrimPrefix(carrier.URL, "https"), TLS: carrier.Client().Transport.(*http.Transport).TLSClientConfig.Clone(), Logger: quiet,
		Dial: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, api.Listener.Addr().String())
		},
	})
	var running sync.WaitGroup
	running.Go(func() { _ = host.Run(ctx) })
	w.close = append(w.close, func() { cancel(); running.Wait() })
	select {
	case <-connected:
	case <-time.After(10 * time.Second):
		return w, errors.New("the tunnel does not come about within 10 s")
	}

	st, err := state.Open(ctx, store.Options{DataDir: dir, UnsafeNoFsync: true, Logger: quiet})
	if err != nil {
		return w, err
	}
	w.close = append(w.close, func() { _ = st.Close() })
	key := records.ClusterKey("fleet-default/bench")
	if _, err := st.Clusters.Create(ctx, string(key), records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "bench"}, ID: proxyCluster}); err != nil {
		return w, err
	}
	trust := api.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	trust.NextProtos = []string{"http/1.1"}
	over := &http.Transport{TLSClientConfig: trust, MaxIdleConnsPerHost: 16, MaxConnsPerHost: 1000, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return relay.Dial(ctx, "host", tunnel.Target{Network: network, Address: "127.0.0.1:6443", Patient: true})
	}}
	trust.ServerName = "example.com" // of the certificate that stands for the API's
	proxy := &kubeproxy.Proxy{
		State: st, Logger: quiet, Refused: func(records.ClusterKey, string, string) {},
		Way:   func(records.ClusterKey, downstream.Credentials) http.RoundTripper { return over },
		Token: func(context.Context, records.ClusterKey, downstream.Person) (string, error) { return "token", nil },
	}
	door := httptest.NewTLSServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		proxy.Serve(rw, r, auth.Identity{UserID: "u-bench", Username: "bench", TokenName: "token-bench", Admin: true})
	}))
	w.close = append(w.close, door.CloseClientConnections, door.Close)
	w.direct, w.through = wayTo(api, ""), wayTo(door, "/k8s/clusters/"+proxyCluster)
	bare, stop, err := newChain(ctx, api)
	if err != nil {
		return w, err
	}
	w.bare, w.close = bare, append(w.close, stop)
	return w, nil
}

// end closes all, the outermost first.
func (w *ways) end() {
	for _, one := range []way{w.direct, w.through} {
		if one.client != nil {
			one.client.CloseIdleConnections()
		}
	}
	for _, f := range slices.Backward(w.close) {
		f()
	}
}

// kubeProxy measures the way of people into a cluster.
func (b *bench) kubeProxy(ctx context.Context) (err error) {
	dir := filepath.Join(b.dir, "proxy")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	w, err := b.waysTo(ctx, dir)
	if err != nil {
		return err
	}
	defer w.end()
	b.say("proxy: %d requests each way", proxyRounds)
	if err := b.proxyLatency(ctx, w); err != nil {
		return err
	}
	b.say("proxy: %d watches each way", proxyWatches)
	if err := b.proxyWatch(ctx, w); err != nil {
		return err
	}
	b.say("proxy: streams of %d MiB each way", proxyStream>>20)
	if err := b.proxyThroughput(ctx, w); err != nil {
		return err
	}
	return b.proxyMemory(ctx, w)
}

// proxyLatency asks by a new connection each, as each kubectl does, in turn.
func (b *bench) proxyLatency(ctx context.Context, w *ways) error {
	times := map[bool][]time.Duration{}
	for i := range 2 * proxyRounds {
		through := i%2 == 1
		one := w.direct
		if through {
			one = w.through
		}
		began := time.Now()
		if n, err := one.get(ctx, "/list"); err != nil || n != len(podList) {
			return fmt.Errorf("get a list of %d bytes: %d, %w", len(podList), n, err)
		}
		times[through] = append(times[through], time.Since(began))
		one.client.CloseIdleConnections()
	}
	for _, list := range times {
		slices.Sort(list)
	}
	more := times[true][proxyRounds/2] - times[false][proxyRounds/2]
	b.table.note("a list by a new connection, direct", inMillis(times[false][proxyRounds/2])+" median")
	b.table.measure("the same through the proxy and a tunnel, more", inMillis(more)+" median", millis(more), "≤ 5 ms", 5)
	return nil
}

func (w way) get(ctx context.Context, path string) (n int, err error) {
	r, err := w.open(ctx, path)
	if err != nil {
		return 0, err
	}
	defer r.Close()
	read, err := io.Copy(io.Discard, r)
	return int(read), err
}

func (w way) open(ctx context.Context, path string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, w.base+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := w.client.Do(request)
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK {
		return nil, errors.Join(fmt.Errorf("%s answers %s", path, response.Status), response.Body.Close())
	}
	return response.Body, nil
}

// proxyWatch reads watches at the same time, each to its last event.
func (b *bench) proxyWatch(ctx context.Context, w *ways) error {
	took := map[bool]time.Duration{}
	for _, through := range []bool{false, true, false, true} {
		one := w.direct
		if through {
			one = w.through
		}
		began, failed := time.Now(), make(chan error, proxyWatches)
		var all sync.WaitGroup
		for range proxyWatches {
			all.Go(func() { failed <- one.watch(ctx) })
		}
		all.Wait()
		close(failed)
		for err := range failed {
			if err != nil {
				return err
			}
		}
		took[through] = time.Since(began)
	}
	rate := func(d time.Duration) string {
		return fmt.Sprintf("%.0f events/s", proxyWatches*proxyEvents/d.Seconds())
	}
	b.table.note(fmt.Sprintf("%d watches at once of events of 1 KiB, direct", proxyWatches), rate(took[false]))
	b.table.note("the same through the proxy and a tunnel, none lost", rate(took[true]))
	return nil
}

// watch reads events and sees that none is missing.
func (w way) watch(ctx context.Context) error {
	r, err := w.open(ctx, "/events?watch=true")
	if err != nil {
		return err
	}
	defer r.Close()
	lines := json.NewDecoder(r)
	for i := range proxyEvents {
		var e struct{ Object struct{ N int } }
		if err := lines.Decode(&e); err != nil || e.Object.N != i {
			return fmt.Errorf("event %d is %d: %w", i, e.Object.N, err)
		}
	}
	return nil
}

// proxyThroughput is what `kubectl cp` does: an upgrade, and then bytes. Of each way the best of three counts, in turn, as
// other work on the machine only ever makes one slower.
func (b *bench) proxyThroughput(ctx context.Context, w *ways) error {
	var rates [3]float64
	for range 3 {
		for i, one := range []way{w.direct, w.bare, w.through} {
			rate, err := one.stream(ctx)
			if err != nil {
				return err
			}
			rates[i] = max(rates[i], rate)
		}
	}
	direct, bare, through := rates[0], rates[1], rates[2]
	b.table.note("a stream of 1 GiB after an upgrade, direct", fmt.Sprintf("%.0f MiB/s", direct))
	b.table.note("the same through a bare chain of three TLS connections", fmt.Sprintf("%.0f MiB/s, %.2f of it", bare, bare/direct))
	b.table.measure("the same through the proxy and a tunnel", fmt.Sprintf("%.0f MiB/s, %.2f of it, %.2f of the bare chain", through, through/direct, through/bare),
		-through/direct, "≥ 0.7", -0.7)
	return nil
}

// stream takes one and is in MiB/s.
func (w way) stream(ctx context.Context) (float64, error) {
	conn, err := (&tls.Dialer{Config: w.tls}).DialContext(ctx, "tcp", w.address)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	path := strings.TrimPrefix(w.base, "https://"+w.address) + "/stream"
	if _, err := fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: bench\r\nContent-Length: 0\r\n\r\n", path); err != nil {
		return 0, err
	}
	reader := bufio.NewReaderSize(conn, 64<<10)
	response, err := http.ReadResponse(reader, nil)
	if err != nil {
		return 0, err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusSwitchingProtocols {
		return 0, fmt.Errorf("%s answers %s", path, response.Status)
	}
	began := time.Now()
	n, err := io.Copy(io.Discard, reader)
	if n != proxyStream {
		return 0, fmt.Errorf("%d of %d bytes came: %w", n, proxyStream, err)
	}
	return mib(n) / time.Since(began).Seconds(), nil
}

// proxyMemory opens watches in which nothing happens. What the client and the API need is what they need without a proxy.
func (b *bench) proxyMemory(ctx context.Context, w *ways) error {
	var each [2]float64
	for i, one := range []way{w.direct, w.through} {
		one.client.CloseIdleConnections()
		before := inUse()
		var open []io.ReadCloser
		for range proxyIdle {
			r, err := one.open(ctx, "/idle?watch=true")
			if err != nil {
				return err
			}
			open = append(open, r)
		}
		each[i] = float64(inUse()-before) / proxyIdle
		for _, r := range open {
			_ = r.Close()
		}
	}
	b.table.note("memory of an idle watch through the proxy, both ends of the tunnel with it", kib(each[1]-each[0]))
	return nil
}

// inUse is the memory of this process's heap and stacks.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}
