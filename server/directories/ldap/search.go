// Finding people and groups by the beginning of their names.

package ldap

import (
	"context"

	"github.com/go-ldap/ldap/v3"

	"github.com/drover-project/drover/server/directories"
)

// groupName is the attribute with the name of a group, in OpenLDAP's schemas and in an Active Directory.
const groupName = "cn"

// Search is one side of directories.Passwords. The errors are those that the interface names.
func (d *Directory) Search(ctx context.Context, text string, want directories.Sought, most int) (found []directories.Found, err error) {
	err = d.ask(ctx, func(c *conversation) error {
		if want != directories.Groups {
			people, err := d.search(ctx, c, d.config.Users.Base, d.beginning(text), most, d.names.login, d.names.name, "userAccountControl")
			if err != nil {
				return err
			}
			for _, e := range people {
				if !d.shut(e) {
					found = append(found, directories.Found{
						Principal: directories.UserOf(d.kind, e.DN), Login: e.GetAttributeValue(d.names.login), Name: e.GetAttributeValue(d.names.name),
					})
				}
			}
		}
		if want == directories.People || d.config.Groups.Base == "" {
			return nil
		}
		groups, err := d.search(ctx, c, d.config.Groups.Base, "(&"+d.names.groups+"("+groupName+"="+ldap.EscapeFilter(text)+"*))", most, groupName)
		for _, e := range groups {
			found = append(found, directories.Found{Principal: directories.GroupOf(d.kind, e.DN), Name: e.GetAttributeValue(groupName), Group: true})
		}
		return err
	})
	return found, err
}

// beginning is the filter for people whose login name or name begins with a text of any characters.
func (d *Directory) beginning(text string) string {
	begins := "=" + ldap.EscapeFilter(text) + "*)"
	return "(&" + d.names.people + "(|(" + d.names.login + begins + "(" + d.names.name + begins + "))"
}

// search finds at most so many entries; where a directory has more, the rest is left out.
func (d *Directory) search(ctx context.Context, c *conversation, base, filter string, most int, attributes ...string) ([]*ldap.Entry, error) {
	found, err := c.search(ctx, request(base, ldap.ScopeWholeSubtree, most, filter, attributes...))
	if err != nil && !(found != nil && ldap.IsErrorWithCode(err, ldap.LDAPResultSizeLimitExceeded)) {
		return nil, d.unavailable(ctx, "search", err)
	}
	var entries []*ldap.Entry
	for _, e := range found.Entries {
		if len(entries) < most && len(directories.UserOf(d.kind, e.DN)) <= directories.MaxPrincipal {
			entries = append(entries, e)
		}
	}
	return entries, nil
}
