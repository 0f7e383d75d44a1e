// Directories over /v3, as Terraform's rancher2_auth_config_* configure them: the same as the documents of drover's own API.

package access

import (
	"cmp"
	"encoding/json"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
)

// typed are the types that extend authConfig, by the kind, and the field in which the action testAndApply has one.
var typed = map[string]struct{ schema, field string }{
	records.OpenLDAP:        {"openLdapConfig", "ldapConfig"},
	records.ActiveDirectory: {"activeDirectoryConfig", "activeDirectoryConfig"},
	records.GitHub:          {"githubConfig", "githubConfig"},
	records.GenericOIDC:     {"genericOIDCConfig", "oidcConfig"},
}

// sent is a configuration as clients of /v3 send it. What it has beyond these fields is refused where it is not empty (see idle).
type sent struct {
	Enabled    bool     `json:"enabled"`
	AccessMode string   `json:"accessMode"`
	Allowed    []string `json:"allowedPrincipalIds"`

	Servers         []string `json:"servers"`
	Port            int      `json:"port"`
	TLS             *bool    `json:"tls"`
	StartTLS        bool     `json:"starttls"`
	Certificate     string   `json:"certificate"`
	AccountDN       string   `json:"serviceAccountDistinguishedName"`
	AccountName     string   `json:"serviceAccountUsername"`
	AccountPassword string   `json:"serviceAccountPassword"`
	UserBase        string   `json:"userSearchBase"`
	UserFilter      string   `json:"userSearchFilter"`
	UserLogin       string   `json:"userLoginAttribute"`
	UserName        string   `json:"userNameAttribute"`
	GroupBase       string   `json:"groupSearchBase"`
	GroupFilter     string   `json:"groupSearchFilter"`
	GroupMember     string   `json:"groupMemberMappingAttribute"`
	Nested          bool     `json:"nestedGroupMembershipEnabled"`

	ClientID     string `json:"clientId"`
	ClientSecret string `json:"clientSecret"`
	Hostname     string `json:"hostname"`

	Issuer      string `json:"issuer"`
	RancherURL  string `json:"rancherUrl"`
	Scopes      string `json:"scope"`
	GroupsClaim string `json:"groupsClaim"`
	NameClaim   string `json:"nameClaim"`
}

// idle are fields that nothing would act on, with the reason.
var idle = map[string]string{
	"groupDNAttribute": "groups are known by their own DN", "groupMemberUserAttribute": "members are known by their DN", "groupNameAttribute": "groups are shown by their DN",
	"groupObjectClass": "write it into groupSearchFilter", "userObjectClass": "write it into userSearchFilter", "groupSearchAttribute": "groups are found by their names",
	"userSearchAttribute": "people are found by login and name", "userMemberAttribute": "groups are found by their members", "userEnabledAttribute": "write it into userSearchFilter",
	"defaultLoginDomain": "people log in with the attribute userLoginAttribute", "privateKey": "providers are not asked with a certificate", "emailClaim": "no address is kept",
	"authEndpoint": "endpoints are those that the issuer publishes", "tokenEndpoint": "endpoints are those that the issuer publishes", "userInfoEndpoint": "endpoints are those that the issuer publishes",
	"jwksUrl": "endpoints are those that the issuer publishes", "endSessionEndpoint": "no user is logged out at the provider", "logoutAllEnabled": "no user is logged out at the provider",
	"logoutAllForced": "no user is logged out at the provider",
}

