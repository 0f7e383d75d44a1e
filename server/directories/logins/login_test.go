package logins

import (
	"errors"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	ber "github.com/go-asn1-ber/asn1-ber"
	"github.com/go-ldap/ldap/v3"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
	"github.com/drover-project/drover/test/githubstandin"
)

const annsDN, annsPassword = "uid=ann,ou=people,dc=drover,dc=test", "right"

var began = time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)

// newDesk is a desk over a real store.
func newDesk(t *testing.T) *Desk {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	now := func() time.Time { return began }
	a := auth.New(st, now, log)
	d, err := New(Options{
		State: st, Auth: a, People: &people.People{State: st, Auth: a, Now: now, Log: log}, Secret: "shared by all servers", Now: now, Logger: log, Outgoing: &outgoing.Outgoing{},
		Settings: settings.New(st.Settings, func(string) string { return "" }, settings.Defaults{ServerURL: "https://drover.example"}),
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *Desk) configure(t *testing.T, c records.Directory) {
	t.Helper()
	if _, err := d.State.Directories.Create(t.Context(), c.Kind, c); err != nil {
		t.Fatal(err)
	}
}

// answer is a message of LDAP.
func answer(number int64, tag ber.Tag, children ...*ber.Packet) *ber.Packet {
	m := ber.NewSequence("")
	m.AppendChild(ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagInteger, number, ""))
	operation := ber.Encode(ber.ClassApplication, ber.TypeConstructed, tag, nil, "")
	for _, child := range children {
		operation.AppendChild(child)
	}
	m.AppendChild(operation)
	return m
}

func text(s string) *ber.Packet {
	return ber.NewString(ber.ClassUniversal, ber.TypePrimitive, ber.TagOctetString, s, "")
}

func ended(code int64) []*ber.Packet {
	return []*ber.Packet{ber.NewInteger(ber.ClassUniversal, ber.TypePrimitive, ber.TagEnumerated, code, ""), text(""), text("")}
}

// answers are those of a directory in which ann is every person that is looked for.
func answers(request *ber.Packet) []*ber.Packet {
	number, operation := request.Children[0].Value.(int64), request.Children[1]
	switch operation.Tag {
	case ldap.ApplicationBindRequest:
		code := int64(ldap.LDAPResultSuccess)
		if operation.Children[1].Data.String() == annsDN && operation.Children[2].Data.String() != annsPassword {
			code = ldap.LDAPResultInvalidCredentials
		}
		return []*ber.Packet{answer(number, ldap.ApplicationBindResponse, ended(code)...)}
	case ldap.ApplicationSearchRequest:
		values := ber.Encode(ber.ClassUniversal, ber.TypeConstructed, ber.TagSet, nil, "")
		values.AppendChild(text("ann"))
		attribute, attributes := ber.NewSequence(""), ber.NewSequence("")
		attribute.AppendChild(text("uid"))
		attribute.AppendChild(values)
		attributes.AppendChild(attribute)
		return []*ber.Packet{answer(number, ldap.ApplicationSearchResultEntry, text(annsDN), attributes), answer(number, ldap.ApplicationSearchResultDone, ended(ldap.LDAPResultSuccess)...)}
	}
	return nil
}

// openLDAP is a directory in which ann has a password, as it is configured; stop has it answer no more.
func openLDAP(t *testing.T) (c records.Directory, stop func()) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for {
					request, err := ber.ReadPacket(conn)
					if err != nil || len(request.Children) < 2 {
						return
					}
					for _, one := range answers(request) {
						_, _ = conn.Write(one.Bytes())
					}
				}
			}()
		}
	}()
	stop = func() { _ = l.Close(); <-done }
	t.Cleanup(stop)
	return records.Directory{Kind: records.OpenLDAP, Access: records.Unrestricted, LDAP: &records.LDAPDirectory{
		URL: "ldap://" + l.Addr().String(), Plaintext: true, BindDN: "cn=drover,dc=drover,dc=test", BindPassword: "own", Users: records.LDAPUsers{Base: "ou=people,dc=drover,dc=test"},
	}}, stop
}

