package directories

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
)

func TestUserIDIsTheOneOfRancher(t *testing.T) {
	if got := UserID("github_user://12345"); got != "u-ffq6mgr5je" {
		t.Errorf("%s, want u-ffq6mgr5je", got)
	}
}

func TestAdmits(t *testing.T) {
	who := Person{Principal: "openldap_user://uid=ann", Groups: []string{"openldap_group://cn=ops"}}
	for _, c := range []struct {
		name    string
		access  records.AccessMode
		allowed []string
		member  bool
		want    bool
	}{
		{"unrestricted", records.Unrestricted, nil, false, true},
		{"restricted, a stranger", records.Restricted, []string{"openldap_user://uid=ben"}, false, false},
		{"restricted, a member of a cluster", records.Restricted, nil, true, true},
		{"restricted, listed", records.Restricted, []string{who.Principal}, false, true},
		{"required, a member of a cluster", records.Required, []string{"openldap_user://uid=ben"}, true, false},
		{"required, listed", records.Required, []string{who.Principal}, false, true},
		{"required, by a group", records.Required, who.Groups, false, true},
		{"unknown", "x", []string{who.Principal}, true, false},
	} {
		if got := Admits(records.Directory{Access: c.access, Allowed: c.allowed}, who, c.member); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func TestKept(t *testing.T) {
	var ten []string
	for i := range 10_000 {
		ten = append(ten, fmt.Sprintf("openldap_group://cn=g%05d", i))
	}
	kept, left := Kept("openldap", ten, func(g string) bool { return g == ten[9_999] })
	if len(kept) != MaxGroups || left != 9_000 || !slices.Contains(kept, ten[9_999]) || !slices.Contains(kept, ten[0]) || !slices.IsSorted(kept) {
		t.Errorf("%d kept, %d left out; the one that matters: %v", len(kept), left, slices.Contains(kept, ten[9_999]))
	}
	for _, bad := range []string{"github_org://1", "cn=x", "openldap_group://" + strings.Repeat("x", MaxPrincipal), "openldap_group://a\nb"} {
		if kept, left := Kept("openldap", []string{bad}, func(string) bool { return true }); len(kept) != 0 || left != 1 {
			t.Errorf("%.40q is kept", bad)
		}
	}
	if got := Merged("openldap", []string{"github_org://1", "openldap_group://a"}, []string{"openldap_group://b"}); fmt.Sprint(got) != "[github_org://1 openldap_group://b]" {
		t.Errorf("merged %v", got)
	}
}

const ldapDocument = `kind: openldap
access: required
allowed: ["openldap_group://cn=ops,dc=x"]
ldap:
  url: ldaps://ldap.example.com
  bindDN: cn=drover,dc=x
  bindPassword: hunter2
  users: {base: "ou=people,dc=x"}
  groups: {base: "ou=groups,dc=x", nested: true}
`

func none(string) (records.Directory, bool) { return records.Directory{}, false }

func TestRead(t *testing.T) {
	d, err := Read([]byte(ldapDocument), none)
	if err != nil || d.Disabled || d.Access != records.Required || d.LDAP.BindPassword != "hunter2" || !d.LDAP.Groups.Nested {
		t.Fatalf("%+v %v", d, err)
	}
	before := func(string) (records.Directory, bool) { return d, true }
	without := strings.Replace(ldapDocument, "  bindPassword: hunter2\n", "", 1)
	if again, err := Read([]byte(without), before); err != nil || again.LDAP.BindPassword != "hunter2" {
		t.Errorf("the secret is not kept: %v", err)
	}
	// A secret is not sent to another place than the one that it was given for.
	if _, err := Read([]byte(strings.Replace(without, "ldap.example.com", "evil.example.com", 1)), before); err == nil || !strings.Contains(err.Error(), "ldap.bindPassword: is missing") {
		t.Errorf("moved: %v", err)
	}
	if Shown(d).LDAP.BindPassword != "" || d.LDAP.BindPassword == "" {
		t.Error("what is shown has the secret, or what is kept has lost it")
	}
	oidc := "kind: genericoidc\noidc: {issuer: 'https://id.example.com', clientID: drover, clientSecret: hunter2}\n"
	for _, c := range []struct{ name, text, want string }{
		{"another kind", strings.Replace(ldapDocument, "openldap\n", "nis\n", 1), "kind: is none of activedirectory, genericoidc, github, openldap"},
		{"a key that is none", ldapDocument + "password: hunter2\n", "password"},
		{"plain text", strings.Replace(ldapDocument, "ldaps://", "ldap://", 1), "would send passwords without encryption"},
		{"TLS twice", strings.Replace(ldapDocument, "ldaps://ldap.example.com", "ldaps://ldap.example.com\n  startTLS: true", 1), "ldap.url: is of TLS already"},
		{"an attribute with a filter in it", strings.Replace(ldapDocument, `{base: "ou=people,dc=x"}`, `{base: "ou=people,dc=x", login: "uid=*)(x"}`, 1), "ldap.users.login: is not the name of an attribute"},
		{"nobody allowed", strings.Replace(ldapDocument, `["openldap_group://cn=ops,dc=x"]`, "[]", 1), "allowed: is empty"},
		{"somebody of another directory", strings.Replace(ldapDocument, "openldap_group://cn", "github_org://cn", 1), "allowed[0]: is not a principal of the directory"},
		{"the wrong section", strings.Replace(oidc, "genericoidc", "openldap", 1), "oidc: is not of a directory of kind openldap"},
		{"an issuer without TLS", strings.Replace(oidc, "https:", "http:", 1), "oidc.issuer: is not of the form https://host[/path]"},
		{"an authority that is none", strings.Replace(oidc, "clientID:", "ca: hunter2, clientID:", 1), "oidc.ca: is not a certificate in PEM"},
		{"access that is none", oidc + "access: everybody\n", "access: is none of unrestricted, restricted, required"},
	} {
		_, err := Read([]byte(c.text), none)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}

func TestSeal(t *testing.T) {
	now := time.Date(2026, 11, 1, 10, 0, 0, 0, time.UTC)
	clock := func() time.Time { return now }
	s, err := NewSealer("a secret", clock)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewSealer("another secret", clock)
	if err != nil {
		t.Fatal(err)
	}
	text, err := s.Seal("journey", Journey{Kind: "github", Port: 4711}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	var j Journey
	if err := s.Open("journey", text, &j); err != nil || j.Port != 4711 {
		t.Errorf("%+v %v", j, err)
	}
	for name, bad := range map[string]error{
		"another use":     s.Open("collect", text, &j),
		"another server":  other.Open("journey", text, &j),
		"changed":         s.Open("journey", text[:len(text)-2]+"xx", &j),
		"empty":           s.Open("journey", "", &j),
		"not base64":      s.Open("journey", "!", &j),
		"longer than any": s.Open("journey", strings.Repeat("A", maxSealed+1), &j),
	} {
		if bad == nil {
			t.Errorf("%s: opened", name)
		}
	}
	if now = now.Add(2 * time.Minute); s.Open("journey", text, &j) == nil {
		t.Error("opened after its time")
	}
	if !Proves("a", Digest("a")) || Proves("b", Digest("a")) || Proves("", Digest("")) {
		t.Error("a digest proves what it should not, or not what it should")
	}
}
