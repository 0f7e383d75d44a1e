package main

import (
	"context"
	"crypto/tls"
	"encoding/base64"
	"fmt"
	"math"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// attack is one thing that is done to the server until ctx ends. What it returns stands in the
// table; a text that begins with "!" is a broken promise.
type attack struct {
	name string
	do   func(ctx context.Context, t *target) string
	// elsewhere says that it is done by a process that gets what processor time the server and the well-behaved client leave: strangers
	// bring processors of their own.
	elsewhere bool
	// first is done before the attack is measured; nil is nothing.
	first func(ctx context.Context, t *target) error
	limits
}

// strangers are attacks of anonymous clients.
func strangers(each time.Duration) (all []attack) {
	for _, a := range []struct {
		name string
		do   func(ctx context.Context, t *target) string
	}{
		{"YAML login bodies with aliases", aliases},
		{"cluster documents that are aliases of themselves, as administrator", selfReferences},
		{"documents of RKE1 clusters that are bombs, as administrator", hostileRKE1},
		{"plans for a fleet that are bombs, as administrator", hostilePlans},
		{"logins with names of 1 MB", longNames},
		{"12,000 connections that say nothing", silence},
		{"1,500 bodies that stall", stalledBodies},
		{"1,000 clients that never read", neverRead},
		{"400 bogus logins at once, again and again", bogusLogins},
		{"one registration token, as many machines as it brings", registrations},
		{"one host with as many tunnels as it opens", tunnels},
	} {
		all = append(all, attack{name: a.name, do: a.do, elsewhere: true, limits: limits{lasts: each, after: mostAfter, during: math.MaxInt64, median: median, slowest: slowest}})
	}
	return all
}

// abreast runs f in so many goroutines until ctx ends.
func abreast(ctx context.Context, n int, f func(i int)) {
	var all sync.WaitGroup
	for range n {
		all.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				f(i)
			}
		})
	}
	all.Wait()
}

// repeated is 215 KB of YAML that stands for 2.7 GB: a text of 100 KB, and 28,000 aliases of it.
func repeated() string {
	return "username: admin\npassword: x\na: &a " + strings.Repeat("x", 100_000) + "\nb: [" + strings.Repeat("*a, ", 28_000) + "*a]\n"
}

func aliases(ctx context.Context, t *target) string {
	body, client := repeated(), t.client(8)
	defer client.CloseIdleConnections()
	var sent atomic.Int64
	var last atomic.Value
	abreast(ctx, 4, func(int) {
		status, _, err := t.ask(ctx, client, http.MethodPost, "/v3-public/localProviders/local?action=login", "", "application/yaml", body)
		if err == nil {
			sent.Add(1)
			last.Store(status)
		}
	})
	return fmt.Sprintf("%d bodies of %d KB, answered %v", sent.Load(), len(body)>>10, last.Load())
}

func selfReferences(ctx context.Context, t *target) string {
	body := "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: bomb}\nspec:\n  kubernetesVersion: v1.34.4+k3s1\n  rkeConfig:\n    chartValues:\n      a: &a [*a]\n"
	return refuses(ctx, t, document{"/v1/provisioning.cattle.io.clusters", body}, document{"/v1-drover/apply", body})
}

func hostileRKE1(ctx context.Context, t *target) string {
	const (
		path  = "/v1-drover/apply"
		begin = "apiVersion: management.cattle.io/v3\nkind: Cluster\nmetadata: {name: bomb}\nspec:\n  rancherKubernetesEngineConfig:\n"
	)
	return refuses(ctx, t,
		document{path, begin + "    addons: &a [*a]\n"},
		document{path, begin + "    services: {kubeApi: {extraArgs: &a {v: *a}}}\n"},
		document{path, begin + "    nodes: [" + strings.Repeat("{address: 192.0.2.1, user: root, role: [worker]}, ", 20_000) + "]\n"},
		document{path, begin + "    services: {etcd: {extraBinds: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "}}\n"},
		document{path, begin + "    addonsInclude: [&x \"" + strings.Repeat("x", 100_000) + "\", " + strings.Repeat("*x, ", 28_000) + "]\n"},
		document{path, begin + "    addons: \"" + strings.Repeat("a", 4<<20) + "\"\n"},
	)
}

