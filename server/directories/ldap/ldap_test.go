package ldap

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-ldap/ldap/v3"

	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/records"
)

// What a real directory does, test/directories has.

func at(url string) *Directory {
	return Open(records.OpenLDAP, records.LDAPDirectory{URL: url, Plaintext: true, BindDN: "cn=drover", BindPassword: "hunter2", Users: records.LDAPUsers{Base: "dc=x"}}, new(outgoing.Outgoing).Configured(url), NewTurn())
}

// TestNamesAreText: what a user types as a name matches itself alone.
func TestNamesAreText(t *testing.T) {
	d := at("ldap://x")
	for _, name := range []string{"*", "ann)(uid=*", `ann\`, "ann\x00", "(|(uid=*))", "änn"} {
		filter := d.byLogin(name)
		packet, err := ldap.CompileFilter(filter)
		if err != nil {
			t.Errorf("%q: %v", name, err)
			continue
		}
		back, err := ldap.DecompileFilter(packet)
		if err != nil || len(packet.Children) != 2 || len(packet.Children[1].Children) != 2 {
			t.Errorf("%q becomes %s", name, back)
			continue
		}
		if value := packet.Children[1].Children[1].Data.String(); value != name {
			t.Errorf("%q is looked for as %q", name, value)
		}
	}
}

// TestEmptyPassword: a directory would take it for an anonymous bind, and say yes.
func TestEmptyPassword(t *testing.T) {
	if _, err := at("ldap://127.0.0.1:1").Login(t.Context(), "ann", ""); !errors.Is(err, directories.ErrWrongPassword) {
		t.Errorf("%v", err)
	}
}

// TestSearchedNamesAreText: what a user types is the beginning of a name, and nothing else of the filter.
func TestSearchedNamesAreText(t *testing.T) {
	d := at("ldap://x")
	for _, text := range []string{"an", "*", "ann)(uid=*", `ann\`, "(|(uid=*))", "änn"} {
		packet, err := ldap.CompileFilter(d.beginning(text))
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		either := packet.Children[1].Children
		if len(packet.Children) != 2 || len(either) != 2 {
			t.Errorf("%q becomes %s", text, d.beginning(text))
			continue
		}
		for _, one := range either {
			parts := one.Children[1].Children
			if value := parts[0].Data.String(); len(parts) != 1 || parts[0].Tag != ldap.FilterSubstringsInitial || value != text {
				t.Errorf("%q is looked for as %q in %d parts", text, value, len(parts))
			}
		}
	}
}

func TestAway(t *testing.T) {
	if err := at("ldap://127.0.0.1:1").Check(t.Context()); err == nil || !strings.Contains(err.Error(), "connection refused") || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("down: %v", err)
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	err = at("ldap://" + silent.Addr().String()).Check(ctx)
	away, ok := errors.AsType[*directories.UnavailableError](err)
	if !ok || !errors.Is(away, context.DeadlineExceeded) || !strings.Contains(away.Error(), "no answer within 10 s") || time.Since(began) > 5*time.Second {
		t.Errorf("slow, after %s: %v", time.Since(began), err)
	}
}
