package execplugin

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/client"
)

// desk is a server that makes tokens, and a clock.
type desk struct {
	t   *testing.T
	app *App
	out strings.Builder

	mu      sync.Mutex
	now     time.Time
	life    string
	made    []map[string]any
	removed []string
	over    bool // the login is not taken
	gone    bool // the tokens that were made are not there any more
	down    bool
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{t: t, now: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), life: "60"}
	server := httptest.NewTLSServer(d)
	t.Cleanup(server.Close)
	dir := filepath.Join(t.TempDir(), "tokens")
	d.app = &App{
		Client: func() (*client.Client, error) {
			return client.New(client.Config{Server: server.URL, Token: "token-login:secret", CA: string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}))})
		},
		Find: func(_ context.Context, _ *client.Client, name string) (apitypes.Cluster, error) {
			return apitypes.Cluster{ID: "c-m-abcd2345", Name: name}, nil
		},
		Dir: func() (string, error) { return dir, nil }, Usage: fmt.Errorf, Out: &d.out,
		Now: func() time.Time { d.mu.Lock(); defer d.mu.Unlock(); return d.now }, Parent: 1,
	}
	return d
}

// ServeHTTP is the little of the server that the plug-in asks.
func (d *desk) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	d.mu.Lock()
	defer d.mu.Unlock()
	no := func(status int, text string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"status":%d,"code":"X","message":%q}`, status, text)
	}
	switch {
	case d.down:
		no(500, "not now")
	case d.over:
		no(401, "the token has expired")
	case r.URL.Path == "/v3/settings/"+lifeSetting:
		fmt.Fprintf(w, `{"value":%q}`, d.life)
	case r.Method == http.MethodPost && r.URL.Path == "/v3/tokens":
		var asked map[string]any
		if err := json.NewDecoder(r.Body).Decode(&asked); err != nil {
			d.t.Error(err)
		}
		d.made = append(d.made, asked)
		end := ""
		if ttl := asked["ttl"].(float64); ttl > 0 {
			end = d.now.Add(time.Duration(ttl) * time.Millisecond).Format(time.RFC3339)
		}
		fmt.Fprintf(w, `{"name":"token-%d","token":"token-%d:key","expiresAt":%q}`, len(d.made), len(d.made), end)
	case r.Method == http.MethodDelete && strings.HasPrefix(r.URL.Path, "/v3/tokens/"):
		d.removed = append(d.removed, r.URL.Path)
	case d.gone:
		no(404, "there is no such token")
	default:
		fmt.Fprint(w, `{"expired":false,"enabled":true}`)
	}
}

// ask asks for a token as a process, and returns it with when to come back.
func (d *desk) ask(parent int) (token, until string, err error) {
	d.t.Helper()
	d.out.Reset()
	d.app.Parent = parent
	if err := d.app.give(d.t.Context(), "harbour"); err != nil {
		return "", "", err
	}
	var answer struct {
		APIVersion, Kind string
		Status           struct{ Token, ExpirationTimestamp string }
	}
	if err := json.Unmarshal([]byte(d.out.String()), &answer); err != nil || answer.APIVersion != "client.authentication.k8s.io/v1" || answer.Kind != "ExecCredential" {
		d.t.Fatalf("%v: %s", err, d.out.String())
	}
	return answer.Status.Token, answer.Status.ExpirationTimestamp, nil
}

// pass lets time go by.
func (d *desk) pass(by time.Duration) { d.mu.Lock(); d.now = d.now.Add(by); d.mu.Unlock() }

func TestATokenIsKeptUntilShortlyBeforeItsEnd(t *testing.T) {
	d := newDesk(t)
	for _, step := range []struct {
		after  time.Duration
		parent int
		token  string
		until  string
	}{
		{0, 10, "token-1:key", "2026-03-01T12:54:00Z"},
		{53 * time.Minute, 11, "token-1:key", "2026-03-01T12:54:00Z"},
		{61 * time.Second, 12, "token-2:key", "2026-03-01T13:48:01Z"}, // a tenth of an hour before its end
		{time.Minute, 13, "token-2:key", "2026-03-01T13:48:01Z"},
		{100 * time.Hour, 14, "token-3:key", "2026-03-05T17:49:01Z"},
	} {
		d.pass(step.after)
		if token, until, err := d.ask(step.parent); err != nil || token != step.token || until != step.until {
			t.Errorf("process %d got %s until %s (%v), not %s until %s", step.parent, token, until, err, step.token, step.until)
		}
	}
	if asked := d.made[0]; asked["clusterId"] != "c-m-abcd2345" || asked["ttl"] != float64(3600_000) || !strings.Contains(asked["description"].(string), "cluster harbour") {
		t.Errorf("asked for %v", asked)
	}
	dir, _ := d.app.Dir()
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) != 2 {
		t.Fatalf("%v %v, want the token and the lock", files, err)
	}
	for _, file := range append(files, dir) {
		if info, err := os.Stat(file); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v %v", file, info.Mode(), err)
		}
	}
}

func TestATokenThatIsRefusedIsMadeAnew(t *testing.T) {
	for _, test := range []struct {
		name    string
		happens func(*desk)
		parent  int
		token   string
		err     string
	}{
		{name: "another process gets what is kept", happens: func(d *desk) { d.gone = true }, parent: 11, token: "token-1:key"},
		{name: "the same one was refused: the token is gone", happens: func(d *desk) { d.gone = true }, parent: 10, token: "token-2:key"},
		{name: "the same one asks, and the token is there", parent: 10, token: "token-1:key"},
		{name: "the server does not say", happens: func(d *desk) { d.down = true }, parent: 10, token: "token-1:key"},
		{name: "the login is over, too", happens: func(d *desk) { d.over = true }, parent: 10, err: "is over: the token has expired; type: drover login https://"},
	} {
		t.Run(test.name, func(t *testing.T) {
			d := newDesk(t)
			if _, _, err := d.ask(10); err != nil {
				t.Fatal(err)
			}
			if test.happens != nil {
				test.happens(d)
			}
			token, _, err := d.ask(test.parent)
			if token != test.token || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%q %v", token, err)
			}
		})
	}
}

func TestTheLoginIsOver(t *testing.T) {
	d := newDesk(t)
	if _, _, err := d.ask(10); err != nil {
		t.Fatal(err)
	}
	d.over = true
	if token, _, err := d.ask(11); err != nil || token != "token-1:key" {
		t.Errorf("what is kept is good without the login: %s %v", token, err)
	}
	d.pass(time.Hour)
	_, _, err := d.ask(12)
	if err == nil || !strings.HasPrefix(err.Error(), "the login to https://") || !strings.HasSuffix(err.Error(), " --username NAME") {
		t.Errorf("%v", err)
	}
}

func TestLifetimes(t *testing.T) {
	for _, test := range []struct{ life, until, err string }{
		{"43200", "2026-03-31T11:00:00Z", ""}, // thirty days but an hour
		{"0", "", ""},
		{"", "", ""},
		{"soon", "", "is not a number of minutes"},
		{"-5", "", "is not a number of minutes"},
	} {
		d := newDesk(t)
		d.life = test.life
		_, until, err := d.ask(1)
		if until != test.until || (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%q: %s %v", test.life, until, err)
		}
	}
}

func TestWhatIsKeptIsNotTrustedWhen(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"others can read it": func(file string) error { return os.Chmod(file, 0o644) },
		"it is torn":         func(file string) error { return os.Truncate(file, 20) },
		"it is empty":        func(file string) error { return os.Truncate(file, 0) },
		"it is a link": func(file string) error {
			if err := os.Rename(file, file+".other"); err != nil {
				return err
			}
			return os.Symlink(file+".other", file)
		},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			if _, _, err := d.ask(10); err != nil {
				t.Fatal(err)
			}
			dir, _ := d.app.Dir()
			files, _ := filepath.Glob(filepath.Join(dir, "*.json"))
			if err := spoil(files[0]); err != nil {
				t.Fatal(err)
			}
			if token, _, err := d.ask(11); err != nil || token != "token-2:key" {
				t.Errorf("%s %v", token, err)
			}
		})
	}
}

// TestManyAtOnceMakeOneToken, as a script with ten kubectl does.
func TestManyAtOnceMakeOneToken(t *testing.T) {
	d := newDesk(t)
	var all sync.WaitGroup
	for i := range 10 {
		all.Go(func() {
			app := *d.app
			app.Parent, app.Out = 100+i, new(strings.Builder)
			if err := app.give(t.Context(), "harbour"); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if len(d.made) != 1 {
		t.Errorf("%d tokens were made", len(d.made))
	}
}

func TestForget(t *testing.T) {
	d := newDesk(t)
	if _, _, err := d.ask(10); err != nil {
		t.Fatal(err)
	}
	dir, _ := d.app.Dir()
	other := placeOf(dir, "https://other", "harbour", "token-login")
	if err := other.write(kept{Server: "https://other", Login: "token-login", Name: "token-9", Token: "token-9:key"}, d.now); err != nil {
		t.Fatal(err)
	}
	c, _ := d.app.Client()
	if err := Forget(t.Context(), c, dir); err != nil {
		t.Fatal(err)
	}
	if _, still := other.read(); !still || len(d.removed) != 1 || d.removed[0] != "/v3/tokens/token-1" {
		t.Errorf("removed %v; that of another server is there: %v", d.removed, still)
	}
	if token, _, err := d.ask(11); err != nil || token != "token-2:key" {
		t.Errorf("%s %v", token, err)
	}
	d.down = true
	if err := Forget(t.Context(), c, dir); err == nil || !strings.Contains(err.Error(), "end token token-2 of kubectl") {
		t.Errorf("%v", err)
	}
}
