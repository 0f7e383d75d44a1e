package node

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/daemon/lifecycle"
	"github.com/drover-project/drover/plans/backoff"
	"github.com/drover-project/drover/tunnel"
)

func TestAllowed(t *testing.T) {
	own := map[netip.Addr]bool{netip.MustParseAddr("10.0.0.7"): true, netip.MustParseAddr("fd00::7"): true, netip.MustParseAddr("169.254.10.1"): true}
	for _, tc := range []struct{ address, to, reason string }{
		{"127.0.0.1:6443", "127.0.0.1:6443", ""},
		{"localhost:10248", "127.0.0.1:10248", ""},
		{"[::1]:6443", "[::1]:6443", ""},
		{"10.0.0.7:2379", "10.0.0.7:2379", ""},
		{"10.0.0.7:10250", "10.0.0.7:10250", ""},
		{"[fd00::7]:2380", "[fd00::7]:2380", ""},
		{"[::ffff:10.0.0.7]:2380", "10.0.0.7:2380", ""},
		{"10.0.0.8:6443", "", "not an address of this host"},
		{"127.0.0.1:22", "", "port is not offered"},
		{"127.0.0.1:0", "", "port is not offered"},
		{"127.0.0.1:70000", "", "port is not offered"},
		{"169.254.169.254:6443", "", "metadata"},
		{"169.254.10.1:6443", "", "metadata"},
		{"[::ffff:169.254.169.254]:6443", "", "metadata"},
		{"example.com:6443", "", "has to be an address"},
		{"localhost.:6443", "", "has to be an address"},
		{"LOCALHOST:6443", "", "has to be an address"},
		{"0177.0.0.1:6443", "", "has to be an address"},
		{"0x7f.0.0.1:6443", "", "has to be an address"},
		{"2130706433:6443", "", "has to be an address"},
		{"127.1:6443", "", "has to be an address"},
		{"127.0.0.1 :6443", "", "has to be an address"},
		{":6443", "", "has to be an address"},
		{"0.0.0.0:6443", "", "not an address of this host"},
		{"[::]:6443", "", "not an address of this host"},
		{"[fe80::1%eth0]:6443", "", "not an address of this host"},
		{"[fd00::7%eth0]:6443", "", "not an address of this host"},
		{"[fd00:ec2::254]:6443", "", "not an address of this host"},
		{"[64:ff9b::a9fe:a9fe]:6443", "", "not an address of this host"},
		{"[::a9fe:a9fe]:6443", "", "not an address of this host"},
		{"127.0.0.1:+6443", "", "port is not offered"},
		{"127.0.0.1:0x192b", "", "port is not offered"},
		{"127.0.0.1:https", "", "port is not offered"},
		{"127.0.0.1:71979", "", "port is not offered"}, // 6443 in 16 bits
		{"127.0.0.1", "", "not host:port"},
		{"", "", "not host:port"},
	} {
		to, reason := allowed(tc.address, own)
		if tc.to != "" && (reason != "" || to.String() != tc.to) || tc.to == "" && !strings.Contains(reason, tc.reason) || tc.to == "" && reason == "" {
			t.Errorf("%s: %s, %q", tc.address, to, reason)
		}
	}
}

func TestResolve(t *testing.T) {
	cloud := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/ip":
			fmt.Fprintln(w, "192.0.2.9")
		case "/azure":
			if r.Header.Get("Metadata") == "true" {
				fmt.Fprint(w, "192.0.2.10")
			}
		case "/page":
			fmt.Fprint(w, "<html>"+strings.Repeat("x", 10_000))
		default:
			http.Error(w, "192.0.2.66", http.StatusForbidden)
		}
	}))
	defer cloud.Close()
	known := map[string]metadata{
		"good": {url: cloud.URL + "/ip"}, "azure": {cloud.URL + "/azure", [2]string{"Metadata", "true"}},
		"page": {url: cloud.URL + "/page"}, "forbidden": {url: cloud.URL + "/no"}, "gone": {url: "http://127.0.0.1:1/"},
	}
	for _, tc := range []struct{ said, want, fault string }{
		{"", "", ""},
		{"10.0.0.7", "10.0.0.7", ""},
		{"fd00::1", "fd00::1", ""},
		{"lo", "127.0.0.1", ""},
		{"good", "192.0.2.9", ""},
		{"azure", "192.0.2.10", ""},
		{"page", "", "no address"},
		{"forbidden", "", "403"},
		{"gone", "", "refused"},
		{"eth77", "", "neither an IP address nor an interface"},
		{"10.0.0.7/24", "", "neither"},
	} {
		got, err := resolve(t.Context(), "--address", tc.said, known)
		if got != tc.want || (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%q: %q, %v", tc.said, got, err)
		}
	}
}