func hostilePlans(ctx context.Context, t *target) string {
	client := t.client(1)
	defer client.CloseIdleConnections()
	if status, text, err := t.ask(ctx, client, http.MethodPost, "/v1-drover/fleets/edge/join", t.admin, "", ""); err != nil || status != http.StatusOK {
		return fmt.Sprintf("!no fleet was made: %d %.200s %v", status, text, err)
	}
	const path = "/v1-drover/fleets/edge/plan"
	return refuses(ctx, t,
		document{path, "files: &a [*a]\n"},
		document{path, "files: [" + strings.Repeat("{path: /x, content: aGk=}, ", 30_000) + "]\n"},
		document{path, "instructions: [" + strings.Repeat("{name: a, command: sh, args: ["+strings.Repeat("a, ", 100)+"]}, ", 2_000) + "]\n"},
		document{path, "files: " + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + "\n"},
		document{path, "files: [{path: /x, content: &x \"" + strings.Repeat("QUJD", 25_000) + "\"}, " + strings.Repeat("{path: /y, content: *x}, ", 1_000) + "]\n"},
		document{path + "?" + strings.Repeat("label=a%3Db&", 5_000), "files: []\n"},
		document{"/v1-drover/fleets/" + strings.Repeat("e", 200_000) + "/plan", "files: []\n"},
	)
}

// document is what is sent to a path.
type document struct{ path, body string }

// refuses sends documents as the administrator until ctx ends: each is to be refused.
func refuses(ctx context.Context, t *target, documents ...document) string {
	client := t.client(8)
	defer client.CloseIdleConnections()
	var sent atomic.Int64
	var accepted atomic.Value
	abreast(ctx, 4, func(i int) {
		d := documents[i%len(documents)]
		if status, _, err := t.ask(ctx, client, http.MethodPost, d.path, t.admin, "application/yaml", d.body); err == nil {
			sent.Add(1)
			if status/100 != 4 {
				accepted.Store(fmt.Sprintf("!%.100s with %.120q was answered with %d", d.path, d.body, status))
			}
		}
	})
	if text, ok := accepted.Load().(string); ok {
		return text
	}
	if int(sent.Load()) < len(documents) {
		return fmt.Sprintf("!%d documents were answered", sent.Load())
	}
	return fmt.Sprintf("%d documents refused", sent.Load())
}

func longNames(ctx context.Context, t *target) string {
	client := t.client(16)
	defer client.CloseIdleConnections()
	var sent atomic.Int64
	abreast(ctx, 8, func(i int) {
		name := fmt.Sprintf("%d-%d-", i, sent.Load()) + strings.Repeat("n", 1_000_000)
		if _, _, err := t.ask(ctx, client, http.MethodPost, "/v3-public/localProviders/local?action=login", "", "application/json", `{"username":"`+name+`","password":"x"}`); err == nil {
			sent.Add(1)
		}
	})
	return fmt.Sprintf("%d logins", sent.Load())
}

// hold opens connections, writes to each what begins a request, and holds them until ctx ends.
func (t *target) hold(ctx context.Context, n int, begin string) (open, refused int) {
	var conns []net.Conn
	defer func() {
		for _, c := range conns {
			c.Close()
		}
	}()
	dialer := &tls.Dialer{NetDialer: &net.Dialer{Timeout: 10 * time.Second}, Config: &tls.Config{RootCAs: t.roots}}
	for range n {
		c, err := dialer.DialContext(ctx, "tcp", t.address)
		if err != nil {
			if refused++; ctx.Err() != nil {
				break
			}
			continue
		}
		if tcp, ok := c.(*tls.Conn).NetConn().(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4 << 10) // what is not read stays with the server
		}
		if _, err := c.Write([]byte(begin)); err != nil {
			refused++
			c.Close()
			continue
		}
		conns = append(conns, c)
	}
	<-ctx.Done()
	return len(conns), refused
}

