// The page, as a browser asks for it.

package apibed

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// Pages are all pages of HarbourToSee.
var Pages = []string{
	"clusters", "clusters/fleet-default/harbour", "clusters/fleet-default/harbour/join", "machines", "machines/fleet-default/custom-0f31c2aa9d10",
	TerminalOfHarbour, "operations/op-abcdefgh", "fleets", "versions", "roles", "bindings", "servers", "new", "clusters/fleet-default/harbour/change", "do/pause/fleet-default/harbour", "do/upgrade/fleet-default/harbour",
	"do/restore/fleet-default/harbour", "do/remove-machine/fleet-default/custom-0f31c2aa9d10", "do/new-user", "do/give-role", "do/new-token", "do/set-setting/ui-brand", "tokens", "users", "settings", "audit", "password", "login", "nothing",
}

// Look asks for a page as a browser does, with the token of a session in a cookie.
func (b *Bed) Look(path, token string) Result {
	b.T.Helper()
	header := []string{"Accept", "text/html,application/xhtml+xml,*/*;q=0.8", "User-Agent", "Mozilla/5.0"}
	if token != "" {
		header = append(header, "Cookie", auth.SessionCookie+"="+token)
	}
	return b.Request("GET", "/dashboard/"+path, "", "", header...)
}

// Send posts a form as a browser does.
func (b *Bed) Send(path, token string, form url.Values, header ...string) Result {
	b.T.Helper()
	if token != "" {
		header = append(header, "Cookie", auth.SessionCookie+"="+token+"; "+auth.ForgeryCookie+"="+b.FormToken(token))
	}
	return b.Request("POST", "/dashboard/"+path, "", form.Encode(), append(header, "Content-Type", "application/x-www-form-urlencoded", "User-Agent", "Mozilla/5.0")...)
}

// FormToken proves that a form is of a page of a session.
func (b *Bed) FormToken(token string) string {
	r := httptest.NewRequest("GET", "/", nil)
	r.AddCookie(&http.Cookie{Name: auth.SessionCookie, Value: token})
	return auth.FormToken(r)
}

// HarbourToSee is a cluster with something on all of its pages.
func HarbourToSee(b *Bed) {
	_, machines := Harbour(b)
	b.AddOperation("op-abcdefgh", func(o *operations.Operation) {
		o.Tasks = []operations.Task{{ID: "custom-0f31c2aa9d10", Title: "Upgrade pier-1", State: operations.TaskRunning, Host: "pier-1", Progress: "waiting for probes", Started: Start}}
		o.Log = []operations.Line{{At: Start, Text: "began"}}
	})
	plan := `{"files":[{"path":"/etc/rancher/k3s/config.yaml.d/50-rancher.yaml","content":"` + base64.StdEncoding.EncodeToString([]byte(`{"token": "hunter2-token", "node-name": "pier-1"}`)) + `"}],"instructions":[{"name":"install"}]}`
	secret := records.PlanSecret{Object: records.Object{Namespace: "fleet-default", Name: machines[0].PlanSecretName()}, Data: map[string][]byte{plans.KeyPlan: []byte(plan)}}
	if _, err := b.State.PlanSecrets.Create(b.T.Context(), secret.Key(), secret); err != nil {
		b.T.Fatal(err)
	}
}

// Tidy holds what all pages have: one heading, one main, a title, no inline script or style, and no id twice.
func (b *Bed) Tidy(path, text string) {
	b.T.Helper()
	count, ids := map[string]int{}, map[string]bool{}
	for z := html.NewTokenizer(strings.NewReader(text)); ; {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		if kind != html.StartTagToken && kind != html.SelfClosingTagToken {
			continue
		}
		token := z.Token()
		count[token.Data]++
		for _, a := range token.Attr {
			if a.Key == "style" || strings.HasPrefix(a.Key, "on") {
				b.T.Errorf("%s: %s has the attribute %s=%q", path, token.Data, a.Key, a.Val)
			}
			if a.Key == "id" {
				if ids[a.Val] {
					b.T.Errorf("%s has the id %s twice", path, a.Val)
				}
				ids[a.Val] = true
			}
		}
		if token.Data == "script" && !strings.Contains(token.String(), "src=") || token.Data == "style" {
			b.T.Errorf("%s has an inline %s", path, token.Data)
		}
	}
	if scripts := strings.Count(text, "<script"); scripts != 1 && !(scripts == 2 && strings.Contains(text, "terminal.js")) {
		b.T.Errorf("%s has %d scripts", path, scripts)
	}
	for _, one := range []string{"h1", "main", "title"} {
		if count[one] != 1 {
			b.T.Errorf("%s has %d of %s", path, count[one], one)
		}
	}
}

// Stream reads the stream of a page over a real connection.
type Stream struct {
	t      testing.TB
	Events chan [2]string
	body   io.Closer
}

