package people_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/test/apibed"
	"github.com/drover-project/drover/test/githubstandin"
)

const verifier = "a verifier that only the command line knows, of fifty bytes"

// outsiders is a bench with a GitHub whose people log in.
func outsiders(t *testing.T, more string) (*apibed.Bed, *githubstandin.GitHub) {
	t.Helper()
	b := apibed.New(t)
	apibed.Administrated(b)
	g, stop := githubstandin.Start("https://drover.example/verify-auth", githubstandin.Person{ID: 12345, Login: "octo", Name: "Octo Cat", Orgs: []int64{9}})
	t.Cleanup(stop)
	b.Configure(g, more)
	return b, g
}

const githubPath = "/v3-public/githubProviders/github"

// journey is a login through a browser up to where it comes back to the server.
func journey(b *apibed.Bed, g *githubstandin.GitHub) (back, cookie string) {
	b.T.Helper()
	begin := url.Values{"port": {"40000"}, "challenge": {directories.Digest(verifier)}, "answer": {"mine"}}
	r := b.Request("GET", githubPath+"/begin?"+begin.Encode(), "", "")
	if r.Status != http.StatusFound || !strings.HasPrefix(r.Header.Get("Location"), g.URL+"/login/oauth/authorize?") {
		b.T.Fatalf("begin: %d %s %s", r.Status, r.Header.Get("Location"), r.Raw)
	}
	set := r.Header.Get("Set-Cookie")
	for _, part := range []string{"R_OIDC_ID=", "Path=/verify-auth", "HttpOnly", "Secure", "SameSite=Lax"} {
		if !strings.Contains(set, part) {
			b.T.Errorf("cookie %q has no %s", set, part)
		}
	}
	cookie, _, _ = strings.Cut(set, ";")
	at, err := g.Authorize(r.Header.Get("Location"))
	if err != nil {
		b.T.Fatal(err)
	}
	return strings.TrimPrefix(at, "https://drover.example"), cookie
}

// arrive is where the browser ends: at the command line, with its parameters.
func arrive(b *apibed.Bed, g *githubstandin.GitHub) url.Values {
	b.T.Helper()
	back, cookie := journey(b, g)
	r := b.Request("GET", back, "", "", "Cookie", cookie)
	end, err := url.Parse(r.Header.Get("Location"))
	if r.Status != http.StatusFound || err != nil || end.Scheme+"://"+end.Host+end.Path != "http://127.0.0.1:40000/" || end.Query().Get("answer") != "mine" {
		b.T.Fatalf("return: %d %s %s", r.Status, r.Header.Get("Location"), r.Raw)
	}
	return end.Query()
}

func collect(b *apibed.Bed, code, verifier string) apibed.Result {
	b.T.Helper()
	return b.Request("POST", githubPath+"?action=login", "", fmt.Sprintf(`{"code":%q,"verifier":%q}`, code, verifier))
}

// enter logs in through a browser.
func enter(b *apibed.Bed, g *githubstandin.GitHub) (userID, token string) {
	b.T.Helper()
	r := collect(b, arrive(b, g).Get("code"), verifier)
	if r.Status != http.StatusCreated {
		b.T.Fatalf("login: %d %s", r.Status, r.Raw)
	}
	return r.Text("userId"), r.Text("token")
}