// document is what drover's own API takes for a configuration.
func document(kind string, text []byte, base string) ([]byte, error) {
	var all map[string]any
	var in sent
	if json.Unmarshal(text, &all) != nil || json.Unmarshal(text, &in) != nil { // the error could repeat a value
		return nil, norman.Invalid(norman.InvalidBodyContent, typed[kind].field, "is not of the form that a configuration has")
	}
	for field, why := range idle {
		if value := all[field]; value != nil && value != "" && value != false {
			return nil, norman.Invalid(norman.InvalidOption, field, "is not acted on: %s", why)
		}
	}
	doc := map[string]any{"kind": kind, "enabled": in.Enabled, "access": cmp.Or(in.AccessMode, string(records.Unrestricted)), "allowed": in.Allowed}
	switch kind {
	case records.OpenLDAP, records.ActiveDirectory:
		at, err := in.server()
		if err != nil {
			return nil, err
		}
		doc["ldap"] = records.LDAPDirectory{
			URL: at, StartTLS: in.StartTLS, CA: in.Certificate, BindDN: cmp.Or(in.AccountDN, in.AccountName), BindPassword: in.AccountPassword,
			Users:  records.LDAPUsers{Base: in.UserBase, Filter: in.UserFilter, Login: in.UserLogin, Name: in.UserName},
			Groups: records.LDAPGroups{Base: in.GroupBase, Filter: in.GroupFilter, Member: in.GroupMember, Nested: in.Nested},
		}
	case records.GitHub:
		if in.TLS != nil && !*in.TLS {
			return nil, norman.Invalid(norman.InvalidOption, "tls", "GitHub is asked over TLS alone")
		}
		g := records.GitHubDirectory{ClientID: in.ClientID, ClientSecret: in.ClientSecret}
		if in.Hostname != "" && in.Hostname != "github.com" {
			g.URL = "https://" + in.Hostname
		}
		doc["github"] = g
	case records.GenericOIDC:
		if want := base + "/verify-auth"; in.RancherURL != "" && strings.TrimSuffix(in.RancherURL, "/") != want {
			return nil, norman.Invalid(norman.InvalidOption, "rancherUrl", "is not where logins come back to this server: %s", want)
		}
		doc["oidc"] = records.OIDCDirectory{
			Issuer: in.Issuer, ClientID: in.ClientID, ClientSecret: in.ClientSecret, CA: in.Certificate, Scopes: strings.Fields(in.Scopes), GroupsClaim: in.GroupsClaim, NameClaim: in.NameClaim,
		}
	}
	return json.Marshal(doc)
}

// server is the URL of an LDAP server. Passwords are sent over TLS alone: plaintext is said in a document of drover's own API.
func (in sent) server() (string, error) {
	tls := in.TLS != nil && *in.TLS
	switch {
	case len(in.Servers) != 1:
		return "", norman.Invalid(norman.InvalidOption, "servers", "has %d entries; a directory has one server, which may be a name with several addresses", len(in.Servers))
	case tls == in.StartTLS:
		return "", norman.Invalid(norman.InvalidOption, "tls", "say either tls or starttls: passwords are not sent without encryption unless `drover directories set` says plaintext")
	case tls:
		return (&url.URL{Scheme: "ldaps", Host: net.JoinHostPort(in.Servers[0], strconv.Itoa(cmp.Or(in.Port, 636)))}).String(), nil
	}
	return (&url.URL{Scheme: "ldap", Host: net.JoinHostPort(in.Servers[0], strconv.Itoa(cmp.Or(in.Port, 389)))}).String(), nil
}

// TestAndApply is the action of that name: an LDAP directory has to know the person that the body names, before it is stored. Those
// with logins of their own are stored as they are: what they answer is seen when a person logs in.
func (a *DirectoryAPI) TestAndApply(c *management.Request) (route.Answer, error) {
	fields, err := a.fields(c)
	if err != nil {
		return route.Answer{}, err
	}
	kind := c.ID()
	var person struct{ Username, Password string }
	for name, into := range map[string]*string{"username": &person.Username, "password": &person.Password} {
		if len(fields[name]) > 0 && json.Unmarshal(fields[name], into) != nil {
			return route.Answer{}, norman.Invalid(norman.InvalidFormat, name, "is not text")
		}
	}
	config := fields[typed[kind].field]
	if len(config) == 0 {
		return route.Answer{}, norman.Invalid(norman.MissingRequired, typed[kind].field, "is needed")
	}
	doc, err := document(kind, config, c.URLs.Base)
	if err != nil {
		return route.Answer{}, err
	}
	d, err := directories.Read(doc, a.Desk.Get)
	if err != nil {
		return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "%s", reasons(err))
	}
	if d.LDAP != nil && !d.Disabled {
		if person.Username == "" || person.Password == "" {
			return route.Answer{}, norman.Invalid(norman.MissingRequired, "username", "with password is needed: the configuration is tried with it")
		}
		if _, err := a.Desk.Test(c.Ctx(), d, person.Username, person.Password); err != nil {
			return route.Answer{}, directoryProblem(err)
		}
	}
	return a.store(c, doc)
}

// Update is PUT of a configuration.
func (a *DirectoryAPI) Update(c *management.Request) (route.Answer, error) {
	if _, err := a.fields(c); err != nil {
		return route.Answer{}, err
	}
	text, err := norman.ReadBody(c.W, c.R, maxBody)
	if err != nil {
		return route.Answer{}, err
	}
	doc, err := document(c.ID(), text, c.URLs.Base)
	if err != nil {
		return route.Answer{}, err
	}
	return a.store(c, doc)
}

