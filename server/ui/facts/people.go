// Roles, and who has them.

package facts

import (
	"cmp"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/ui"
)

func (s *Source) roles(who auth.Identity) []ui.Role {
	var all []ui.Role
	for kind, is := range map[roles.Kind]auth.Kind{roles.GlobalRole: auth.GlobalRole, roles.RoleTemplate: auth.RoleTemplate} {
		for _, r := range s.State.Roles(kind) {
			if !auth.May(who, auth.Get, auth.Object{Kind: is, Key: r.ID}) {
				continue
			}
			all = append(all, ui.Role{
				ID: r.ID, Name: cmp.Or(r.Name, r.ID), Description: r.Description, Context: string(r.Context), Builtin: r.Builtin, Locked: r.Locked,
				Rules: rules(r.Rules), Inherits: r.Inherits,
			})
		}
	}
	return all
}

// rules are written a line each: the verbs, and on what.
func rules(of []roles.Rule) []string {
	lines := make([]string, 0, len(of))
	for _, r := range of {
		on := append(slices.Clone(r.NonResourceURLs), r.Resources...)
		line := strings.Join(r.Verbs, ", ") + " on " + strings.Join(on, ", ")
		if groups := strings.Join(r.APIGroups, ", "); groups != "" {
			line += " of " + groups
		}
		if len(r.ResourceNames) > 0 {
			line += " named " + strings.Join(r.ResourceNames, ", ")
		}
		lines = append(lines, line)
	}
	return lines
}

func (s *Source) bindings(who auth.Identity) []ui.Binding {
	var all []ui.Binding
	for _, d := range s.State.Bindings.List() {
		b := d.Value
		about := aboutBinding(b)
		if !auth.May(who, auth.Get, about) {
			continue
		}
		shown := ui.Binding{ID: b.ID, Role: b.Role, Name: b.Principal(), Group: b.Group != "", ClusterID: b.ClusterID, Project: b.ProjectID, Created: b.Created, About: about}
		if id, ok := roles.LocalUserID(b.User); ok {
			shown.Name = s.named(who, id)
		}
		if d, ok := s.State.ClustersByID.First(b.ClusterID); ok && b.ClusterID != "" {
			shown.Cluster = records.ClusterKey(d.Key).Name()
		}
		all = append(all, shown)
	}
	return all
}

// aboutBinding is a binding as auth.May knows it.
func aboutBinding(b roles.Binding) auth.Object {
	switch b.Context() {
	case roles.Cluster:
		return auth.Object{Kind: auth.ClusterBinding, Key: b.ID, Cluster: b.ClusterID}
	case roles.Project:
		return auth.Object{Kind: auth.ProjectBinding, Key: b.ID, Project: b.ProjectID}
	case roles.Global:
	}
	return auth.Object{Kind: auth.GlobalRoleBinding, Key: b.ID}
}
