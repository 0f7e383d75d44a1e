package ldap

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/records"
)

// element is one of BER.
func element(tag byte, content ...[]byte) []byte {
	all := bytes.Join(content, nil)
	switch n := len(all); {
	case n < 0x80:
		return append([]byte{tag, byte(n)}, all...)
	case n < 1<<16:
		return append([]byte{tag, 0x82, byte(n >> 8), byte(n)}, all...)
	default:
		return append([]byte{tag, 0x84, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, all...)
	}
}

func text(s string) []byte { return element(4, []byte(s)) }

// message is one of LDAP; its number is that of the request.
func message(number byte, operation []byte) []byte {
	return element(0x30, element(2, []byte{number}), operation)
}

// result is the end of an operation, by its tag.
func result(tag byte, code byte, words string) []byte {
	return element(tag, element(10, []byte{code}), text(""), text(words))
}

const (
	bindResponse = 0x61
	entryFound   = 0x64
	searchDone   = 0x65
	referredTo   = 0x73
)

func entry(dn string, attributes ...[]byte) []byte {
	return element(entryFound, text(dn), element(0x30, attributes...))
}

// liar is a directory that lets everybody in and answers a search as a test says.
func liar(t *testing.T, answer func(w io.Writer, number byte)) *Directory {
	t.Helper()
	return listening(t, func(w io.Writer, number byte, _ *ber.Packet) { answer(w, number) })
}

// listening is a liar that hears what is searched for.
func listening(t *testing.T, answer func(w io.Writer, number byte, search *ber.Packet)) *Directory {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for {
					packet, err := ber.ReadPacket(c)
					if err != nil || len(packet.Children) < 2 {
						return
					}
					number := byte(packet.Children[0].Value.(int64))
					switch packet.Children[1].Tag {
					case 0: // a bind
						_, err = c.Write(message(number, result(bindResponse, 0, "")))
					case 3: // a search
						answer(c, number, packet.Children[1])
					}
					if err != nil {
						return
					}
				}
			}()
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return at("ldap://" + l.Addr().String())
}

// TestLyingDirectory: whatever a directory answers, little of it comes in, and what went wrong is said.
func TestLyingDirectory(t *testing.T) {
	tiny := bytes.Repeat([]byte{4, 0}, 4<<20)             // 8 MiB
	big := message(2, entry("cn=a", element(0x31, tiny))) // the first message is a bind
	nested := []byte{4, 0}
	for range 1000 {
		nested = element(0x30, nested)
	}
	entries := func(w io.Writer, one []byte) {
		for many := bytes.Repeat(one, 1000); ; {
			if _, err := w.Write(many); err != nil {
				return
			}
		}
	}
	for name, tt := range map[string]struct {
		answer func(w io.Writer, number byte)
		want   string
	}{
		"8 MiB of tiny elements": {func(w io.Writer, _ byte) { _, _ = w.Write(big) }, "a message of its answer has 83886"},
		"60 KB of them":          {func(w io.Writer, n byte) { _, _ = w.Write(message(n, entry("cn=a", element(0x31, tiny[:60_000])))) }, "more than 2000 elements"},
		"without end":            {func(w io.Writer, n byte) { entries(w, message(n, entry("cn=a"))) }, "more entries than were asked for"},
		"references without end": {func(w io.Writer, n byte) { entries(w, message(n, element(referredTo, text("ldap://127.0.0.1:1")))) }, "more entries than were asked for"},
		"nested deeply":          {func(w io.Writer, n byte) { _, _ = w.Write(message(n, nested)) }, "nested deeper than 10"},
		"indefinite lengths":     {func(w io.Writer, n byte) { _, _ = w.Write([]byte{0x30, 0x80, 2, 1, n, 0x64, 0x80}) }, "not a message of LDAP"},
		"a length that lies":     {func(w io.Writer, n byte) { _, _ = w.Write([]byte{0x30, 0x84, 0x7f, 0xff, 0xff, 0xff}) }, "has 2147483647 bytes; at most 65536"},
		"a child that lies":      {func(w io.Writer, n byte) { _, _ = w.Write([]byte{0x30, 5, 2, 1, n, 0x64, 9}) }, "not a message of LDAP"},
		"another protocol":       {func(w io.Writer, _ byte) { _, _ = io.WriteString(w, "SSH-2.0-hunter3\r\n") }, "not a message of LDAP"},
		"words of its own":       {func(w io.Writer, n byte) { _, _ = w.Write(message(n, result(searchDone, 1, "hunter3"))) }, "it answers 1 (Operations Error)"},
		"an Active Directory's": {func(w io.Writer, n byte) {
			_, _ = w.Write(message(n, result(searchDone, 1, "hunter3: AcceptSecurityContext error, data 775, v4563")))
		}, "it answers 1 (Operations Error, data 775)"},
		"refers elsewhere": {func(w io.Writer, n byte) { _, _ = w.Write(message(n, result(searchDone, 10, "ldap://127.0.0.1:1"))) }, "it answers 10 (Referral)"},
	} {
		t.Run(name, func(t *testing.T) {
			d := liar(t, tt.answer)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := d.Login(t.Context(), "ann", "hunter2")
			runtime.ReadMemStats(&after)
			away, ok := errors.AsType[*directories.UnavailableError](err)
			if !ok || !strings.Contains(away.Error(), tt.want) || strings.Contains(away.Error(), "hunter") {
				t.Errorf("%v, want %q", err, tt.want)
			}
			if used := (after.TotalAlloc - before.TotalAlloc) >> 20; used > 20 {
				t.Errorf("%d MiB were allocated", used)
			}
		})
	}
}

