// People and groups of directories, found by what somebody types of their names.

package desk

import (
	"context"
	"strings"

	"github.com/drover-project/drover/server/directories"
)

// Search finds people and groups whose names begin with a text: at most so many of each in each directory that can be asked.
// Of the others there are the groups that people came with, which bindings may name. A directory that is away is left out,
// and the log says so: who looks for somebody of this server is not to wait for another.
func (d *Desk) Search(ctx context.Context, text string, want directories.Sought, most int) []directories.Found {
	var found []directories.Found
	for _, c := range d.All() {
		if c.Disabled {
			continue
		}
		s, err := d.open(c)
		if err == nil && s.passwords == nil {
			found = append(found, d.knownGroups(c.Kind, text, want, most)...)
			continue
		}
		if err == nil {
			var some []directories.Found
			some, err = s.passwords.Search(ctx, text, want, most)
			found = append(found, some...)
		}
		if err != nil {
			d.Logger.Warn("a directory was not searched", "directory", c.Kind, "error", err)
		}
	}
	return found
}

// knownGroups are those of a directory that its people were found in, and that begin with a text.
func (d *Desk) knownGroups(kind, text string, want directories.Sought, most int) []directories.Found {
	var found []directories.Found
	if want == directories.People {
		return nil
	}
	seen := map[string]bool{}
	for _, u := range d.State.Users.List() {
		for _, group := range u.Value.Groups {
			_, name, _ := strings.Cut(group, "://")
			if directories.Of(kind, group) && !seen[group] && len(found) < most && strings.HasPrefix(strings.ToLower(name), strings.ToLower(text)) {
				seen[group] = true
				found = append(found, directories.Found{Principal: group, Name: name, Group: true})
			}
		}
	}
	return found
}