// Serve serves the bed over TLS until the test ends.
func (b *Bed) Serve() *httptest.Server {
	b.T.Helper()
	s := httptest.NewUnstartedServer(b.Handler)
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	b.T.Cleanup(s.Close)
	return s
}

// Follow opens the stream of a page, as the user of a session.
func (b *Bed) Follow(s *httptest.Server, path, token string) *Stream {
	b.T.Helper()
	r, err := http.NewRequestWithContext(b.T.Context(), "GET", s.URL+"/dashboard/"+path, nil)
	if err != nil {
		b.T.Fatal(err)
	}
	r.Header.Set("Accept", "text/event-stream")
	r.AddCookie(&http.Cookie{Name: auth.SessionCookie, Value: token, Secure: true, HttpOnly: true})
	answer, err := s.Client().Do(r)
	if err != nil {
		b.T.Fatal(err)
	}
	f := &Stream{t: b.T, Events: make(chan [2]string, 1000), body: answer.Body}
	b.T.Cleanup(func() { _ = answer.Body.Close() })
	if kind := answer.Header.Get("Content-Type"); kind != "text/event-stream" {
		b.T.Fatalf("%s is %s, status %d", path, kind, answer.StatusCode)
	}
	go func() {
		defer close(f.Events)
		var name string
		var data []string
		for lines := bufio.NewReader(answer.Body); ; {
			line, err := lines.ReadString('\n')
			if err != nil {
				return
			}
			switch line = strings.TrimRight(line, "\n"); {
			case line == "":
				if name != "" && name != "beat" {
					f.Events <- [2]string{name, strings.Join(data, "\n")}
				}
				name, data = "", nil
			case strings.HasPrefix(line, "event: "):
				name = line[7:]
			case strings.HasPrefix(line, "data:"):
				data = append(data, strings.TrimPrefix(line[5:], " "))
			}
		}
	}()
	return f
}

// Next is the next event, which has to come soon.
func (f *Stream) Next(name string) string {
	f.t.Helper()
	select {
	case e, open := <-f.Events:
		if !open || e[0] != name {
			f.t.Fatalf("event %q %q (open %v), want %s", e[0], e[1], open, name)
		}
		return e[1]
	case <-time.After(20 * time.Second):
		f.t.Fatalf("no event %s came", name)
	}
	return ""
}

// None holds that nothing is sent for a while in which it would have been.
func (f *Stream) None() {
	f.t.Helper()
	select {
	case e := <-f.Events:
		f.t.Fatalf("event %q %.200q", e[0], e[1])
	case <-time.After(700 * time.Millisecond):
	}
}

// Hidden are the hidden fields of the form on a page that does something.
func (b *Bed) Hidden(page string) url.Values {
	b.T.Helper()
	_, form, ok := strings.Cut(page, `method="post" action="/dashboard/do/`)
	if !ok {
		b.T.Fatalf("there is no form on the page: %s", page)
	}
	form, _, _ = strings.Cut(form, "</form>")
	given := url.Values{}
	for _, m := range regexp.MustCompile(`<input type="hidden" name="([^"]*)" value="([^"]*)">`).FindAllStringSubmatch(form, -1) {
		given.Set(m[1], html.UnescapeString(m[2]))
	}
	if len(given.Get("key")) != 32 {
		b.T.Fatalf("the form has no key: %s", form)
	}
	return given
}

// Post sends a form of a page, with what proves that it is of one.
func (b *Bed) Post(path, token string, form url.Values) Result {
	b.T.Helper()
	return b.Send(path+"?CSRF="+b.FormToken(token), token, form)
}

// Do looks at the page of an action and sends its form.
func (b *Bed) Do(path, token string, fields url.Values) Result {
	b.T.Helper()
	ask := path
	if len(fields) > 0 {
		ask += "?" + fields.Encode()
	}
	r := b.Look("do/"+ask, token)
	if r.Status != http.StatusOK {
		return r
	}
	given := b.Hidden(string(r.Raw))
	maps.Copy(given, fields)
	return b.Post("do/"+path, token, given)
}

// Until reads a stream up to a picture that holds a text, and returns all pictures up to then.
func (f *Stream) Until(text string) []string {
	f.t.Helper()
	var all []string
	for {
		all = append(all, f.Next("main"))
		if strings.Contains(all[len(all)-1], text) {
			return all
		}
	}
}

// Alter changes what the state has.
func Alter[T, D any](b *Bed, key string, modify func(context.Context, string, func(T) (T, error)) (D, error), shape func(*T)) {
	b.T.Helper()
	if _, err := modify(b.T.Context(), key, func(v T) (T, error) { shape(&v); return v, nil }); err != nil {
		b.T.Fatal(err)
	}
}

// TerminalOfHarbour is the page with a terminal in the cluster harbour.
const TerminalOfHarbour = "clusters/fleet-default/harbour/terminal"
