// The configuration of a directory as people write it: a document of YAML, in which everything wrong is named.

package directories

import (
	"cmp"
	"crypto/x509"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/records"
)

// maxDocument bounds a document, in bytes.
const maxDocument = 256 << 10

// document is what people write. Enabled is true unless it is said.
type document struct {
	Kind        string                   `json:"kind"`
	Enabled     *bool                    `json:"enabled,omitempty"`
	DisplayName string                   `json:"displayName,omitempty"`
	Access      string                   `json:"access,omitempty"`
	Allowed     []string                 `json:"allowed,omitempty"`
	LDAP        *records.LDAPDirectory   `json:"ldap,omitempty"`
	OIDC        *records.OIDCDirectory   `json:"oidc,omitempty"`
	GitHub      *records.GitHubDirectory `json:"github,omitempty"`
}

// Read is the directory that a document describes. Secrets that the document leaves out are taken from the configured directory of its
// kind, which before finds. The error names all that is wrong and repeats no value of the document, which might be a secret.
func Read(text []byte, before func(kind string) (records.Directory, bool)) (records.Directory, error) {
	one, err := strictyaml.ReadOne(strictyaml.Source{Private: true, Limits: strictyaml.Limits{Bytes: maxDocument}}, text)
	if err != nil {
		return records.Directory{}, err
	}
	var doc document
	if faults := one.Decode(&doc, strictyaml.Options{Private: true}); len(faults) > 0 {
		return records.Directory{}, faults
	}
	d := records.Directory{
		Kind: doc.Kind, Disabled: doc.Enabled != nil && !*doc.Enabled, DisplayName: doc.DisplayName, Access: records.AccessMode(doc.Access), Allowed: doc.Allowed,
		LDAP: doc.LDAP, OIDC: doc.OIDC, GitHub: doc.GitHub,
	}
	d.Access = cmp.Or(d.Access, records.Unrestricted)
	if old, ok := before(d.Kind); ok {
		keepSecrets(&d, old)
	}
	if faults := Check(d); len(faults) > 0 {
		return records.Directory{}, errors.Join(faults...)
	}
	return d, nil
}

// keepSecrets fills in secrets of before. A secret that was for another place is not sent to this one: a user who may write the
// configuration may not read its secrets.
func keepSecrets(d *records.Directory, old records.Directory) {
	switch {
	case d.LDAP != nil && old.LDAP != nil && d.LDAP.BindPassword == "" && d.LDAP.URL == old.LDAP.URL && d.LDAP.BindDN == old.LDAP.BindDN && d.LDAP.CA == old.LDAP.CA && d.LDAP.Plaintext == old.LDAP.Plaintext && d.LDAP.StartTLS == old.LDAP.StartTLS:
		d.LDAP.BindPassword = old.LDAP.BindPassword
	case d.OIDC != nil && old.OIDC != nil && d.OIDC.ClientSecret == "" && d.OIDC.Issuer == old.OIDC.Issuer && d.OIDC.CA == old.OIDC.CA:
		d.OIDC.ClientSecret = old.OIDC.ClientSecret
	case d.GitHub != nil && old.GitHub != nil && d.GitHub.ClientSecret == "" && d.GitHub.URL == old.GitHub.URL && d.GitHub.CA == old.GitHub.CA:
		d.GitHub.ClientSecret = old.GitHub.ClientSecret
	}
}

// Shown is a directory without its secrets.
func Shown(d records.Directory) records.Directory {
	if d.LDAP != nil {
		c := *d.LDAP
		c.BindPassword, d.LDAP = "", &c
	}
	if d.OIDC != nil {
		c := *d.OIDC
		c.ClientSecret, d.OIDC = "", &c
	}
	if d.GitHub != nil {
		c := *d.GitHub
		c.ClientSecret, d.GitHub = "", &c
	}
	return d
}

// faults collects what is wrong.
type faults struct{ all []error }

func (f *faults) add(field, format string, args ...any) {
	f.all = append(f.all, fmt.Errorf("%s: %s", field, fmt.Sprintf(format, args...)))
}

// Check is all that is wrong with a configuration.
func Check(d records.Directory) []error {
	var f faults
	if !slices.Contains(Kinds(), d.Kind) {
		f.add("kind", "is none of %s", strings.Join(Kinds(), ", "))
		return f.all
	}
	if len(d.DisplayName) > 100 || !plans.SafeText(d.DisplayName) {
		f.add("displayName", "is longer than 100 bytes or holds a control character")
	}
	switch d.Access {
	case records.Unrestricted, records.Restricted, records.Required:
	default:
		f.add("access", "is none of unrestricted, restricted, required")
	}
	if len(d.Allowed) > MaxGroups {
		f.add("allowed", "has %d entries; at most %d are possible", len(d.Allowed), MaxGroups)
	}
	for i, p := range d.Allowed {
		if !Of(d.Kind, p) || len(p) > MaxPrincipal {
			f.add(fmt.Sprintf("allowed[%d]", i), "is not a principal of the directory, as in %s", UserOf(d.Kind, "…"))
		}
	}
	if d.Access == records.Required && len(d.Allowed) == 0 {
		f.add("allowed", "is empty, so that with access required no user could log in")
	}
	f.section(d)
	return f.all
}

