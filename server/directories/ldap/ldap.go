// Package ldap asks an OpenLDAP or an Active Directory: an account of the server's own looks for the entry of the user who logs in,
// their password is tried on that entry, and the account looks for the groups that the entry is in.
package ldap

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-ldap/ldap/v3"

	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/outgoing"
	"github.com/drover-project/drover/server/records"
)

// Directory is one; it keeps no connection.
type Directory struct {
	kind   string
	config records.LDAPDirectory
	names  names
	way    *outgoing.Way
	turn   Turn
}

// names are the attributes and filters of a kind where the configuration names none.
type names struct{ login, name, people, groups, member string }

// Open makes one of a configuration that was checked. All that ask the same directory have one turn.
func Open(kind string, c records.LDAPDirectory, way *outgoing.Way, turn Turn) *Directory {
	usual := names{login: "uid", name: "cn", people: "(objectClass=person)", groups: "(objectClass=*)", member: "member"}
	if kind == records.ActiveDirectory {
		usual = names{login: "sAMAccountName", name: "displayName", people: "(&(objectCategory=person)(objectClass=user))", groups: "(objectClass=group)", member: "member"}
	}
	return &Directory{kind: kind, config: c, way: way, turn: turn, names: names{
		login: cmp.Or(c.Users.Login, usual.login), name: cmp.Or(c.Users.Name, usual.name), people: cmp.Or(c.Users.Filter, usual.people),
		groups: cmp.Or(c.Groups.Filter, usual.groups), member: cmp.Or(c.Groups.Member, usual.member),
	}}
}

// Login is one side of directories.Passwords. An empty password is refused: a directory takes it for an anonymous bind, and
// says that all is well (RFC 4513, 5.1.2).
func (d *Directory) Login(ctx context.Context, username, password string) (p directories.Person, err error) {
	if username == "" || password == "" {
		return p, directories.ErrWrongPassword
	}
	err = d.ask(ctx, func(c *conversation) error {
		entry, err := d.entry(ctx, c, d.config.Users.Base, ldap.ScopeWholeSubtree, d.byLogin(username))
		if err != nil {
			return err
		}
		if entry == nil || d.shut(entry) {
			return directories.ErrWrongPassword
		}
		if err := c.Bind(entry.DN, password); err != nil {
			if refusal(err) {
				return directories.ErrWrongPassword
			}
			return d.unavailable(ctx, "try a password", err)
		}
		if err := d.bind(ctx, c); err != nil { // people may not be allowed to look for their groups
			return err
		}
		p, err = d.person(ctx, c, entry)
		return err
	})
	return p, err
}

// Find is one side of directories.Passwords. The errors are those that the interface names.
func (d *Directory) Find(ctx context.Context, principal string) (p directories.Person, err error) {
	dn, ours := strings.CutPrefix(principal, directories.UserOf(d.kind, ""))
	if !ours {
		return p, directories.ErrGone
	}
	err = d.ask(ctx, func(c *conversation) error {
		entry, err := d.entry(ctx, c, dn, ldap.ScopeBaseObject, d.names.people)
		if err != nil {
			return err
		}
		if entry == nil || d.shut(entry) {
			return directories.ErrGone
		}
		p, err = d.person(ctx, c, entry)
		return err
	})
	return p, err
}

// Check is one side of directories.Passwords. The errors are those that the interface names.
func (d *Directory) Check(ctx context.Context) error {
	return d.ask(ctx, func(c *conversation) error {
		for _, base := range []string{d.config.Users.Base, d.config.Groups.Base} {
			if base == "" {
				continue
			}
			if _, err := c.search(ctx, request(base, ldap.ScopeBaseObject, 1, "(objectClass=*)", "1.1")); err != nil {
				return d.unavailable(ctx, fmt.Sprintf("look at %.200q", base), err)
			}
		}
		return nil
	})
}

// byLogin is the filter for a user who logs in with a name. The name is text, with any characters.
func (d *Directory) byLogin(username string) string {
	return "(&" + d.names.people + "(" + d.names.login + "=" + ldap.EscapeFilter(username) + "))"
}