// TestWrongPasswordsAreCounted by the name and where they come from, and nothing else is: neither a right one, nor a directory that is
// away, nor that too many ask at once.
func TestWrongPasswordsAreCounted(t *testing.T) {
	d := newDesk(t)
	c, stop := openLDAP(t)
	d.configure(t, c)
	login := func(name, password, source string) error {
		_, err := d.Login(t.Context(), records.OpenLDAP, name, password, source)
		return err
	}
	const here, there = "192.0.2.1:1", "192.0.2.2:1"
	for range auth.MaxFailuresOfUser + 1 {
		if err := login("ann", annsPassword, here); err != nil {
			t.Fatalf("the right one: %v", err)
		}
	}
	for range maxAsking {
		d.asking <- struct{}{}
	}
	for range auth.MaxFailuresOfUser + 1 {
		if _, busy := errors.AsType[*auth.BusyError](login("ann", annsPassword, here)); !busy {
			t.Fatal("more ask than may")
		}
	}
	for range maxAsking {
		<-d.asking
	}
	for range auth.MaxFailuresOfUser {
		if err := login("ann", "wrong", here); !errors.Is(err, auth.ErrWrongPassword) {
			t.Fatalf("a wrong one: %v", err)
		}
	}
	for name, err := range map[string]error{"right": login("ann", annsPassword, here), "wrong": login("ANN", "wrong", here)} {
		if _, many := errors.AsType[*auth.TooManyError](err); !many {
			t.Errorf("after too many wrong ones a %s one: %v", name, err)
		}
	}
	if err := login("ann", annsPassword, there); err != nil {
		t.Errorf("from elsewhere: %v", err)
	}
	for range auth.MaxFailuresOfUser {
		if err := login("bob", "", here); !errors.Is(err, auth.ErrWrongPassword) {
			t.Fatalf("an empty one: %v", err)
		}
	}
	if _, many := errors.AsType[*auth.TooManyError](login("bob", annsPassword, here)); !many {
		t.Error("empty ones are not counted")
	}
	stop()
	for range auth.MaxFailuresOfUser + 1 {
		if _, away := errors.AsType[*directories.UnavailableError](login("eve", "wrong", there)); !away {
			t.Fatal("a directory that is away says something of a password")
		}
	}
	if len(d.asking) != 0 {
		t.Errorf("%d turns are not given back", len(d.asking))
	}
	for name, kind := range map[string]string{"one that is not configured": records.ActiveDirectory, "one of browsers": records.GitHub, "none": "x"} {
		if _, err := d.Login(t.Context(), kind, "ann", annsPassword, there); !errors.Is(err, ErrUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := login(strings.Repeat("a", auth.MaxUsername+1), annsPassword, there); !errors.Is(err, auth.ErrWrongPassword) {
		t.Errorf("a name without end: %v", err)
	}
}

// gitHub is a desk with a GitHub.
func gitHub(t *testing.T) (*Desk, *githubstandin.GitHub) {
	t.Helper()
	d := newDesk(t)
	g, stop := githubstandin.Start("https://drover.example"+ReturnPath, githubstandin.Person{ID: 12345, Login: "octo", Orgs: []int64{9}})
	t.Cleanup(stop)
	d.configure(t, records.Directory{Kind: records.GitHub, Access: records.Unrestricted, GitHub: &records.GitHubDirectory{URL: g.URL, CA: g.CA, ClientID: githubstandin.ClientID, ClientSecret: githubstandin.ClientSecret}})
	return d, g
}

// through goes through a browser, up to where the page is.
func through(t *testing.T, d *Desk, g *githubstandin.GitHub) (Arrived, error) {
	t.Helper()
	at, cookie, err := d.SetOut(t.Context(), records.GitHub, Request{To: "/dashboard"})
	if err != nil {
		t.Fatal(err)
	}
	back, err := g.Authorize(at)
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(back)
	if err != nil {
		t.Fatal(err)
	}
	return d.Return(t.Context(), Returned{State: u.Query().Get("state"), Code: u.Query().Get("code"), Cookie: cookie}, "192.0.2.1:1")
}

// TestATokenThatItsGiverRefuses lets no user in, and says so.
func TestATokenThatItsGiverRefuses(t *testing.T) {
	d, g := gitHub(t)
	g.Refuse("its tokens")
	arrived, err := through(t, d, g)
	if denied, ok := errors.AsType[*directories.DeniedError](err); !ok || denied.Reason != "GitHub does not take the token that it gave" || arrived.User != nil || len(d.State.Users.List()) != 0 {
		t.Errorf("%+v, %v", arrived, err)
	}
	g.Refuse("")
	arrived, err = through(t, d, g)
	if err != nil || arrived.At != "/dashboard" || arrived.Kind != records.GitHub || arrived.User == nil || !slices.Equal(arrived.User.Elsewhere, []string{"github_user://12345"}) {
		t.Errorf("%+v, %v", arrived, err)
	}
	if len(d.asking) != 0 {
		t.Errorf("%d turns are not given back", len(d.asking))
	}
}