// TestManyGroups: a person with as many groups as are read fits the bounds.
func TestManyGroups(t *testing.T) {
	var searches atomic.Int32
	d := liar(t, func(w io.Writer, n byte) {
		if searches.Add(1) == 1 {
			_, _ = w.Write(message(n, entry("uid=ann,dc=x", element(0x30, text("uid"), element(0x31, text("ann"))))))
		} else {
			for range directories.MaxRead {
				_, _ = w.Write(message(n, entry("cn="+strings.Repeat("g", 300)+",dc=x")))
			}
		}
		_, _ = w.Write(message(n, result(searchDone, 0, "")))
	})
	d.config.Groups.Base = "dc=x"
	who, err := d.Login(t.Context(), "ann", "hunter2")
	if err != nil || who.Login != "ann" || len(who.Groups) != 1 { // they all have the same name
		t.Errorf("%+v, %v", who, err)
	}
}

// TestMembersAreText: the DN of a person and of a group is text in the filter for their groups, which are rights.
func TestMembersAreText(t *testing.T) {
	for _, dn := range []string{"uid=ann,dc=x", "cn=ann (*),ou=ops,dc=x", "cn=*", "cn=a)(cn=admins", `cn=a\,b,dc=x`} {
		asked := make(chan *ber.Packet, 10)
		searches := 0
		d := listening(t, func(w io.Writer, n byte, search *ber.Packet) {
			asked <- search
			if searches++; searches < 3 { // the person, and the group that has the same name and is in none
				_, _ = w.Write(message(n, entry(dn)))
			}
			_, _ = w.Write(message(n, result(searchDone, 0, "")))
		})
		d.config.Groups.Base, d.config.Groups.Nested = "dc=x", true
		who, err := d.Login(t.Context(), "ann", "hunter2")
		if err != nil || len(asked) != 3 || len(who.Groups) != 1 || who.Groups[0] != directories.GroupOf(records.OpenLDAP, dn) {
			t.Errorf("%s: %+v, %v after %d searches", dn, who, err, len(asked))
			continue
		}
		<-asked
		for range 2 {
			filter := (<-asked).Children[6]
			if len(filter.Children) != 2 || len(filter.Children[1].Children) != 1 {
				t.Errorf("%s: the filter has parts that the name has made", dn)
				continue
			}
			member := filter.Children[1].Children[0]
			if member.Tag != ldap.FilterEqualityMatch || member.Children[1].Data.String() != dn {
				t.Errorf("%s is looked for as %q by a filter of kind %d", dn, member.Children[1].Data, member.Tag)
			}
		}
	}
}