// ask runs what is asked of a connection that the server's own account is bound to, within directories.Timeout.
func (d *Directory) ask(ctx context.Context, do func(*conversation) error) error {
	ctx, cancel := context.WithTimeout(ctx, directories.Timeout)
	defer cancel()
	raw, err := d.dial(ctx)
	if err != nil {
		return d.unavailable(ctx, "connect to "+d.config.URL, err)
	}
	defer func() { _ = raw.Close() }()
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	defer stop()
	secure := raw
	if !d.config.Plaintext {
		trust, err := d.trust()
		if err != nil {
			return &directories.UnavailableError{Kind: d.kind, Doing: "trust " + d.config.URL, Err: err}
		}
		if secure, err = secured(ctx, raw, d.config.StartTLS, trust); err != nil {
			return d.unavailable(ctx, "begin TLS with "+d.config.URL, err)
		}
	}
	c := &conversation{bounds: bound(secure), turn: d.turn}
	c.Conn = ldap.NewConn(c.bounds, !d.config.Plaintext)
	c.Start()
	defer func() { _ = c.Close() }()
	if err = d.bind(ctx, c); err == nil {
		err = do(c)
	}
	over := c.bounds.failed.Load()
	switch {
	case err == nil:
		return nil
	case over != nil: // with any error from inside
		return &directories.UnavailableError{Kind: d.kind, Doing: "ask " + d.config.URL, Err: over}
	case ctx.Err() != nil:
		return d.unavailable(ctx, "ask "+d.config.URL, err)
	}
	return err
}

func (d *Directory) trust() (*tls.Config, error) {
	u, err := url.Parse(d.config.URL)
	if err != nil {
		return nil, err
	}
	trust := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: u.Hostname()}
	if d.config.CA != "" {
		trust.RootCAs = x509.NewCertPool()
		if !trust.RootCAs.AppendCertsFromPEM([]byte(d.config.CA)) {
			return nil, errors.New("the authority to trust is not a certificate in PEM")
		}
	}
	return trust, nil
}

func (d *Directory) dial(ctx context.Context) (net.Conn, error) {
	u, err := url.Parse(d.config.URL)
	if err != nil {
		return nil, err
	}
	port := cmp.Or(u.Port(), map[string]string{"ldap": "389", "ldaps": "636"}[u.Scheme])
	return d.way.DialContext(ctx, "tcp", net.JoinHostPort(u.Hostname(), port))
}

func (d *Directory) bind(ctx context.Context, c *conversation) error {
	if err := c.Bind(d.config.BindDN, d.config.BindPassword); err != nil {
		return d.unavailable(ctx, "bind as "+d.config.BindDN, err)
	}
	return nil
}

func request(base string, scope, most int, filter string, attributes ...string) *ldap.SearchRequest {
	return ldap.NewSearchRequest(base, scope, ldap.NeverDerefAliases, most, int(directories.Timeout.Seconds()), false, filter, attributes, nil)
}

// entry is the one that a filter finds; nil for none. That several are found is a fault of the directory or of the filter: none
// of them is who is meant.
func (d *Directory) entry(ctx context.Context, c *conversation, base string, scope int, filter string) (*ldap.Entry, error) {
	found, err := c.search(ctx, request(base, scope, 2, filter, d.names.login, d.names.name, "userAccountControl"))
	switch {
	case ldap.IsErrorWithCode(err, ldap.LDAPResultNoSuchObject) && scope == ldap.ScopeBaseObject:
		return nil, nil
	case err != nil && !(found != nil && ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded)):
		return nil, d.unavailable(ctx, "look for people", err)
	case len(found.Entries) == 0:
		return nil, nil
	case len(found.Entries) > 1:
		return nil, d.odd("several entries have the same login name")
	}
	return found.Entries[0], nil
}

// shut says whether an Active Directory has disabled an account: ACCOUNTDISABLE of [MS-ADTS] 2.2.16.
func (d *Directory) shut(e *ldap.Entry) bool {
	flags, err := strconv.ParseInt(e.GetAttributeValue("userAccountControl"), 10, 64)
	return err == nil && flags&2 != 0
}