func TestLoginThroughABrowser(t *testing.T) {
	b, g := outsiders(t, "")
	apibed.Harbour(b)
	b.Bind("clusterroletemplatebindings", `{"clusterId":"c-m-h4rb0r55","roleTemplateId":"cluster-member","groupPrincipalId":"github_org://9"}`)
	code := arrive(b, g).Get("code")
	for name, r := range map[string]apibed.Result{"another verifier": collect(b, code, verifier+"x"), "another code": collect(b, code+"x", verifier), "no code": collect(b, "-", verifier)} {
		if r.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d %s", name, r.Status, r.Raw)
		}
	}
	r := collect(b, code, verifier)
	if r.Status != http.StatusCreated || r.Text("authProvider") != "github" || r.Text("userId") != "u-ffq6mgr5je" {
		t.Fatalf("login: %d %s", r.Status, r.Raw)
	}
	octo := r.Text("token")
	me := b.Request("GET", "/v1-drover/whoami", octo, "")
	for _, part := range []string{`"username":"octo"`, `"name":"Octo Cat"`, `"principals":["github_user://12345"]`, `"groups":["github_org://9"]`, `"role":"user"`, `"role":"cluster-member"`} {
		if !strings.Contains(string(me.Raw), part) {
			t.Errorf("whoami has no %s: %s", part, me.Raw)
		}
	}
	if r := b.Request("GET", "/v3/clusters/c-m-h4rb0r55", octo, ""); r.Status != http.StatusOK {
		t.Errorf("the role of the group: %d", r.Status)
	}
	if r := b.Request("GET", "/v3/principals/github_user:%2F%2F12345", octo, ""); r.Text("provider") != "github" || r.Text("loginName") != "octo" {
		t.Errorf("principal: %s", r.Raw)
	}
	if id, _ := enter(b, g); id != "u-ffq6mgr5je" || len(b.State.Users.List()) != 3 {
		t.Errorf("the second login is of %s, with %d users", id, len(b.State.Users.List()))
	}

	// Out of the organization, and what it gave is gone; then the token that GitHub gave is.
	g.Is(githubstandin.Person{ID: 12345, Login: "octo"})
	b.Want(http.StatusOK, "POST", "/v3/users/u-ffq6mgr5je?action=refreshauthprovideraccess", "")
	if r := b.Request("GET", "/v3/clusters/c-m-h4rb0r55", octo, ""); r.Status != http.StatusNotFound {
		t.Errorf("the role of a group that they left: %d", r.Status)
	}
	own := b.Token("u-ffq6mgr5je", records.Token{})
	g.Revoke()
	b.Want(http.StatusOK, "POST", "/v3/users/u-ffq6mgr5je?action=refreshauthprovideraccess", "")
	if r := b.Request("GET", "/v3", octo, ""); r.Status != http.StatusUnauthorized {
		t.Errorf("the session, once GitHub tells nothing more: %d", r.Status)
	}
	if r := b.Request("GET", "/v3", own, ""); r.Status != http.StatusOK {
		t.Errorf("their own token: %d", r.Status)
	}
	if r := b.Request("POST", "/v3/users/u-ffq6mgr5je?action=refreshauthprovideraccess", b.Admin, ""); r.Status != 422 || !strings.Contains(r.Text("message"), "no directory can be asked") {
		t.Errorf("once more: %d %s", r.Status, r.Raw)
	}
}

