// Who a user is, and how outside directories are shown.

package views

import (
	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
)

// OfDirectory shows one.
func OfDirectory(d records.Directory) apitypes.Directory {
	d = directories.Shown(d)
	return apitypes.Directory{
		Type: "directory", Kind: d.Kind, Enabled: !d.Disabled, DisplayName: d.DisplayName, Access: string(d.Access), Allowed: d.Allowed,
		LDAP: d.LDAP, OIDC: d.OIDC, GitHub: d.GitHub, Changed: d.Changed,
	}
}

// OfTested shows it. Of very many groups the first are shown.
func OfTested(kind string, p directories.Person) apitypes.TestedDirectory {
	groups, _ := directories.Kept(kind, p.Groups, func(string) bool { return false })
	return apitypes.TestedDirectory{Type: "testedDirectory", Kind: kind, Principal: p.Principal, Login: p.Login, Name: p.Name, Groups: groups}
}