func (d *Directory) person(ctx context.Context, c *conversation, e *ldap.Entry) (directories.Person, error) {
	p := directories.Person{
		Principal: directories.UserOf(d.kind, e.DN), Login: e.GetAttributeValue(d.names.login), Name: e.GetAttributeValue(d.names.name),
	}
	if len(p.Principal) > directories.MaxPrincipal {
		return p, d.odd("the DN of an entry has %d bytes; at most %d are possible", len(e.DN), directories.MaxPrincipal)
	}
	if d.config.Groups.Base == "" {
		return p, nil
	}
	member := e.DN
	if strings.EqualFold(d.names.member, "memberUid") { // the groups of RFC 2307 know login names
		member = p.Login
	}
	dns, err := d.groups(ctx, c, member)
	for _, dn := range dns {
		p.Groups = append(p.Groups, directories.GroupOf(d.kind, dn))
	}
	return p, err
}

// inChain is the rule by which an Active Directory looks through nested groups itself: LDAP_MATCHING_RULE_IN_CHAIN.
const inChain = ":1.2.840.113556.1.4.1941:"

// maxNested is how deep groups in groups are looked through, and batch how many are asked about at once.
const (
	maxNested = 10
	batch     = 100
)

// groups are the DNs of the groups that a member is in.
func (d *Directory) groups(ctx context.Context, c *conversation, member string) ([]string, error) {
	rule, levels := "", 1
	switch {
	case d.config.Groups.Nested && d.kind == records.ActiveDirectory:
		rule = inChain
	case d.config.Groups.Nested:
		levels = maxNested
	}
	var all []string
	seen := map[string]bool{}
	for next := []string{member}; len(next) > 0 && levels > 0; levels-- {
		var more []string
		for some := range slices.Chunk(next, batch) {
			found, err := d.having(ctx, c, rule, some, directories.MaxRead-len(all))
			if err != nil {
				return nil, err
			}
			for _, dn := range found {
				if key := strings.ToLower(dn); !seen[key] && len(all) < directories.MaxRead {
					seen[key] = true
					all, more = append(all, dn), append(more, dn)
				}
			}
		}
		next = more
	}
	return all, nil
}

// having are the groups that have one of the members. Where there are more than are wanted, or than the directory gives away at
// once, the rest is left out.
func (d *Directory) having(ctx context.Context, c *conversation, rule string, members []string, most int) ([]string, error) {
	if most <= 0 {
		return nil, nil
	}
	var filter strings.Builder
	for _, m := range members {
		filter.WriteString("(" + d.names.member + rule + "=" + ldap.EscapeFilter(m) + ")")
	}
	found, err := c.search(ctx, request(d.config.Groups.Base, ldap.ScopeWholeSubtree, most, "(&"+d.names.groups+"(|"+filter.String()+"))", "1.1"))
	if err != nil && !(found != nil && ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded)) {
		return nil, d.unavailable(ctx, "look for groups", err)
	}
	var dns []string
	for _, e := range found.Entries {
		dns = append(dns, e.DN)
	}
	return dns, nil
}

// refusal says whether the directory has refused an entry and a password, and not failed. An account that is locked or has to
// change its password is refused, too.
func refusal(err error) bool {
	return ldap.IsErrorAnyOf(err, ldap.LDAPResultInvalidCredentials, ldap.LDAPResultInappropriateAuthentication, ldap.LDAPResultUnwillingToPerform,
		ldap.LDAPResultInsufficientAccessRights, ldap.LDAPResultConstraintViolation, ldap.LDAPResultNoSuchObject, ldap.LDAPResultInvalidDNSyntax)
}

// odd is that a directory has people whom it should not have.
func (d *Directory) odd(format string, args ...any) error {
	return &directories.UnavailableError{Kind: d.kind, Doing: "look for people", Err: fmt.Errorf(format, args...)}
}

func (d *Directory) unavailable(ctx context.Context, doing string, err error) error {
	if already, ok := errors.AsType[*directories.UnavailableError](err); ok && ctx.Err() == nil {
		return already
	}
	err = plain(err)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return &directories.UnavailableError{Kind: d.kind, Doing: doing, Err: err}
}