func TestBadJourneys(t *testing.T) {
	b, g := outsiders(t, "")
	good := url.Values{"port": {"40000"}, "challenge": {directories.Digest(verifier)}, "answer": {"mine"}}
	for _, c := range []struct{ name, value string }{
		{"port", "evil.example"}, {"port", "80"}, {"port", "70000"}, {"port", "40000@evil.example"}, {"challenge", "x"}, {"answer", ""}, {"answer", strings.Repeat("x", 300)},
	} {
		q := url.Values{"port": good["port"], "challenge": good["challenge"], "answer": good["answer"]}
		q.Set(c.name, c.value)
		if r := b.Request("GET", githubPath+"/begin?"+q.Encode(), "", ""); r.Status != 422 || r.Header.Get("Location") != "" || !strings.Contains(r.Text("message"), c.name) {
			t.Errorf("%s=%.20s: %d %s", c.name, c.value, r.Status, r.Raw)
		}
	}
	back, cookie := journey(b, g)
	_, other := journey(b, g)
	for name, r := range map[string]apibed.Result{
		"no cookie":      b.Request("GET", back, "", ""),
		"another's":      b.Request("GET", back, "", "", "Cookie", other),
		"changed state":  b.Request("GET", strings.Replace(back, "state=", "state=x", 1), "", "", "Cookie", cookie),
		"no state":       b.Request("GET", "/verify-auth?code=x", "", "", "Cookie", cookie),
		"markup as code": b.Request("GET", "/verify-auth?code=%3Cscript%3E&state=%3Cscript%3E", "", "", "Cookie", cookie),
	} {
		if r.Status != 422 || r.Header.Get("Location") != "" || !strings.Contains(string(r.Raw), "You are not logged in") || strings.Contains(string(r.Raw), "<script>") {
			t.Errorf("%s: %d %s", name, r.Status, r.Raw)
		}
	}
	// An error after that goes to the command line, which waits.
	told := func(back string) string {
		r := b.Request("GET", back, "", "", "Cookie", cookie)
		u, _ := url.Parse(r.Header.Get("Location"))
		if r.Status != http.StatusFound || u.Host != "127.0.0.1:40000" || u.Query().Get("code") != "" {
			t.Errorf("%d %s", r.Status, r.Raw)
		}
		return u.Query().Get("error")
	}
	state := back[strings.Index(back, "state="):]
	if got := told("/verify-auth?error=access_denied&" + state); !strings.Contains(got, `refuses the login: "access_denied"`) {
		t.Errorf("refused: %s", got)
	}
	b.Configure(g, "enabled: false\n")
	if got := told(back); !strings.Contains(got, "there is no such directory, or it is disabled") {
		t.Errorf("a directory that was disabled meanwhile: %s", got)
	}
	b.Configure(g, "")
	g.Refuse("fail")
	if got := told(back); !strings.Contains(got, "does not answer as it has to: try again later") || strings.Contains(got, g.URL) {
		t.Errorf("a directory that fails: %s", got)
	}
	g.Refuse("")
	b.Pass(11 * time.Minute)
	if r := b.Request("GET", back, "", "", "Cookie", cookie); r.Status != 422 || !strings.Contains(string(r.Raw), "its time is over") {
		t.Errorf("late: %d %s", r.Status, r.Raw)
	}
	if len(b.State.Users.List()) != 2 {
		t.Error("somebody was made")
	}
	b.Want(http.StatusOK, "PUT", "/v3/settings/server-url", `{"value":""}`)
}

