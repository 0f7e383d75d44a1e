package outgoing

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/net/http/httpproxy"
)

// names resolves every name to what a function says.
func names(t *testing.T, answer func(name string) []netip.Addr) *net.Resolver {
	return &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			for {
				size := make([]byte, 2)
				if _, err := io.ReadFull(there, size); err != nil {
					return
				}
				text := make([]byte, int(size[0])<<8|int(size[1]))
				if _, err := io.ReadFull(there, text); err != nil {
					return
				}
				var m dnsmessage.Message
				if err := m.Unpack(text); err != nil {
					t.Error(err)
					return
				}
				q := m.Questions[0]
				m = dnsmessage.Message{Header: dnsmessage.Header{ID: m.ID, Response: true, RecursionAvailable: true}, Questions: m.Questions}
				for _, a := range answer(strings.TrimSuffix(q.Name.String(), ".")) {
					header := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
					switch {
					case a.Is4() && q.Type == dnsmessage.TypeA:
						m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AResource{A: a.As4()}})
					case a.Is6() && q.Type == dnsmessage.TypeAAAA:
						m.Answers = append(m.Answers, dnsmessage.Resource{Header: header, Body: &dnsmessage.AAAAResource{AAAA: a.As16()}})
					}
				}
				packed, err := m.Pack()
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := there.Write(append([]byte{byte(len(packed) >> 8), byte(len(packed))}, packed...)); err != nil {
					return
				}
			}
		}()
		return here, nil
	}}
}

func always(addresses ...string) func(string) []netip.Addr {
	var all []netip.Addr
	for _, a := range addresses {
		all = append(all, netip.MustParseAddr(a))
	}
	return func(string) []netip.Addr { return all }
}

// inside is a service that no client outside of this host is meant to reach.
type inside struct {
	net.Listener
	port string
	seen atomic.Int32
}

func listen(t *testing.T, address string) *inside {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	i := &inside{Listener: l}
	_, i.port, _ = net.SplitHostPort(l.Addr().String())
	server := &http.Server{
		Handler:   http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hunter2") }),
		ConnState: func(_ net.Conn, s http.ConnState) { i.seen.Add(map[http.ConnState]int32{http.StateNew: 1}[s]) },
	}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-done })
	return i
}

func addr(text string) netip.Addr { return netip.MustParseAddr(text) }