func TestUnderstand(t *testing.T) {
	for _, tc := range []struct {
		status     int
		kind, body string
		want       error
		text       string
	}{
		{200, "application/json", `{"clusterName":"c"}`, nil, ""},
		{200, "text/plain", `{}`, nil, ""},
		{200, "text/html; charset=utf-8", `{}`, nil, "web page"},
		{200, "", ` <!doctype html>`, nil, "web page"},
		{401, "", "no", nil, "registration token"},
		{404, "", "", errNoConfig, "knows no such node"},
		{503, "", "later", errNotYet, "later"},
		{500, "", "bad\nline", nil, "bad; line"},
		{302, "", "", nil, "302 Found"},
	} {
		_, err := understand(tc.status, tc.kind, []byte(tc.body))
		if (err == nil) != (tc.text == "") || err != nil && !strings.Contains(err.Error(), tc.text) || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%d %s %q: %v", tc.status, tc.kind, tc.body, err)
		}
	}
}

func TestWeigh(t *testing.T) {
	p := &pull{fault: backoff.Backoff{Min: afterFault, Max: longest, Floor: 1}, soon: backoff.Backoff{Min: afterSoon, Max: longest, Floor: 1}}
	for i, tc := range []struct {
		err  error
		want time.Duration
	}{
		{nil, usually}, {errNotYet, afterSoon}, {errNotYet, 2 * afterSoon}, {errors.New("x"), afterFault}, {nil, usually}, {errNotYet, afterSoon},
		{errNoConfig, afterFault}, {errNoConfig, 2 * afterFault}, {errNoConfig, afterNothing}, {nil, usually}, {errNoConfig, afterFault},
	} {
		if got := p.weigh(tc.err); got != tc.want {
			t.Errorf("step %d, %v: %v, want %v", i, tc.err, got, tc.want)
		}
	}
}

// TestStuckTunnelEndsTheAgent holds that this one error of a part is the whole agent's.
func TestStuckTunnelEndsTheAgent(t *testing.T) {
	cause := &tunnel.StuckError{Since: time.Now(), Cause: errors.New("no place left")}
	l := &lifecycle.Life{Logger: slog.New(slog.DiscardHandler), Now: time.Now, Hopeless: stuck,
		Parts: []lifecycle.Part{{Name: "tunnel", Run: func(context.Context) error { return cause }}}}
	if err := l.Run(t.Context()); !errors.Is(err, error(cause)) || !strings.Contains(err.Error(), "although the server answers") {
		t.Errorf("error %v", err)
	}
	if stuck(errors.New("something else")) || stuck(nil) {
		t.Error("another error ends the agent")
	}
}

func TestExplainRefusal(t *testing.T) {
	dir := t.TempDir()
	l := &line{agent: &agent{Options: Options{Server: &url.URL{Scheme: "https", Host: "drover.example.com"}, Places: Places{StateDir: dir}}}}
	say := func(status int) string { return l.explain(&tunnel.HandshakeError{Status: status, Text: "no"}).Error() }
	for status, want := range map[int]string{401: "take the command again", 404: "address of something else", 400: "registration token has ended", 409: "the server answered 409 Conflict: no"} {
		if got := say(status); !strings.Contains(got, want) {
			t.Errorf("%d: %s", status, got)
		}
	}
	if got := say(400); strings.Contains(got, "was removed") {
		t.Errorf("a host that was never registered: %s", got)
	}
	if err := os.WriteFile(l.marker(), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := say(400); !strings.Contains(got, "remove "+dir+"/connected") {
		t.Errorf("a host that was registered: %s", got)
	}
}

func TestOutdated(t *testing.T) {
	now := time.Now()
	build := func(days int, names []string, ips ...string) []byte {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		c := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-time.Hour), NotAfter: now.Add(time.Duration(days) * 24 * time.Hour), DNSNames: names}
		for _, ip := range ips {
			c.IPAddresses = append(c.IPAddresses, net.ParseIP(ip))
		}
		der, err := x509.CreateCertificate(rand.Reader, c, c, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	}
	a := addresses{"203.0.113.7", "fd00::7"}
	for _, tc := range []struct {
		name string
		text []byte
		want string
	}{
		{"good", build(4, []string{"n1"}, "203.0.113.7", "fd00::7"), ""},
		{"ends soon", build(2, []string{"n1"}, "203.0.113.7", "fd00::7"), "it ends on"},
		{"another address", build(9, []string{"n1"}, "203.0.113.7"), "fd00::7"},
		{"another name", build(9, []string{"n2"}, "203.0.113.7", "fd00::7"), "n1"},
		{"no PEM", []byte("<html>"), "no PEM"},
	} {
		if err := outdated(tc.text, now, "n1", a); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
	}
}