// TestOneAtATime: a search waits for the one before it, and no longer than its time.
func TestOneAtATime(t *testing.T) {
	asked, answer := make(chan struct{}), make(chan struct{})
	var under, most atomic.Int32
	d := liar(t, func(w io.Writer, n byte) {
		if now := under.Add(1); now > most.Load() {
			most.Store(now)
		}
		asked <- struct{}{}
		<-answer
		under.Add(-1)
		_, _ = w.Write(message(n, result(searchDone, 0, "")))
	})
	ended := make(chan error, 2)
	for range 2 {
		go func() { ended <- d.Check(t.Context()) }()
	}
	<-asked
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("it took too long"))
	if _, err := (&conversation{turn: d.turn}).search(ctx, nil); err == nil || err.Error() != "it took too long" {
		t.Errorf("a search out of turn: %v", err)
	}
	answer <- struct{}{}
	<-asked
	answer <- struct{}{}
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if most.Load() != 1 {
		t.Errorf("%d searches at once", most.Load())
	}
}

// TestStartTLSAnswers: what comes before the encryption is the answer, and nothing else.
func TestStartTLSAnswers(t *testing.T) {
	for name, tt := range map[string]struct{ answer, want string }{
		"it refuses":     {string(message(1, result(0x78, 52, "hunter3"))), "it answers 52 (Unavailable)"},
		"and goes on":    {string(message(1, result(0x78, 0, ""))) + string(message(2, entry("cn=a"))), "not a message of LDAP"},
		"it is not LDAP": {"220 hunter3\r\n", "not a message of LDAP"},
	} {
		t.Run(name, func(t *testing.T) {
			l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer l.Close()
			go func() {
				if c, err := l.Accept(); err == nil {
					defer c.Close()
					if _, err := io.ReadFull(c, make([]byte, len(startTLS))); err == nil {
						_, _ = io.WriteString(c, tt.answer)
					}
					_, _ = io.Copy(io.Discard, c)
				}
			}()
			url := "ldap://" + l.Addr().String()
			d := Open(records.OpenLDAP, records.LDAPDirectory{URL: url, StartTLS: true, BindDN: "cn=drover", BindPassword: "hunter2"}, new(outgoing.Outgoing).Configured(url), NewTurn())
			if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "hunter") {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
}

// TestWayToADirectory: a name that leads to loopback is not connected to.
func TestWayToADirectory(t *testing.T) {
	d := liar(t, func(io.Writer, byte) { t.Error("it was asked") })
	d.way = new(outgoing.Outgoing).Configured("ldap://ldap.example")
	if err := d.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "the server does not connect to 127.0.0.1") {
		t.Error(err)
	}
}

// FuzzCount: a message that is let through has no more elements for the library than were counted.
func FuzzCount(f *testing.F) {
	f.Add(message(1, entry("cn=a", element(0x30, text("uid"), element(0x31, text("ann"))))))
	f.Add(message(1, result(bindResponse, 49, "no")))
	f.Add([]byte{0x30, 0x80, 0, 0})
	f.Fuzz(func(t *testing.T, message []byte) {
		n, err := count(message)
		if len(message) == 0 || err != nil {
			return
		}
		if n > maxElements {
			t.Fatalf("%d elements are let through", n)
		}
		from, found := bytes.NewReader(message), 0
		for from.Len() > 0 {
			packet, err := ber.ReadPacket(from)
			if err != nil {
				return
			}
			found += elements(packet, t, 1)
		}
		if found != n {
			t.Fatalf("%d elements were counted, and %d are found", n, found)
		}
	})
}

func elements(p *ber.Packet, t *testing.T, depth int) int {
	if depth > maxDepth+1 {
		t.Fatalf("it is nested %d deep", depth)
	}
	n := 1
	for _, c := range p.Children {
		n += elements(c, t, depth+1)
	}
	return n
}