// Disable is the action of that name.
func (a *DirectoryAPI) Disable(c *management.Request) (route.Answer, error) {
	if _, err := a.fields(c); err != nil {
		return route.Answer{}, err
	}
	d, ok := a.Desk.Get(c.ID())
	if !ok {
		return route.Answer{Status: http.StatusOK}, nil
	}
	text, err := json.Marshal(map[string]any{
		"kind": d.Kind, "enabled": false, "displayName": d.DisplayName, "access": d.Access, "allowed": d.Allowed, "ldap": d.LDAP, "oidc": d.OIDC, "github": d.GitHub,
	})
	if err != nil {
		return route.Answer{}, err
	}
	_, err = a.store(c, text)
	return route.Answer{Status: http.StatusOK}, err
}

// fields checks what all changes have in common, and reads the body of an action.
func (a *DirectoryAPI) fields(c *management.Request) (map[string]json.RawMessage, error) {
	switch {
	case !auth.May(c.Who, auth.Update, auth.Object{Kind: auth.Directory, Key: c.ID()}):
		return nil, c.Denied()
	case a.Desk == nil:
		return nil, none()
	case typed[c.ID()].schema == "":
		return nil, norman.Errorf(http.StatusMethodNotAllowed, norman.MethodNotAllow, "%.40s is not configured here: there are %s", c.ID(), strings.Join(directories.Kinds(), ", "))
	case c.Method != http.MethodPost:
		return nil, nil
	}
	text, err := norman.ReadBody(c.W, c.R, maxBody)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if len(text) > 0 && json.Unmarshal(text, &fields) != nil {
		return nil, norman.Invalid(norman.InvalidBodyContent, "", "the body is not one JSON object")
	}
	return fields, nil
}

func (a *DirectoryAPI) store(c *management.Request, doc []byte) (route.Answer, error) {
	d, err := a.set(c.Call, doc)
	if err != nil {
		return route.Answer{}, err
	}
	return c.Shown(http.StatusOK, a.shown(d, c.URLs.Base)), nil
}

// shown is a directory of a kind as the type that extends authConfig has it, without its secrets.
func (a *DirectoryAPI) shown(d records.Directory, base string) norman.Object {
	o := config(d)
	if typed[d.Kind].schema == "" {
		return o
	}
	o.Fixed, o.Actions = false, []string{"testAndApply", "disable"}
	o.Fields["type"] = typed[d.Kind].schema
	switch {
	case d.LDAP != nil:
		maps.Copy(o.Fields, ofLDAP(*d.LDAP))
	case d.GitHub != nil:
		o.Fields["clientId"], o.Fields["tls"], o.Fields["hostname"] = d.GitHub.ClientID, true, cmp.Or(strings.TrimPrefix(d.GitHub.URL, "https://"), "github.com")
	case d.OIDC != nil:
		maps.Copy(o.Fields, map[string]any{
			"issuer": d.OIDC.Issuer, "clientId": d.OIDC.ClientID, "certificate": d.OIDC.CA, "scope": strings.Join(d.OIDC.Scopes, " "), "groupsClaim": d.OIDC.GroupsClaim,
			"nameClaim": d.OIDC.NameClaim, "rancherUrl": base + "/verify-auth",
		})
	}
	return o
}

func ofLDAP(c records.LDAPDirectory) map[string]any {
	u, err := url.Parse(c.URL)
	if err != nil { // checked when it was stored
		u = &url.URL{}
	}
	port, err := strconv.Atoi(u.Port())
	if err != nil {
		port = map[string]int{"ldaps": 636, "ldap": 389}[u.Scheme]
	}
	return map[string]any{
		"servers": slices.DeleteFunc([]string{u.Hostname()}, func(s string) bool { return s == "" }), "port": port, "tls": u.Scheme == "ldaps", "starttls": c.StartTLS, "certificate": c.CA,
		"serviceAccountDistinguishedName": c.BindDN, "serviceAccountUsername": c.BindDN, "userSearchBase": c.Users.Base, "userSearchFilter": c.Users.Filter,
		"userLoginAttribute": c.Users.Login, "userNameAttribute": c.Users.Name, "groupSearchBase": c.Groups.Base, "groupSearchFilter": c.Groups.Filter,
		"groupMemberMappingAttribute": c.Groups.Member, "nestedGroupMembershipEnabled": c.Groups.Nested,
		// What the provider has as its own defaults.
		"connectionTimeout": 5000, "userDisabledBitMask": 2,
	}
}