func TestExplainDocker(t *testing.T) {
	for want, err := range map[string]error{
		"is missing: start Docker": fmt.Errorf("dial: %w", fs.ErrNotExist),
		"nothing listens":          fmt.Errorf("dial: %w", syscall.ECONNREFUSED),
		"run the agent as root":    fmt.Errorf("dial: %w", syscall.EACCES),
		"does not answer: odd":     errors.New("odd"),
	} {
		if got := explainDocker(dockerTarget, err).Error(); !strings.Contains(got, want) {
			t.Errorf("%v: %s", err, got)
		}
	}
}

func TestLoopbackResolver(t *testing.T) {
	for conf, want := range map[string]bool{
		"nameserver 10.0.0.1\n": false, "# x\nnameserver\t127.0.0.53\n": true, "nameserver ::1": true, "options 127.0.0.1": false, "nameserver": false, "": false,
	} {
		if got := loopbackResolver(conf); got != want {
			t.Errorf("%q: %v", conf, got)
		}
	}
}

func TestQuestions(t *testing.T) {
	for _, tc := range []struct{ query, fault string }{
		{"container=kubelet", ""}, {"unit=docker.service&follow=1&tail=10", ""}, {"unit=getty@tty1.service", ""},
		{"", "name one"}, {"unit=a&container=b", "name one"}, {"unit=--help", "not a valid name of a systemd unit"}, {"unit=a%20b", "systemd"},
		{"container=../x", "not a valid name or id"}, {"container=a&tail=-1", "tail"}, {"container=a&tail=999999", "tail"}, {"container=a&follow=maybe", "follow"},
	} {
		_, err := read(httptest.NewRequest("GET", "/v1/logs?"+tc.query, nil))
		if (err == nil) != (tc.fault == "") || err != nil && !strings.Contains(err.Error(), tc.fault) {
			t.Errorf("%s: %v", tc.query, err)
		}
	}
}

func TestWordsOfOthers(t *testing.T) {
	if got := line1("no\x1b[2J\n\u009b31m\u202e\xffway"); got != "no; [2J; 31m; way" {
		t.Errorf("%q", got)
	}
}

func TestBoardSaysEachChangeOnce(t *testing.T) {
	now := time.Date(2026, 8, 21, 12, 0, 0, 0, time.UTC)
	log := &logged{}
	b := newLiveStatus(slog.New(slog.NewTextHandler(log, nil)), func() time.Time { now = now.Add(time.Minute); return now })
	for _, err := range []error{nil, nil, errors.New("gone"), errors.New("gone"), errors.New("other\ncause"), nil, nil} {
		b.set("x", err)
	}
	b.await("y", "the first time")
	if c, _ := b.get("y"); c.OK || c.Cause != "the first time" {
		t.Errorf("awaited: %+v", c)
	}
	b.set("y", nil)
	if c, _ := b.get("y"); !c.OK {
		t.Errorf("come: %+v", c)
	}
	if n := strings.Count(log.String(), "\n"); n != 3 {
		t.Errorf("%d lines:\n%s", n, log)
	}
	b.set("x", errors.New("gone"))
	began := now
	b.set("x", errors.New("still"))
	if c, _ := b.get("x"); c.OK || c.Cause != "still" || !c.Since.Equal(began) {
		t.Errorf("%+v", c)
	}
}

func TestOutwardSendsNothing(t *testing.T) {
	ip, err := outward(context.Background())
	if err == nil && net.ParseIP(ip) == nil {
		t.Errorf("%q", ip)
	}
}
