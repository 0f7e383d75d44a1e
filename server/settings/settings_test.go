package settings_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/settings"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"

func open(t *testing.T) *state.State {
	t.Helper()
	st, err := state.Open(t.Context(), store.Options{DataDir: t.TempDir(), UnsafeNoFsync: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

func environment(values map[string]string) func(string) string {
	return func(name string) string { return values[name] }
}

// TestSources walks one setting through default, store and environment.
func TestSources(t *testing.T) {
	st := open(t)
	plain := settings.New(st.Settings, environment(nil), settings.Defaults{ServerURL: "https://default.example"})
	got := []settings.Setting{plain.Get("server-url")}
	if err := plain.Set(t.Context(), "server-url", "https://stored.example:8443"); err != nil {
		t.Fatal(err)
	}
	got = append(got, plain.Get("server-url"))
	overruled := settings.New(st.Settings, environment(map[string]string{"CATTLE_SERVER_URL": "https://env.example"}), settings.Defaults{ServerURL: "https://default.example"})
	got = append(got, overruled.Get("server-url"))
	var readOnly *settings.ReadOnlyError
	if err := overruled.Set(t.Context(), "server-url", "https://other.example"); !errors.As(err, &readOnly) {
		t.Errorf("setting what the environment overrules: %v, want a ReadOnlyError", err)
	}
	if err := plain.Set(t.Context(), "server-url", ""); err != nil {
		t.Fatal(err)
	}
	got = append(got, plain.Get("server-url"))
	if err := plain.Set(t.Context(), "server-url", ""); err != nil {
		t.Errorf("returning to the default twice: %v", err)
	}

	about := got[0].About
	byDefault := settings.Setting{Name: "server-url", About: about, Value: "https://default.example", Default: "https://default.example", Source: "default"}
	want := []settings.Setting{
		byDefault,
		{Name: "server-url", About: about, Value: "https://stored.example:8443", Default: "https://default.example", Source: "db", Customized: true},
		{Name: "server-url", About: about, Value: "https://env.example", Default: "https://default.example", Source: "env", Customized: true, ReadOnly: true},
		byDefault,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestSetRefuses(t *testing.T) {
	s := settings.New(open(t).Settings, environment(nil), settings.Defaults{CACerts: pem})
	for _, c := range []struct {
		name, setting, value, reason string
	}{
		{name: "http", setting: "server-url", value: "http://drover.example", reason: "https://"},
		{name: "no scheme", setting: "server-url", value: "drover.example", reason: "https://"},
		{name: "trailing slash", setting: "server-url", value: "https://drover.example/", reason: "slash"},
		{name: "path", setting: "server-url", value: "https://drover.example/x", reason: "path"},
		{name: "no host", setting: "server-url", value: "https://", reason: "host"},
		{name: "empty port", setting: "server-url", value: "https://drover.example:", reason: "host"},
		{name: "port zero", setting: "server-url", value: "https://drover.example:0", reason: "host"},
		{name: "user", setting: "server-url", value: "https://me@drover.example", reason: "more than"},
		{name: "query", setting: "server-url", value: "https://drover.example?x=1", reason: "more than"},
		{name: "fragment", setting: "server-url", value: "https://drover.example#x", reason: "more than"},
		{name: "shell in the host", setting: "server-url", value: "https://a$(id)b", reason: ""},
		{name: "bracketed name", setting: "server-url", value: "https://[abc]:8443", reason: ""},
		{name: "URL as a registry", setting: "system-default-registry", value: "https://mirror.lan", reason: "not a registry"},
		{name: "slash after a registry", setting: "system-default-registry", value: "mirror.lan/", reason: "not a registry"},
		{name: "tag after a registry", setting: "system-default-registry", value: "mirror.lan/hub:v1", reason: "not a registry"},
		{name: "space in a registry", setting: "system-default-registry", value: "mirror.lan/a b", reason: "not a registry"},
		{name: "not in the list", setting: "agent-tls-mode", value: "lax", reason: "strict, system-store"},
		{name: "negative minutes", setting: "kubeconfig-max-token-ttl-minutes", value: "-1", reason: "minutes"},
		{name: "no number", setting: "password-min-length", value: "many", reason: "number"},
		{name: "huge", setting: "ui-banners", value: strings.Repeat("x", 64<<10+1), reason: "longer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var invalid *settings.InvalidError
			err := s.Set(t.Context(), c.setting, c.value)
			if !errors.As(err, &invalid) {
				t.Fatalf("got %v, want an InvalidError", err)
			}
			if invalid.Name != c.setting || !strings.Contains(invalid.Reason, c.reason) {
				t.Errorf("got %q of %s, want a reason with %q", invalid.Reason, invalid.Name, c.reason)
			}
			if got := s.Get(c.setting); got.Source != "default" {
				t.Errorf("%s is %+v after a refusal", c.setting, got)
			}
		})
	}
	var readOnly *settings.ReadOnlyError
	if err := s.Set(t.Context(), "cacerts", ""); !errors.As(err, &readOnly) {
		t.Errorf("setting cacerts: %v, want a ReadOnlyError", err)
	}
	var unknown *settings.UnknownError
	if err := s.Set(t.Context(), "server-urls", "x"); !errors.As(err, &unknown) || unknown.Name != "server-urls" {
		t.Errorf("setting an unknown name: %v, want an UnknownError", err)
	}
	if _, err := s.Lookup("server-urls"); !errors.As(err, &unknown) {
		t.Errorf("looking up an unknown name: %v, want an UnknownError", err)
	}
}

func TestSetAccepts(t *testing.T) {
	s := settings.New(open(t).Settings, environment(nil), settings.Defaults{})
	for _, c := range []struct{ setting, value string }{
		{"server-url", "https://drover.example"},
		{"server-url", "https://drover.example:8443"},
		{"server-url", "https://192.0.2.7:8443"},
		{"server-url", "https://[2001:db8::1]:8443"},
		{"server-url", "https://[2001:db8::1]"},
		{"agent-tls-mode", "system-store"},
		{"auth-user-session-ttl-minutes", "0"},
		{"telemetry-opt", "prompt"},
		{"system-default-registry", "mirror.lan:5000"},
		{"system-default-registry", "mirror.lan/hub/images"},
	} {
		if err := s.Set(t.Context(), c.setting, c.value); err != nil {
			t.Errorf("%s = %s: %v", c.setting, c.value, err)
		}
		if got := s.Get(c.setting).Value; got != c.value {
			t.Errorf("%s is %q, want %q", c.setting, got, c.value)
		}
	}
}

func TestCheckNamesTheVariable(t *testing.T) {
	st := open(t)
	s := settings.New(st.Settings, environment(map[string]string{"CATTLE_SERVER_URL": "http://x"}), settings.Defaults{})
	if err := s.Check(); err == nil || !strings.Contains(err.Error(), "CATTLE_SERVER_URL") {
		t.Errorf("got %v, want an error that names CATTLE_SERVER_URL", err)
	}
	if err := settings.New(st.Settings, environment(nil), settings.Defaults{ServerURL: "http://x"}).Check(); err == nil {
		t.Error("a wrong server URL of the command line passed")
	}
	if err := settings.New(st.Settings, environment(nil), settings.Defaults{Version: "v1"}).Check(); err != nil {
		t.Errorf("the defaults are refused: %v", err)
	}
}

func TestCAIsServedWithOneNewline(t *testing.T) {
	st := open(t)
	sum := sha256.Sum256([]byte(pem + "\n"))
	for _, c := range []struct{ name, cacerts, served, checksum string }{
		{"without newline", pem, pem + "\n", hex.EncodeToString(sum[:])},
		{"with newline", pem + "\n", pem + "\n", hex.EncodeToString(sum[:])},
		{"with two", pem + "\n\n", pem + "\n", hex.EncodeToString(sum[:])},
		{"none", "", "", ""},
		{"blank", "\n", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := settings.New(st.Settings, environment(nil), settings.Defaults{CACerts: c.cacerts})
			if got := s.CACerts(); got != c.served {
				t.Errorf("CACerts %q, want %q", got, c.served)
			}
			if got := s.CAChecksum(); got != c.checksum {
				t.Errorf("CAChecksum %q, want %q", got, c.checksum)
			}
		})
	}
}

// TestStrictNeedsACA: pinning nothing would lock hosts out of a server with a public certificate.
func TestStrictNeedsACA(t *testing.T) {
	st := open(t)
	with := settings.New(st.Settings, environment(nil), settings.Defaults{CACerts: pem})
	without := settings.New(st.Settings, environment(nil), settings.Defaults{})
	if !with.StrictTLS() || without.StrictTLS() {
		t.Errorf("strict with a CA %v, without one %v; want true, false", with.StrictTLS(), without.StrictTLS())
	}
	if err := with.Set(t.Context(), "agent-tls-mode", "system-store"); err != nil {
		t.Fatal(err)
	}
	if with.StrictTLS() {
		t.Error("strict although agent-tls-mode is system-store")
	}
}

func TestListHasWhatClientsRead(t *testing.T) {
	s := settings.New(open(t).Settings, environment(nil), settings.Defaults{Version: "v0.3.0"})
	values := map[string]string{}
	last := ""
	for _, setting := range s.List() {
		if setting.Name <= last {
			t.Errorf("%q after %q: not sorted, or twice", setting.Name, last)
		}
		last = setting.Name
		values[setting.Name] = setting.Value
	}
	for _, name := range []string{
		"server-url", "cacerts", "k8s-version", "install-uuid", "first-login", "ui-banners", "ui-issues", "ui-pl", "ui-brand",
		"ui-default-landing", "telemetry-opt", "k8s-version-to-images", "agent-tls-mode", "eula-agreed",
	} {
		if _, ok := values[name]; !ok {
			t.Errorf("%s is missing", name)
		}
	}
	if got, want := values["server-version"], "v2.15.0-drover.0.3.0"; got != want {
		t.Errorf("server-version is %q, want %q", got, want)
	}
}

// TestSettingsForAdministrators: what reaches hosts or clusters, or decides who gets in, is for them alone.
func TestSettingsForAdministrators(t *testing.T) {
	managed := []string{
		"connections-per-source", "eula-agreed", "first-login", "public-api-body-limit", "quota-clusters", "quota-clusters-per-person", "quota-documents-mib",
		"quota-documents-mib-per-person", "quota-machines", "quota-machines-per-person", "quota-operations", "quota-operations-per-person", "quota-tokens",
		"quota-tokens-per-person", "registration-quota", "registration-rate-per-minute", "server-version", "server-version-type", "telemetry-opt", "tls-min-version",
		"ui-banners", "ui-brand", "ui-default-landing", "ui-issues", "ui-pl",
	}
	var got []string
	for _, s := range settings.New(open(t).Settings, environment(nil), settings.Defaults{}).List() {
		if !settings.ForAdministrators(s.Name) {
			got = append(got, s.Name)
		}
	}
	if diff := cmp.Diff(managed, got); diff != "" {
		t.Errorf("settings that those write who may change settings and are no administrators (-want +got); judge a new one by the comment of administrators:\n%s", diff)
	}
	if settings.ForAdministrators("nothing") {
		t.Error("a setting that does not exist is for administrators")
	}
}