// silence is more connections than the server holds, from one source; each is opened again when it is ended.
func silence(ctx context.Context, t *target) string {
	var opened, ended atomic.Int64
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	abreast(ctx, 12_000, func(int) {
		c, err := dialer.DialContext(ctx, "tcp", t.address)
		if err != nil {
			return
		}
		defer c.Close()
		defer context.AfterFunc(ctx, func() { c.Close() })()
		opened.Add(1)
		if _, err := c.Read(make([]byte, 1)); err != nil && ctx.Err() == nil {
			ended.Add(1)
		}
	})
	return fmt.Sprintf("%d opened, %d ended by the server", opened.Load(), ended.Load())
}

func stalledBodies(ctx context.Context, t *target) string {
	open, refused := t.hold(ctx, 1500, "POST /v3-public/localProviders/local?action=login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{")
	return fmt.Sprintf("%d opened, %d refused", open, refused)
}

func neverRead(ctx context.Context, t *target) string {
	open, refused := t.hold(ctx, 1000, strings.Repeat("GET /system-agent-install.sh HTTP/1.1\r\nHost: x\r\n\r\n", 200))
	return fmt.Sprintf("%d opened, %d refused", open, refused)
}

// bogusLogins: the right login, which comes from elsewhere, is the well-behaved client's affair.
func bogusLogins(ctx context.Context, t *target) string {
	client := t.client(400)
	defer client.CloseIdleConnections()
	var tried, throttled atomic.Int64
	abreast(ctx, 400, func(i int) {
		body := fmt.Sprintf(`{"username":"nobody-%d","password":"x"}`, tried.Add(1))
		if status, _, err := t.ask(ctx, client, http.MethodPost, "/v3-public/localProviders/local?action=login", "", "application/json", body); err == nil && status == http.StatusTooManyRequests {
			throttled.Add(1)
		}
	})
	return fmt.Sprintf("%d tried, %d of them asked to wait", tried.Load(), throttled.Load())
}

func registrations(ctx context.Context, t *target) string {
	if status, body, err := t.ask(ctx, t.http, http.MethodPut, "/v3/settings/registration-quota", t.admin, "application/json", `{"value":"1000"}`); err != nil || status != http.StatusOK {
		return fmt.Sprintf("!the quota cannot be set: %d %.200s %v", status, body, err)
	}
	client := t.client(64)
	defer client.CloseIdleConnections()
	var tried, joined, refused atomic.Int64
	abreast(ctx, 32, func(int) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.url+"/v3/connect/agent", nil)
		if err != nil {
			return
		}
		r.Header.Set("Authorization", "Bearer "+t.joining)
		r.Header.Set("X-Cattle-Id", fmt.Sprintf("stranger-%d", tried.Add(1)))
		r.Header.Set("X-Cattle-Role-Worker", "true")
		answer, err := client.Do(r)
		if err != nil {
			return
		}
		answer.Body.Close()
		switch answer.StatusCode {
		case http.StatusOK:
			joined.Add(1)
		case http.StatusForbidden, http.StatusTooManyRequests:
			refused.Add(1)
		}
	})
	// A few at once may pass the quota together.
	if n := joined.Load(); n > 1100 {
		return fmt.Sprintf("!%d machines joined, the quota is 1000", n)
	}
	return fmt.Sprintf("%d joined (quota 1000), %d refused", joined.Load(), refused.Load())
}

func tunnels(ctx context.Context, t *target) string {
	key := base64.StdEncoding.EncodeToString([]byte("0123456789abcdef"))
	open, refused := t.hold(ctx, 1500, "GET /v3/connect HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+key+
		"\r\nX-API-Tunnel-Token: "+t.joining+"\r\n\r\n")
	return fmt.Sprintf("%d opened, %d refused", open, refused)
}