// section checks the part that the kind has, and that there is no other.
func (f *faults) section(d records.Directory) {
	has := map[string]bool{"ldap": d.LDAP != nil, "oidc": d.OIDC != nil, "github": d.GitHub != nil}
	wants := map[string]string{records.OpenLDAP: "ldap", records.ActiveDirectory: "ldap", records.GenericOIDC: "oidc", records.GitHub: "github"}[d.Kind]
	for _, name := range []string{"ldap", "oidc", "github"} {
		if has[name] && name != wants {
			f.add(name, "is not of a directory of kind %s", d.Kind)
		}
	}
	switch {
	case !has[wants]:
		f.add(wants, "is missing; a directory of kind %s needs it", d.Kind)
	case wants == "ldap":
		f.ldap(*d.LDAP)
	case wants == "oidc":
		f.oidc(*d.OIDC)
	default:
		f.github(*d.GitHub)
	}
}

// attribute is a name of an attribute of LDAP (RFC 4512, 1.4), without options.
var attribute = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9-]{0,63}$`) })

func (f *faults) ldap(c records.LDAPDirectory) {
	u, err := url.Parse(c.URL)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "ldap" && u.Scheme != "ldaps" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "":
		f.add("ldap.url", "is not of the form ldaps://host[:port] or ldap://host[:port]")
	case u.Scheme == "ldaps" && (c.StartTLS || c.Plaintext):
		f.add("ldap.url", "is of TLS already, so that startTLS and plaintext say nothing")
	case u.Scheme == "ldap" && c.StartTLS == c.Plaintext:
		f.add("ldap.url", "would send passwords without encryption; say startTLS: true, or plaintext: true where that is meant")
	}
	f.authority("ldap.ca", c.CA)
	f.text("ldap.bindDN", c.BindDN, 1000)
	f.text("ldap.bindPassword", c.BindPassword, 1000)
	f.text("ldap.users.base", c.Users.Base, 1000)
	for field, name := range map[string]string{"ldap.users.login": c.Users.Login, "ldap.users.name": c.Users.Name, "ldap.groups.member": c.Groups.Member} {
		if name != "" && !attribute().MatchString(name) {
			f.add(field, "is not the name of an attribute")
		}
	}
	for field, filter := range map[string]string{"ldap.users.filter": c.Users.Filter, "ldap.groups.filter": c.Groups.Filter} {
		if filter != "" && (!strings.HasPrefix(filter, "(") || !strings.HasSuffix(filter, ")") || len(filter) > 1000) {
			f.add(field, "is not a filter in brackets, as in (objectClass=person)")
		}
	}
}

func (f *faults) oidc(c records.OIDCDirectory) {
	f.https("oidc.issuer", c.Issuer)
	f.authority("oidc.ca", c.CA)
	f.text("oidc.clientID", c.ClientID, 1000)
	if len(c.ClientSecret) > 1000 {
		f.add("oidc.clientSecret", "is longer than 1000 bytes")
	}
	if len(c.Scopes) > 50 || slices.ContainsFunc(c.Scopes, func(s string) bool { return s == "" || strings.ContainsAny(s, " \t\r\n\"\\") }) {
		f.add("oidc.scopes", "has more than 50 entries, or one with a space or a quote")
	}
	for field, claim := range map[string]string{"oidc.groupsClaim": c.GroupsClaim, "oidc.loginClaim": c.LoginClaim, "oidc.nameClaim": c.NameClaim} {
		if len(claim) > 200 {
			f.add(field, "is longer than 200 bytes")
		}
	}
}

func (f *faults) github(c records.GitHubDirectory) {
	if c.URL != "" {
		f.https("github.url", c.URL)
	}
	f.authority("github.ca", c.CA)
	f.text("github.clientID", c.ClientID, 1000)
	f.text("github.clientSecret", c.ClientSecret, 1000)
}

func (f *faults) https(field, text string) {
	if u, err := url.Parse(text); err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		f.add(field, "is not of the form https://host[/path]")
	}
}

// text is one that has to be there.
func (f *faults) text(field, text string, most int) {
	switch {
	case text == "":
		f.add(field, "is missing")
	case len(text) > most || !plans.SafeText(text):
		f.add(field, "is longer than %d bytes or holds a control character", most)
	}
}

func (f *faults) authority(field, pem string) {
	if pem != "" && !x509.NewCertPool().AppendCertsFromPEM([]byte(pem)) {
		f.add(field, "is not a certificate in PEM")
	}
}