func TestClasses(t *testing.T) {
	owns := []netip.Addr{addr("10.9.9.9"), addr("203.0.113.9"), addr("2001:db8::9")}
	for text, want := range map[string]class{
		"1.1.1.1": open, "2606:4700::1111": open, "172.15.255.255": open, "172.32.0.1": open, "100.63.255.255": open, "100.128.0.1": open, "169.253.1.1": open,
		"127.0.0.1": loopback, "127.255.1.1": loopback, "::1": loopback,
		"10.0.0.1": private, "172.16.0.1": private, "172.31.255.255": private, "192.168.1.1": private, "100.64.0.1": private, "192.0.0.8": private, "198.19.0.1": private,
		"240.0.0.1": private, "fc00::1": private, "fdff::1": private, "fec0::1": private, "64:ff9b:1::a00:1": private,
		"169.254.169.254": linkLocal, "fe80::1": linkLocal, "fe80::1%eth0": linkLocal, "fd00:ec2::254": linkLocal, "100.100.100.200": linkLocal,
		"192.0.0.192": linkLocal, "168.63.129.16": linkLocal,
		"0.0.0.0": nowhere, "0.1.2.3": nowhere, "::": nowhere, "224.0.0.1": nowhere, "ff02::1": nowhere, "255.255.255.255": nowhere,
		"10.9.9.9": own, "203.0.113.9": own, "2001:db8::9": own, "::ffff:10.9.9.9": own,
		// The forms that carry IPv4.
		"::ffff:127.0.0.1": loopback, "::ffff:10.0.0.1": private, "::ffff:169.254.169.254": linkLocal, "::ffff:1.1.1.1": open, "::ffff:0.0.0.0": nowhere,
		"::127.0.0.1": loopback, "::10.0.0.1": private, "::ffff:0:7f00:1": loopback,
		"64:ff9b::7f00:1": loopback, "64:ff9b::a9fe:a9fe": linkLocal, "64:ff9b::101:101": open,
		"2002:7f00:1::": loopback, "2002:a00:1::5": private, "2002:101:101::": open,
		"2001:0:101:101::80ff:fffe": loopback, "2001:0:101:101::fefe:fefe": open,
	} {
		if got := classOf(plain(addr(text)), owns); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}

// TestWhoMayGoWhere: ranges allow for everybody, and being named by the configuration allows private addresses of that host.
func TestWhoMayGoWhere(t *testing.T) {
	for _, tt := range []struct {
		host, address, named, ranges string
		ok                           bool
	}{
		{host: "s3.example.com", address: "1.1.1.1", ok: true},
		{host: "s3.lan", address: "10.0.0.7"},
		{host: "s3.lan", address: "10.0.0.7", ranges: "10.0.0.0/8", ok: true},
		{host: "s3.lan", address: "::ffff:10.0.0.7", ranges: "10.0.0.0/8", ok: true},
		{host: "s3.lan", address: "64:ff9b::a00:7", ranges: "10.0.0.0/8", ok: true},
		{host: "s3.lan", address: "64:ff9b::a00:7", ranges: "64:ff9b::/96", ok: true},
		{host: "s3.lan", address: "10.1.0.7", ranges: "10.0.0.0/16"},
		{host: "127.0.0.1", address: "127.0.0.1", ranges: "127.0.0.0/8", ok: true},
		{host: "s3.lan", address: "10.9.9.9", ranges: "10.0.0.0/8"}, // this host's own
		{host: "s3.lan", address: "10.9.9.9", ranges: "10.0.0.0/8,10.9.9.9/32", ok: true},
		{host: "meta", address: "169.254.169.254", ranges: "169.254.169.254/32", ok: true},
		{host: "0.0.0.0", address: "0.0.0.0", ranges: "0.0.0.0/0"},
		{host: "ldap.lan", address: "10.0.0.7", named: "ldap.lan", ok: true},
		{host: "LDAP.lan.", address: "10.0.0.7", named: "ldap.lan", ok: true},
		{host: "ldap.lan", address: "10.9.9.9", named: "ldap.lan", ok: true},
		{host: "other.lan", address: "10.0.0.7", named: "ldap.lan"},
		{host: "ldap.lan", address: "169.254.169.254", named: "ldap.lan"},
		{host: "169.254.169.254", address: "169.254.169.254", named: "169.254.169.254"},
		{host: "ldap.lan", address: "127.0.0.1", named: "ldap.lan"},
		{host: "127.0.0.1", address: "127.0.0.1", named: "127.0.0.1", ok: true},
		{host: "localhost", address: "::1", named: "localhost", ok: true},
		{host: "0.0.0.0", address: "0.0.0.0", named: "0.0.0.0"},
	} {
		ranges, err := ParseRanges(tt.ranges)
		if err != nil {
			t.Fatal(err)
		}
		err = policy{allowed: ranges, own: []netip.Addr{addr("10.9.9.9")}, named: []string{tt.named}}.check(tt.host, addr(tt.address))
		refused, is := errors.AsType[*RefusedError](err)
		if (err == nil) != tt.ok || err != nil && (!is || !strings.Contains(refused.Error(), tt.address)) {
			t.Errorf("%+v: %v", tt, err)
		}
	}
	err := policy{}.check("s3.lan", addr("10.0.0.7"))
	want := "the server does not connect to s3.lan (10.0.0.7), which is an address of a private network: an administrator can allow it by adding 10.0.0.7/32, or the range it is in, to setting outgoing-allowed-ranges"
	if err.Error() != want {
		t.Error(err)
	}
}

func TestRanges(t *testing.T) {
	if all, err := ParseRanges(" 10.0.0.0/8, fd00:1::/32,192.168.7.7/32"); err != nil || len(all) != 3 {
		t.Errorf("%v, %v", all, err)
	}
	for text, want := range map[string]string{
		"10.0.0.7":            "write 10.20.0.0/16, or 10.20.0.7/32",
		"10.0.0.7/8":          "write 10.0.0.0/8, or 10.0.0.7/32",
		"10.0.0.0/8,":         "is not a range",
		"::ffff:10.0.0.0/104": "is not a range",
		strings.Repeat("10.0.0.0/8,", maxRanges) + "10.0.0.0/8": "at most 1000",
	} {
		if _, err := ParseRanges(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s: %v", text, err)
		}
	}
}

// TestNothingInsideIsReached: however a person writes it, a service of this host sees no connection.
func TestNothingInsideIsReached(t *testing.T) {
	secret := listen(t, ":0")
	hosts := []string{"127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "0.0.0.0", "[::]", "localhost", "v4.test", "v6.test", "both.test", "2130706433", "0x7f.1"}
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if a, ok := netip.AddrFromSlice(one.(*net.IPNet).IP); ok && a.Unmap().Is4() {
			hosts = append(hosts, a.Unmap().String())
		}
	}
	o := &Outgoing{Proxies: &httpproxy.Config{}, Resolver: names(t, func(name string) []netip.Addr {
		return map[string][]netip.Addr{"v4.test": {addr("127.0.0.1")}, "v6.test": {addr("::1")}, "both.test": {addr("::1"), addr("127.0.0.1")}}[name]
	})}
	for _, host := range hosts {
		for _, scheme := range []string{"http", "https"} {
			answer, err := (&http.Client{Transport: o.People().Transport(nil)}).Get(scheme + "://" + host + ":" + secret.port)
			if err == nil {
				answer.Body.Close()
				t.Errorf("%s: %s", host, answer.Status)
				continue
			}
			if _, refused := errors.AsType[*RefusedError](err); !refused && !strings.HasPrefix(host, "2") && !strings.HasPrefix(host, "0x") {
				t.Errorf("%s: %v", host, err)
			}
		}
	}
	if n := secret.seen.Load(); n != 0 {
		t.Errorf("%d connections came inside", n)
	}
}

// TestListens: the address that the server listens on is its own though no interface has it.
func TestListens(t *testing.T) {
	o := &Outgoing{Listens: &net.TCPAddr{IP: net.IPv4(203, 0, 113, 80), Port: 443}}
	if _, err := o.People().DialContext(t.Context(), "tcp", "203.0.113.80:22"); err == nil || !strings.Contains(err.Error(), string(own)) {
		t.Error(err)
	}
}

// TestRedirectsInside: an address that is allowed leads to no other.
func TestRedirectsInside(t *testing.T) {
	secret := listen(t, "127.0.0.1:0")
	outside, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.2:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(http.RedirectHandler("http://127.0.0.1:"+secret.port+"/", http.StatusFound))
	_ = s.Listener.Close()
	s.Listener = outside
	s.Start()
	defer s.Close()
	o := &Outgoing{Allowed: func() string { return "127.0.0.2/32" }, Proxies: &httpproxy.Config{}}
	for name, way := range map[string]*Way{"people": o.People(), "configured": o.Configured(s.URL)} {
		_, err := (&http.Client{Transport: way.Transport(nil)}).Get(s.URL)
		if _, refused := errors.AsType[*RefusedError](err); !refused || secret.seen.Load() != 0 {
			t.Errorf("%s: %d connections, %v", name, secret.seen.Load(), err)
		}
	}
}

// TestNamesThatChange: the address that is connected to is the one that was looked at, whatever the name says a moment later.
func TestNamesThatChange(t *testing.T) {
	secret := listen(t, "127.0.0.1:0")
	public := listen(t, "127.0.0.2:"+secret.port)
	var asked atomic.Int32
	o := &Outgoing{Allowed: func() string { return "127.0.0.2/32" }, Proxies: &httpproxy.Config{}, Resolver: names(t, func(string) []netip.Addr {
		if asked.Add(1)%3 == 1 {
			return []netip.Addr{addr("127.0.0.2")}
		}
		return []netip.Addr{addr("127.0.0.1")}
	})}
	var reached, refused int
	for range 30 {
		answer, err := (&http.Client{Transport: o.People().Transport(nil)}).Get("http://rebind.test:" + secret.port)
		if err == nil {
			reached++
			answer.Body.Close()
		} else if _, is := errors.AsType[*RefusedError](err); is {
			refused++
		}
	}
	if secret.seen.Load() != 0 || reached+refused != 30 || reached == 0 || refused == 0 || int(public.seen.Load()) != reached {
		t.Errorf("reached %d, refused %d, connections inside %d and outside %d", reached, refused, secret.seen.Load(), public.seen.Load())
	}
}

// TestConfigured: what an administrator names in so many words is reached, but a name that leads to loopback is not.
func TestConfigured(t *testing.T) {
	service := listen(t, "127.0.0.1:0")
	o := &Outgoing{Proxies: &httpproxy.Config{}, Resolver: names(t, always("127.0.0.1"))}
	for url, ok := range map[string]bool{"http://127.0.0.1:" + service.port: true, "http://localhost:" + service.port: true, "http://ldap.test:" + service.port: false} {
		answer, err := (&http.Client{Transport: o.Configured(url).Transport(nil)}).Get(url)
		if err == nil {
			answer.Body.Close()
		}
		if (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
	for text, want := range map[string]string{
		"ldaps://Ldap.Example.com.:636": "ldap.example.com", "https://[fd00::1]/x": "fd00::1", "s3.lan:9000": "s3.lan", "s3.lan": "s3.lan", "fd00::1": "fd00::1",
		"https://münchen.test": "xn--mnchen-3ya.test",
	} {
		if got := strings.Join(o.Configured(text).named, " "); got != want {
			t.Errorf("%s names %s", text, got)
		}
	}
}

// TestProxy: a proxy may be inside, but what is asked of it may not, nor may it be asked for anything itself.
func TestProxy(t *testing.T) {
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Method+" "+r.Host)
		http.Error(w, "no", http.StatusTeapot)
	}))
	defer proxy.Close()
	o := &Outgoing{
		Proxies: &httpproxy.Config{HTTPProxy: proxy.URL, HTTPSProxy: proxy.URL, NoProxy: "127.0.0.1"},
		Resolver: names(t, func(name string) []netip.Addr {
			return map[string][]netip.Addr{"public.test": {addr("1.1.1.1")}, "inside.test": {addr("1.1.1.1"), addr("10.0.0.7")}}[name]
		}),
	}
	get := func(url string) error {
		answer, err := (&http.Client{Transport: o.People().Transport(&tls.Config{})}).Get(url)
		if err == nil {
			answer.Body.Close()
		}
		return err
	}
	for _, url := range []string{"http://public.test/", "https://public.test/", "http://unknown.test/"} {
		if _, refused := errors.AsType[*RefusedError](get(url)); refused {
			t.Errorf("%s is refused", url)
		}
	}
	if got := strings.Join(asked, ", "); got != "GET public.test, CONNECT public.test:443, GET unknown.test" {
		t.Errorf("the proxy was asked: %s", got)
	}
	asked = nil
	for _, url := range []string{"http://10.0.0.7/", "https://[::ffff:169.254.169.254]/", "http://inside.test/", "https://inside.test/", proxy.URL} {
		if _, refused := errors.AsType[*RefusedError](get(url)); !refused {
			t.Errorf("%s is not refused", url)
		}
	}
	if len(asked) != 0 {
		t.Errorf("the proxy was asked: %v", asked)
	}
}

func FuzzRanges(f *testing.F) {
	f.Add("10.0.0.0/8, fd00::/8", "10.0.0.7")
	f.Add("0.0.0.0/0", "::ffff:127.0.0.1")
	f.Fuzz(func(t *testing.T, text, to string) {
		ranges, err := ParseRanges(text)
		a, bad := netip.ParseAddr(to)
		if bad != nil {
			return
		}
		if err != nil && ranges != nil {
			t.Errorf("%q: %v beside %v", text, ranges, err)
		}
		if (policy{allowed: ranges}).check(to, a) == nil && classOf(plain(a), nil) != open && len(ranges) == 0 {
			t.Errorf("%s is allowed by %q", a, text)
		}
	})
}
