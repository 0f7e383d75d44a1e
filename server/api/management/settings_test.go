package management_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/audit"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// TestEverySettingWorksOrSaysWhyNot walks all settings: one that can be written has an
// effect, shown here, and any other refuses with a reason.
func TestEverySettingWorksOrSaysWhyNot(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	put := func(name, value string) apibed.Result {
		return b.Request("PUT", "/v3/settings/"+name, b.Admin, `{"value":"`+value+`"}`)
	}
	tokenTTL := func(target, body string) time.Duration {
		t.Helper()
		r := b.Want(201, "POST", target, body)
		ends, err := time.Parse(time.RFC3339, r.Text("expiresAt"))
		if err != nil {
			t.Errorf("%s: %v", r.Raw, err)
		}
		return ends.Sub(b.Now())
	}
	join := func() string {
		return b.Get("/v3/clusterRegistrationTokens/c-m-h4rb0r55:default-token").Text("nodeCommand")
	}
	kubeconfig := func() string {
		return b.Want(200, "POST", "/v3/clusters/c-m-h4rb0r55?action=generateKubeconfig", "").Text("config")
	}
	kubeconfigTTL := func() int64 {
		var ttl int64
		for _, d := range b.State.Tokens.List() {
			if strings.HasPrefix(d.Value.Name, "kubeconfig-") {
				ttl = d.Value.TTLMillis
				if err := b.State.Tokens.Delete(t.Context(), d.Key, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		return ttl
	}
	shown := func(name, value string) func() bool {
		return func() bool { return b.Request("GET", "/v3/settings/"+name, "", "").Text("value") == value }
	}
	b.Give("u-bob", "correct horse battery")
	effects := map[string]struct {
		value string
		works func() bool
	}{
		"agent-image": {"registry.example/agent:v9", func() bool {
			return b.Settings.Get("agent-image").Value == "registry.example/agent:v9" // its place in the command is held by registration's tests
		}},
		"agent-tls-mode":                 {"system-store", func() bool { return !b.Settings.StrictTLS() }},
		"auth-token-default-ttl-minutes": {"5", func() bool { return tokenTTL("/v3/tokens", `{}`) == 5*time.Minute }},
		"auth-token-max-ttl-minutes":     {"3", func() bool { return tokenTTL("/v3/tokens", `{"ttl":86400000}`) == 3*time.Minute }},
		"auth-user-session-ttl-minutes": {"7", func() bool {
			return tokenTTL(apibed.LoginTarget, `{"username":"bob","password":"correct horse battery"}`) == 7*time.Minute
		}},
		"auth-user-session-idle-ttl-minutes": {"1", func() bool {
			rests := b.Token("u-bob", records.Token{Session: true})
			name, _, _ := strings.Cut(rests, ":")
			if _, err := b.State.Tokens.Modify(t.Context(), name, func(t records.Token) (records.Token, error) { t.Created = t.Created.Add(-time.Hour); return t, nil }); err != nil {
				t.Fatal(err)
			}
			return b.Request("GET", "/v3/settings", rests, "").Status == 401
		}},
		"kubeconfig-default-token-ttl-minutes": {"9", func() bool { kubeconfigTTL(); kubeconfig(); return kubeconfigTTL() == 9*60_000 }},
		"kubeconfig-max-token-ttl-minutes":     {"8", func() bool { kubeconfig(); return kubeconfigTTL() == 8*60_000 }},
		"kubeconfig-generate-token":            {"false", func() bool { return !strings.Contains(kubeconfig(), "token: ") }},
		"password-min-length": {"30", func() bool {
			return b.Request("POST", "/v3/users/u-bob?action=setpassword", b.Admin, fmt.Sprintf(`{"newPassword":"twenty-nine characters, %05d"}`, b.State.Store.Revision()%100000)).Status == 422
		}},
		"audit-level": {"3", func() bool { return b.Audit.Level() == audit.Bodies }},
		"audit-filter": {"object=nothing", func() bool {
			recorded := func() int {
				found, err := b.Audit.Newest(t.Context(), audit.Query{Object: "nothing"}, 100)
				if err != nil {
					t.Fatal(err)
				}
				return len(found.Entries)
			}
			before := recorded()
			b.Request("DELETE", "/v3/clusters/nothing", b.Admin, "")
			return recorded() == before
		}},
		// What follows from these is held by the tests of server/audit, server/controllers/agents, server/controllers/rights, server/registration, server/connlimit, server/clusteragents and
		// server/decide/render.
		"agent-updates":                {"automatic", func() bool { return b.Settings.Get("agent-updates").Value == "automatic" }},
		"cluster-agent":                {"all", func() bool { return b.Settings.Get("cluster-agent").Value == "all" }},
		"audit-max-days":               {"7", func() bool { return b.Settings.Get("audit-max-days").Value == "7" }},
		"audit-max-file-mib":           {"7", func() bool { return b.Settings.Get("audit-max-file-mib").Value == "7" }},
		"audit-max-files":              {"7", func() bool { return b.Settings.Get("audit-max-files").Value == "7" }},
		"connections-per-source":       {"7", func() bool { return b.Settings.Get("connections-per-source").Value == "7" }},
		"rights-changed-by-hand":       {"report", func() bool { return b.Settings.Get("rights-changed-by-hand").Value == "report" }},
		"registration-quota":           {"7", func() bool { return b.Settings.Get("registration-quota").Value == "7" }},
		"registration-rate-per-minute": {"7", func() bool { return b.Settings.Get("registration-rate-per-minute").Value == "7" }},
		"outgoing-allowed-ranges":      {"10.20.0.0/16", func() bool { return b.Settings.Get("outgoing-allowed-ranges").Value == "10.20.0.0/16" }},
		"server-url":                   {"https://elsewhere.example", func() bool { return strings.Contains(join(), "--server https://elsewhere.example") }},
		"system-agent-installer-image": {"registry.example/installer-", func() bool {
			return b.Settings.Get("system-agent-installer-image").Value == "registry.example/installer-"
		}},
		"system-default-registry": {"mirror.example:5000/hub", func() bool { return b.Settings.Get("system-default-registry").Value == "mirror.example:5000/hub" }},
		"no-default-admin": {"true", func() bool {
			for _, d := range b.State.Users.List() {
				if err := b.State.Users.Delete(t.Context(), d.Key, 0); err != nil {
					t.Fatal(err)
				}
			}
			_, err := b.Auth.Bootstrap(t.Context(), "", "")
			return err == nil && len(b.State.Users.List()) == 0
		}},
		// By a person of a directory that does not answer, of whom what is known is an hour old.
		"auth-user-info-max-age-seconds": {"1", func() bool { return b.AsksAbout("u-away") }},
		// For login pages, which read them before a user is known.
		"first-login": {"true", shown("first-login", "true")}, "ui-banners": {"x", shown("ui-banners", "x")}, "ui-brand": {"x", shown("ui-brand", "x")},
		"ui-default-landing": {"x", shown("ui-default-landing", "x")}, "ui-issues": {"x", shown("ui-issues", "x")}, "ui-pl": {"x", shown("ui-pl", "x")},
		// Clients write these and read them back; drover sends nothing anywhere.
		"telemetry-opt": {"in", func() bool { return b.Get("/v3/settings/telemetry-opt").Text("value") == "in" }},
		"eula-agreed":   {"x", func() bool { return b.Get("/v3/settings/eula-agreed").Text("value") == "x" }},
	}
	for _, s := range b.Settings.List() { // what they refuse is held by TestQuotas
		if strings.HasPrefix(s.Name, "quota-") {
			effects[s.Name] = struct {
				value string
				works func() bool
			}{"7", func() bool { return b.Settings.Get(s.Name).Value == "7" }}
		}
	}
	seen := 0
	for _, s := range b.Settings.List() {
		effect, has := effects[s.Name]
		if s.Name == "no-default-admin" {
			continue // last, since no session is left after it
		}
		if !has {
			r := put(s.Name, "1")
			if r.Status != 405 || !strings.Contains(r.Text("message"), "cannot be written: ") || !s.ReadOnly {
				t.Errorf("%s can be written and does nothing: %d %s", s.Name, r.Status, r.Raw)
			}
			continue
		}
		seen++
		if effect.works() {
			t.Errorf("%s: the effect is there before it is set", s.Name)
		}
		if r := put(s.Name, effect.value); r.Status != 200 {
			t.Errorf("%s: %d %s", s.Name, r.Status, r.Raw)
			continue
		}
		if !effect.works() {
			t.Errorf("%s has no effect", s.Name)
		}
		if r := put(s.Name, ""); r.Status != 200 {
			t.Errorf("%s: back to the default: %d %s", s.Name, r.Status, r.Raw)
		}
	}
	last := effects["no-default-admin"]
	if r := put("no-default-admin", last.value); r.Status != 200 || !last.works() {
		t.Errorf("no-default-admin has no effect: %s", r.Raw)
	}
	if seen+1 != len(effects) {
		t.Errorf("%d settings of this test do not exist", len(effects)-seen-1)
	}
}
