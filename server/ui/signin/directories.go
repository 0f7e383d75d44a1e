// The directories that people log in at, as the page shows them.

package signin

import (
	"cmp"
	"net/url"

	"github.com/drover-project/drover/server/api/login"
	"github.com/drover-project/drover/server/directories"
	"github.com/drover-project/drover/server/records"
)

// DoorsOf are the directories that people log in at through their browsers.
func DoorsOf(all []records.Directory, to string) []Door {
	var doors []Door
	for _, d := range all {
		if !d.Disabled && !directories.ByPassword(d.Kind) {
			doors = append(doors, Door{Title: titleOf(d), URL: login.PathOf(d.Kind) + "/page?" + url.Values{"to": {to}}.Encode()})
		}
	}
	return doors
}

// Chosen are those that take a name and a password.
func Chosen(all []records.Directory) []Directory {
	var chosen []Directory
	for _, d := range all {
		if !d.Disabled && directories.ByPassword(d.Kind) {
			chosen = append(chosen, Directory{ID: d.Kind, Title: titleOf(d)})
		}
	}
	return chosen
}

// titleOf is what people who log in read of a directory.
func titleOf(d records.Directory) string {
	return cmp.Or(d.DisplayName, map[string]string{
		records.OpenLDAP: "OpenLDAP", records.ActiveDirectory: "Active Directory", records.GenericOIDC: "OpenID Connect", records.GitHub: "GitHub",
	}[d.Kind], d.Kind)
}