func TestWhoIsLetIn(t *testing.T) {
	b, g := outsiders(t, "")
	apibed.Harbour(b)
	refused := func(name, want string) {
		t.Helper()
		if got := arrive(b, g).Get("error"); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	b.Configure(g, "access: required\nallowed: ['github_org://8']\n")
	refused("nobody's list", "the access of the directory github is required, and github_user://12345 is neither in its list")
	b.Configure(g, "access: required\nallowed: ['github_org://9']\n")
	id, session := enter(b, g)
	b.Configure(g, "access: restricted\n")
	refused("no member", "nor has a role in a cluster or a project")
	// Who is not let in any more loses all tokens with the next look.
	b.Want(http.StatusOK, "POST", "/v3/users/"+id+"?action=refreshauthprovideraccess", "")
	if r := b.Request("GET", "/v3", session, ""); r.Status != http.StatusUnauthorized {
		t.Errorf("the session of somebody who is not let in: %d", r.Status)
	}
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":"c-m-h4rb0r55","roleTemplateId":"cluster-member","userId":%q}`, id))
	_, session = enter(b, g)
	b.Want(http.StatusOK, "PUT", "/v3/users/"+id, `{"enabled":false}`)
	refused("disabled", "this user is disabled")
	b.Want(http.StatusOK, "PUT", "/v3/users/"+id, `{"enabled":true}`)
	if r := b.Request("GET", "/v3", session, ""); r.Status != http.StatusUnauthorized {
		t.Errorf("the session of before: %d", r.Status)
	}

	// A user of this server who is linked logs in as who they are; no principal is two users'.
	b.Want(http.StatusOK, "PUT", "/v3/users/"+id, `{"principalIds":[]}`)
	b.Want(http.StatusOK, "PUT", "/v3/users/u-bob", `{"principalIds":["local://u-bob","github_user://12345"]}`)
	if r := b.Request("PUT", "/v3/users/"+id, b.Admin, `{"principalIds":["github_user://12345"]}`); r.Status != 422 || r.Text("code") != "NotUnique" {
		t.Errorf("a principal twice: %d %s", r.Status, r.Raw)
	}
	for _, bad := range []string{`["local://user-admin"]`, `["github_org://9"]`, `["x"]`, `"x"`} {
		if r := b.Request("PUT", "/v3/users/u-bob", b.Admin, `{"principalIds":`+bad+`}`); r.Status != 422 {
			t.Errorf("%s: %d %s", bad, r.Status, r.Raw)
		}
	}
	b.Configure(g, "")
	if id, _ := enter(b, g); id != "u-bob" {
		t.Errorf("the linked user is %s", id)
	}
	// What may not be given away by a link is more than they have.
	_, mia := b.Person("mia", "users-manage")
	if r := b.Request("PUT", "/v3/users/user-admin", mia, `{"principalIds":["github_user://666"]}`); r.Status != http.StatusForbidden {
		t.Errorf("mia links the administrator: %d %s", r.Status, r.Raw)
	}
}

// TestSearchOfDirectories: a group that a user came with can be found and given a role by a person who knows nothing of it but its
// name, and who looks at members finds it by its principal.
func TestSearchOfDirectories(t *testing.T) {
	b, g := outsiders(t, "")
	apibed.Harbour(b)
	enter(b, g)
	search := func(body string) []string {
		t.Helper()
		var ids []string
		for _, one := range b.Want(http.StatusOK, "POST", "/v3/principals?action=search", body).Data() {
			ids = append(ids, fmt.Sprint(one["id"], " ", one["principalType"], " ", one["provider"]))
		}
		return ids
	}
	if got := search(`{"name":"9"}`); len(got) != 1 || got[0] != "github_org://9 group github" {
		t.Errorf("a group: %q", got)
	}
	if got := search(`{"name":"9","principalType":"user"}`); len(got) != 0 {
		t.Errorf("people of a group's name: %q", got)
	}
	if got := search(`{"name":"Octo"}`); len(got) != 1 || !strings.HasPrefix(got[0], "local://u-") {
		t.Errorf("somebody who is here already: %q", got)
	}
	if r := b.Request("POST", "/v3/principals?action=search", b.Admin, `{"name":"9","principalType":"robot"}`); r.Status != 422 || r.Body["fieldName"] != "principalType" {
		t.Errorf("another type: %d %s", r.Status, r.Raw)
	}
	at := "/v3/principals/" + url.PathEscape("github_org://9")
	if r := b.Request("GET", at, b.Admin, ""); r.Status != 404 {
		t.Errorf("a group without a role: %d", r.Status)
	}
	b.Bind("clusterroletemplatebindings", `{"clusterId":"c-m-h4rb0r55","roleTemplateId":"cluster-member","groupPrincipalId":"github_org://9"}`)
	if r := b.Want(http.StatusOK, "GET", at, ""); r.Text("name") != "9" || r.Text("principalType") != "group" || r.Body["memberOf"] != false {
		t.Errorf("a group that has a role: %s", r.Raw)
	}
	_, low := b.Person("low", "user-base")
	if r := b.Request("GET", at, low, ""); r.Status != 404 {
		t.Errorf("to somebody who sees no principals: %d", r.Status)
	}
}

func TestDirectoriesAreConfigured(t *testing.T) {
	b, g := outsiders(t, "displayName: Our GitHub\n")
	id, session := enter(b, g)
	_ = id
	for _, target := range []string{"/v1-drover/directories", "/v1-drover/directories/github", "/v3/authConfigs", "/v3/authConfigs/github"} {
		r := b.Get(target)
		if r.Status != http.StatusOK || strings.Contains(string(r.Raw), githubstandin.ClientSecret) || !strings.Contains(string(r.Raw), "Our GitHub") {
			t.Errorf("%s: %d %s", target, r.Status, r.Raw)
		}
		if r := b.Request("GET", target, b.User, ""); r.Status == http.StatusOK && strings.Contains(string(r.Raw), "github") {
			t.Errorf("bob reads %s: %s", target, r.Raw)
		}
	}
	if strings.Contains(b.Logs.String(), githubstandin.ClientSecret) {
		t.Error("the log has the client's secret")
	}
	if r := b.Get("/v3/authConfigs/openldap"); r.Body["enabled"] != false {
		t.Errorf("one that is not configured: %s", r.Raw)
	}
	for _, c := range []struct{ method, target, body string }{
		{"POST", "/v1-drover/directories/set", "kind: github"}, {"POST", "/v1-drover/directories/github/remove", ""}, {"POST", "/v1-drover/directories/github/test", "{}"},
	} {
		if r := b.Request(c.method, c.target, b.User, c.body); r.Status != http.StatusForbidden && r.Status != http.StatusNotFound {
			t.Errorf("bob: %s %s: %d", c.method, c.target, r.Status)
		}
	}
	if r := b.Request("POST", "/v1-drover/directories/set", b.Admin, "kind: github\ngithub: {clientID: a, clientSecret: hunter2, ca: hunter2}\n"); r.Status != 422 || !strings.Contains(r.Text("message"), "github.ca: is not a certificate in PEM") || strings.Contains(string(r.Raw), "hunter2") {
		t.Errorf("a bad document: %d %s", r.Status, r.Raw)
	}
	b.Want(http.StatusOK, "POST", "/v1-drover/directories/github/test", "{}")
	if r := b.Request("POST", "/v1-drover/directories/github/test", b.Admin, `{"username":"a","password":"b"}`); r.Status != 422 {
		t.Errorf("a password for a browser's directory: %d %s", r.Status, r.Raw)
	}
	g.Refuse("fail")
	if r := b.Request("POST", "/v1-drover/directories/github/test", b.Admin, "{}"); r.Status != http.StatusServiceUnavailable || !strings.Contains(r.Text("message"), "it answers 502") {
		t.Errorf("a directory that fails: %d %s", r.Status, r.Raw)
	}
	g.Refuse("")
	public := b.Request("GET", "/v3-public/authProviders", "", "")
	for _, part := range []string{`"id":"local"`, `"id":"github"`, `"type":"githubProvider"`, githubPath + `?action=login"`, `"redirectUrl":"https://drover.example` + githubPath + `/begin"`} {
		if !strings.Contains(string(public.Raw), part) {
			t.Errorf("no %s in %s", part, public.Raw)
		}
	}
	if r := b.Request("GET", "/v1-public/authproviders", "", ""); !strings.Contains(string(r.Raw), `{"id":"github","type":"githubProvider"}`) {
		t.Errorf("plain providers: %s", r.Raw)
	}

	// Without it no user has anything by it, and the administrator's password still works.
	b.Want(http.StatusNoContent, "POST", "/v1-drover/directories/github/remove", "")
	if r := b.Request("GET", "/v3", session, ""); r.Status != http.StatusUnauthorized {
		t.Errorf("a session of a directory that is gone: %d", r.Status)
	}
	if u, _ := b.State.Users.Get("u-ffq6mgr5je"); len(u.Value.Groups) != 0 || u.Value.ID == "" {
		t.Errorf("the user: %+v", u.Value)
	}
	for _, target := range []string{githubPath, githubPath + "/begin?port=40000"} {
		if r := b.Request("GET", target, "", ""); r.Status != http.StatusNotFound {
			t.Errorf("%s: %d", target, r.Status)
		}
	}
	if r := collect(b, "x", "y"); r.Status != http.StatusNotFound {
		t.Errorf("a login by what is gone: %d", r.Status)
	}
	b.Give("user-admin", "correct horse")
	if r := b.Request("POST", apibed.LoginTarget, "", `{"username":"admin","password":"correct horse"}`); r.Status != http.StatusCreated {
		t.Errorf("the administrator: %d %s", r.Status, r.Raw)
	}
}

// TestOutsideAdministratorsAreNotTheLast: a directory may be away, so an administrator with a password stays.
func TestOutsideAdministratorsAreNotTheLast(t *testing.T) {
	b, g := outsiders(t, "")
	id, token := enter(b, g)
	b.Bind("globalrolebindings", fmt.Sprintf(`{"globalRoleId":"admin","userId":%q}`, id))
	if r := b.Request("DELETE", "/v3/users/user-admin", token, ""); r.Status != 422 || !strings.Contains(r.Text("message"), "no one would be left") {
		t.Errorf("the last administrator with a password: %d %s", r.Status, r.Raw)
	}
}

// TestADirectoryThatHangs takes connections and never answers: thirty-two logins wait for it, the next one is refused for now,
// and who has a password here gets in meanwhile.
func TestADirectoryThatHangs(t *testing.T) {
	const waiting = 32
	b := apibed.New(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	asked, held := make(chan struct{}, 2*waiting), make(chan net.Conn, 2*waiting)
	go func() {
		for {
			conn, err := silent.Accept()
			if err != nil {
				close(held)
				return
			}
			held <- conn
			asked <- struct{}{}
		}
	}()
	t.Cleanup(func() {
		_ = silent.Close()
		for conn := range held {
			_ = conn.Close()
		}
	})
	b.Want(http.StatusOK, "POST", "/v1-drover/directories/set",
		"kind: openldap\nldap: {url: 'ldap://"+silent.Addr().String()+"', plaintext: true, bindDN: cn=drover, bindPassword: hunter2, users: {base: dc=x}}\n")
	b.Want(http.StatusCreated, "POST", "/v3/users", `{"username":"anna","password":"correct horse anna","mustChangePassword":false}`)

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	login := func(ctx context.Context, i int) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(ctx, "POST", "/v3-public/openLdapProviders/openldap?action=login", strings.NewReader(fmt.Sprintf(`{"username":"ann%d","password":"correct horse"}`, i)))
		r.Host, r.TLS, r.RemoteAddr = "drover.example", &tls.ConnectionState{}, fmt.Sprintf("192.0.2.%d:4711", i)
		w := httptest.NewRecorder()
		b.Handler.ServeHTTP(w, r)
		return w
	}
	hears := func(what string) {
		t.Helper()
		select {
		case <-asked:
		case <-time.After(20 * time.Second):
			t.Fatalf("the directory does not hear of %s", what)
		}
	}
	var logins sync.WaitGroup
	defer logins.Wait()
	defer cancel()
	for i := range waiting {
		logins.Go(func() { login(ctx, i+1) })
	}
	for range waiting {
		hears("all who wait")
	}
	if w := login(t.Context(), waiting+1); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "too many logins at once: wait a moment and try again") || w.Header().Get("Retry-After") == "" {
		t.Errorf("one more: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if r := b.Request("POST", apibed.LoginTarget, "", `{"username":"anna","password":"correct horse anna"}`); r.Status != http.StatusCreated {
		t.Errorf("a login by a password of this server: %d %s", r.Status, r.Raw)
	}
	if len(asked) > 0 {
		t.Error("the directory was asked about more people")
	}
	cancel()
	logins.Wait()
	again, end := context.WithCancel(t.Context())
	defer end()
	logins.Go(func() { login(again, waiting+2) })
	hears("who comes when others have gone")
	end()
}

// TestDirectoryOfPasswordsThatIsDown: no login succeeds, the sentence says why, and where the directory is stays inside.
func TestDirectoryOfPasswordsThatIsDown(t *testing.T) {
	b := apibed.New(t)
	b.Want(http.StatusOK, "POST", "/v1-drover/directories/set", "kind: openldap\nldap: {url: 'ldap://127.0.0.1:1', plaintext: true, bindDN: cn=drover, bindPassword: hunter2, users: {base: dc=x}}\n")
	const target = "/v3-public/openLdapProviders/openldap?action=login"
	r := b.Request("POST", target, "", `{"username":"ann","password":"correct horse"}`)
	if r.Status != http.StatusServiceUnavailable || !strings.Contains(r.Text("message"), "directory openldap does not answer") || strings.Contains(string(r.Raw), "127.0.0.1") {
		t.Errorf("down: %d %s", r.Status, r.Raw)
	}
	if r := b.Request("POST", "/v1-drover/directories/openldap/test", b.Admin, "{}"); r.Status != http.StatusServiceUnavailable || !strings.Contains(r.Text("message"), "connection refused") || strings.Contains(string(r.Raw), "hunter2") {
		t.Errorf("test: %d %s", r.Status, r.Raw)
	}
	if r := b.Request("POST", "/v1-public/login", "", `{"type":"openLdapProvider","username":"ann","password":"x"}`); r.Status != http.StatusServiceUnavailable {
		t.Errorf("by its type: %d %s", r.Status, r.Raw)
	}
	if r := b.Request("POST", "/v1-public/login", "", `{"type":"githubProvider","code":"x","verifier":"x"}`); r.Status != 422 || !strings.Contains(r.Text("message"), "it has localProvider, openLdapProvider") {
		t.Errorf("a type that is off: %d %s", r.Status, r.Raw)
	}
	// Guesses are counted; a directory that was away is not one.
	for range 15 {
		b.Request("POST", target, "", `{"username":"ann","password":"x"}`)
	}
	if r := b.Request("POST", target, "", `{"username":"ann","password":"x"}`); r.Status != http.StatusServiceUnavailable {
		t.Errorf("after logins that nobody could answer: %d", r.Status)
	}
}

// TestATokenOfSomebodyElse: when a directory answers for a user's token with another user, the first user is unknown to it, and gets no
// rights of the other user; a token of another directory is not sent to it.
func TestATokenOfSomebodyElse(t *testing.T) {
	b, g := outsiders(t, "")
	id, session := enter(b, g)
	own := b.Token(id, records.Token{})
	kept := func(kind string) {
		if _, err := b.State.DirectoryTokens.Modify(t.Context(), id, func(d records.DirectoryToken) (records.DirectoryToken, error) { d.Kind = kind; return d, nil }); err != nil {
			t.Fatal(err)
		}
	}
	refresh := func() apibed.Result {
		return b.Request("POST", "/v3/users/"+id+"?action=refreshauthprovideraccess", b.Admin, "")
	}
	kept(records.GenericOIDC)
	before := len(g.Asked())
	if r := refresh(); r.Status != 422 || len(g.Asked()) != before {
		t.Errorf("with a token of another directory: %d %s, asked %q", r.Status, r.Raw, g.Asked()[before:])
	}
	kept(records.GitHub)
	g.Is(githubstandin.Person{ID: 999, Login: "eve", Orgs: []int64{9, 10}})
	if r := refresh(); r.Status != http.StatusOK {
		t.Errorf("%d %s", r.Status, r.Raw)
	}
	for name, token := range map[string]string{"the session": session, "their own token": own} {
		if r := b.Request("GET", "/v3", token, ""); r.Status != http.StatusUnauthorized {
			t.Errorf("%s: %d", name, r.Status)
		}
	}
	if u, _ := b.State.Users.Get(id); len(u.Value.Groups) > 0 {
		t.Errorf("they are in %v", u.Value.Groups)
	}
}

// TestWhomDirectoriesAreAskedAbout: of those who may come back, and a directory that fails once in a look.
func TestWhomDirectoriesAreAskedAbout(t *testing.T) {
	b, g := outsiders(t, "")
	add := func(id string, disabled bool) {
		u := records.User{ID: id, Username: id, Elsewhere: []string{"github_user://" + id}, Disabled: disabled, Asked: b.Now().Add(-48 * time.Hour)}
		if _, err := b.State.Users.Create(t.Context(), id, u); err != nil {
			t.Fatal(err)
		}
		if _, err := b.State.DirectoryTokens.Create(t.Context(), id, records.DirectoryToken{Kind: records.GitHub, Token: "x"}); err != nil {
			t.Fatal(err)
		}
		b.Token(id, records.Token{})
	}
	asked := func() int {
		before := len(g.Asked())
		b.AskGroups()
		return len(g.Asked()) - before
	}
	add("u-disabled", true)
	if n := asked(); n != 0 {
		t.Errorf("about somebody who is disabled %d times", n)
	}
	add("u-one", false)
	add("u-two", false)
	g.Refuse("fail")
	if n := asked(); n != 1 {
		t.Errorf("while it fails %d times", n)
	}
}

// TestNewUserRoles: who is made by a login gets the roles that are marked, as they are at that moment.
func TestNewUserRoles(t *testing.T) {
	b, g := outsiders(t, "")
	b.Want(http.StatusOK, "PUT", "/v3/globalroles/user", `{"newUserDefault":false}`)
	b.Want(http.StatusOK, "PUT", "/v3/globalroles/user-base", `{"newUserDefault":true}`)
	id, _ := enter(b, g)
	var held []string
	for _, d := range b.State.BindingsBySubject.Find(roles.LocalUser(id)) {
		held = append(held, d.Value.Role)
	}
	if fmt.Sprint(held) != "[user-base]" {
		t.Errorf("roles %v", held)
	}
}

// TestPageLoginByDirectory: the page leads to a directory and back, to where the user wanted to go and nowhere else.
func TestPageLoginByDirectory(t *testing.T) {
	b, g := outsiders(t, "displayName: Our <GitHub>\n")
	if page := string(b.Look("login?to=%2Fdashboard%2Fmachines", "").Raw); !strings.Contains(page, `href="/v3-public/githubProviders/github/page?to=%2Fdashboard%2Fmachines">Log in with Our &lt;GitHub&gt;</a>`) {
		t.Errorf("the page has no button: %s", page)
	}
	enter := func(to string) (apibed.Result, string) {
		t.Helper()
		r := b.Request("GET", githubPath+"/page?"+url.Values{"to": {to}}.Encode(), "", "")
		at, err := g.Authorize(r.Header.Get("Location"))
		if err != nil {
			t.Fatal(err)
		}
		cookie, _, _ := strings.Cut(r.Header.Get("Set-Cookie"), ";")
		return b.Request("GET", strings.TrimPrefix(at, "https://drover.example"), "", "", "Cookie", cookie), cookie
	}
	for to, leads := range map[string]string{
		"/dashboard/machines?q=x": "/dashboard/machines?q=x", "https://evil.example/": "/dashboard/clusters", "//evil.example": "/dashboard/clusters", "": "/dashboard/clusters",
	} {
		r, _ := enter(to)
		session := ""
		for _, set := range r.Header.Values("Set-Cookie") {
			if name, _, _ := strings.Cut(set, "="); name == auth.SessionCookie {
				session, _, _ = strings.Cut(strings.TrimPrefix(set, name+"="), ";")
			}
		}
		if r.Status != http.StatusFound || r.Header.Get("Location") != leads || session == "" {
			t.Fatalf("to %s: %d %s %v", to, r.Status, r.Header.Get("Location"), r.Header)
		}
		if shown := b.Look("clusters", session); shown.Status != http.StatusOK || !strings.Contains(string(shown.Raw), "octo") {
			t.Errorf("the session shows %d", shown.Status)
		}
	}

	// Another browser's journey is refused, and a person who is not let in reads why.
	r := b.Request("GET", githubPath+"/page", "", "")
	at, err := g.Authorize(r.Header.Get("Location"))
	if err != nil {
		t.Fatal(err)
	}
	if r := b.Request("GET", strings.TrimPrefix(at, "https://drover.example"), "", "", "Cookie", "R_OIDC_ID=other"); r.Status != http.StatusUnprocessableEntity || strings.Contains(r.Header.Get("Set-Cookie"), auth.SessionCookie) {
		t.Errorf("in another browser: %d %v", r.Status, r.Header)
	}
	// What a directory says when it fails, and where it is, is for administrators.
	r = b.Request("GET", githubPath+"/page", "", "")
	cookie, _, _ := strings.Cut(r.Header.Get("Set-Cookie"), ";")
	if at, err = g.Authorize(r.Header.Get("Location")); err != nil {
		t.Fatal(err)
	}
	g.Refuse("fail")
	if r := b.Request("GET", strings.TrimPrefix(at, "https://drover.example"), "", "", "Cookie", cookie); r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), "does not answer as it has to") || strings.Contains(string(r.Raw), "exchange the code") {
		t.Errorf("a directory that fails: %d %s", r.Status, r.Raw)
	}
	g.Refuse("")
	b.Configure(g, "access: required\nallowed: [github_user://999]\n")
	if r, _ := enter(""); r.Status != http.StatusUnprocessableEntity || !strings.Contains(string(r.Raw), "You are not logged in: ") || strings.Contains(fmt.Sprint(r.Header.Values("Set-Cookie")), auth.SessionCookie+"=token") {
		t.Errorf("not admitted: %d %s", r.Status, r.Raw)
	}
	// A directory that is not there takes no password either.
	if r := b.Send("login", "", url.Values{"username": {"octo"}, "password": {"x"}, "directory": {"openldap"}}); r.Status != http.StatusNotFound || !strings.Contains(string(r.Raw), "There is no such directory") {
		t.Errorf("a directory that is not configured: %d %s", r.Status, r.Raw)
	}
}
