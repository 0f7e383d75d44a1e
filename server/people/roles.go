// Roles that people make, and bindings.

package people

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// CreateRole makes a role, which may allow no more than its maker has at the server; without an ID it gets one. Its errors are
// *roles.InvalidError and *RefusedError.
func (p *People) CreateRole(ctx context.Context, by auth.Identity, r roles.Role) (roles.Role, error) {
	prefix := "rt-"
	if r.Context == roles.Global {
		prefix = "gr-"
	}
	id, err := chosen(r.ID, prefix)
	if err != nil {
		return roles.Role{}, err
	}
	kind := roles.KindOf(r.Context)
	if _, known := p.State.Role(kind, id); known {
		return roles.Role{}, refuse(Taken, "id", "there is a role %q already", id)
	}
	if kind == roles.RoleTemplate && roles.Reserved(id) {
		return roles.Role{}, &roles.InvalidError{Field: "id", Reason: fmt.Sprintf("%q is a name that Kubernetes or the server itself has for a role in clusters: choose another one", id)}
	}
	r.ID, r.Builtin, r.Created, r.CreatorID = id, false, p.Now().UTC(), by.UserID
	if err := p.checkRole(by, r); err != nil {
		return roles.Role{}, err
	}
	return r, p.commit(ctx, by, "create role", r.ID, []store.Op{p.State.RolesOf(kind).Creating(r.ID, r)})
}

func (p *People) checkRole(by auth.Identity, r roles.Role) error {
	if err := roles.Check(r, p.State.Role); err != nil {
		return err
	}
	if err := checkText("description", r.Description); err != nil {
		return err
	}
	return holds(by, r, p.State.Role)
}

// holds refuses what goes beyond the caller in a role with all that it inherits.
func holds(by auth.Identity, r roles.Role, find roles.Lookup) error {
	return covers(by, roles.Resolve(r, find), roles.Place{}, "role "+r.Name)
}

// UpdateRole changes a role; its ID and context stay. Of a built-in one only the flags can be changed. Who has less than the role
// allowed before takes nothing from it. What is not allowed is a *RefusedError.
func (p *People) UpdateRole(ctx context.Context, by auth.Identity, kind roles.Kind, id string, change func(*roles.Role) error) (r roles.Role, err error) {
	err = store.Retry(func() error {
		before, ok := p.State.Role(kind, id)
		if !ok {
			return &store.NotFoundError{Collection: "roles", Key: id}
		}
		stored, kept := p.State.RolesOf(kind).Get(id)
		if err := p.fresh("roles", id, stored.Revision); err != nil {
			return err
		}
		if err := holds(by, before, p.State.Role); err != nil {
			return err
		}
		r = before
		r.Rules, r.Inherits = slices.Clone(before.Rules), slices.Clone(before.Inherits)
		if err := change(&r); err != nil {
			return err
		}
		if r.Context != before.Context {
			return refuse(Fixed, "context", "the context of a role cannot be changed (from %s to %s)", before.Context, r.Context)
		}
		r.ID, r.Builtin, r.Created, r.CreatorID = id, before.Builtin, before.Created, before.CreatorID
		if err := p.checkRole(by, r); err != nil {
			return err
		}
		if before.Builtin && !sameRules(before, r) {
			return refuse(Fixed, "rules", "role %s comes with the server: nothing of it can be changed but its defaults and whether it is locked", id)
		}
		if !kept {
			return p.commit(ctx, by, "change role", id, []store.Op{p.State.RolesOf(kind).Creating(id, r)})
		}
		stored.Value = r
		return p.commit(ctx, by, "change role", id, []store.Op{p.State.RolesOf(kind).Updating(stored)})
	})
	return r, err
}

func sameRules(a, b roles.Role) bool {
	same := func(x, y roles.Rule) bool {
		return slices.Equal(x.APIGroups, y.APIGroups) && slices.Equal(x.Resources, y.Resources) && slices.Equal(x.Verbs, y.Verbs) &&
			slices.Equal(x.ResourceNames, y.ResourceNames) && slices.Equal(x.NonResourceURLs, y.NonResourceURLs)
	}
	return a.Name == b.Name && a.Description == b.Description && slices.Equal(a.Inherits, b.Inherits) && slices.EqualFunc(a.Rules, b.Rules, same)
}

// RemoveRole removes a role that no one has and no other role inherits. What is not allowed is a *RefusedError.
func (p *People) RemoveRole(ctx context.Context, by auth.Identity, kind roles.Kind, id string) error {
	return store.Retry(func() error {
		r, ok := p.State.Role(kind, id)
		switch {
		case !ok:
			return &store.NotFoundError{Collection: "roles", Key: id}
		case r.Builtin:
			return refuse(Fixed, "", "role %s comes with the server and cannot be removed; a locked one is given to no one", id)
		}
		if n := p.State.BindingsByRole.Count(state.RoleKey{Kind: kind, ID: id}); n > 0 {
			return refuse(InUse, "", "role %s (%s) is given by %d bindings: remove them first", r.Name, id, n)
		}
		for _, other := range p.State.Roles(kind) {
			if slices.Contains(other.Inherits, id) {
				return refuse(InUse, "", "role %s (%s) is inherited by %s (%s): change that one first", r.Name, id, other.Name, other.ID)
			}
		}
		if err := holds(by, r, p.State.Role); err != nil {
			return err
		}
		d, _ := p.State.RolesOf(kind).Get(id)
		if err := p.fresh("roles", id, d.Revision); err != nil {
			return err
		}
		return p.commit(ctx, by, "remove role", id, []store.Op{p.State.RolesOf(kind).Deleting(id, d.Revision)})
	})
}

// Bind gives a role to a user or a group. The binding has a role, a subject, and the cluster or the project where the
// role holds, which the caller has found to exist. Its ID is empty, or the name that the caller chose. Its errors are *roles.InvalidError and *RefusedError.
func (p *People) Bind(ctx context.Context, by auth.Identity, request roles.Binding) (b roles.Binding, err error) {
	err = store.Retry(func() error {
		var ops []store.Op
		if b, ops, err = p.binding(by, request); err != nil {
			return err
		}
		if id, local := roles.LocalUserID(b.User); local {
			u, ok := p.State.Users.Get(id)
			if !ok {
				return refuse(Unknown, "userId", "there is no user %.80q", id)
			}
			ops = append(ops, p.State.Users.Updating(u)) // it must still be there
		}
		return p.commit(ctx, by, "bind role", b.ID+" "+b.Role+" to "+b.Principal(), append(ops, p.State.Bindings.Creating(b.ID, b)))
	})
	return b, err
}

// binding is a binding as it is stored, with the writes that hold what it refers to.
func (p *People) binding(by auth.Identity, b roles.Binding) (roles.Binding, []store.Op, error) {
	if err := roles.CheckSubject(b.Subject); err != nil {
		return b, nil, err
	}
	if err := checkText("name", b.Name); err != nil {
		return b, nil, err
	}
	scope, field, within, prefix := b.Context(), "roleTemplateId", "", ""
	switch scope {
	case roles.Global:
		field, prefix = "globalRoleId", "grb-"
	case roles.Cluster:
		within, prefix = b.ClusterID+":", "crtb-"
	case roles.Project:
		within, prefix = ProjectNamespace(b.ProjectID)+":", "prtb-"
	}
	name, err := chosen(b.ID, prefix)
	if err != nil {
		return b, nil, err
	}
	kind := roles.KindOf(scope)
	role, ok := p.State.Role(kind, b.Role)
	switch {
	case !ok:
		return b, nil, refuse(Unknown, field, "there is no role %.80q", b.Role)
	case role.Context != scope:
		return b, nil, refuse(Unfit, field, "role %s is of a %s and cannot be given in a %s", b.Role, role.Context, scope)
	case role.Locked:
		return b, nil, refuse(Locked, field, "role %s is locked: it is given to no one any more", b.Role)
	}
	if err := covers(by, roles.Resolve(role, p.State.Role), roles.Place{Cluster: b.ClusterID, Project: b.ProjectID}, "role "+role.ID); err != nil {
		return b, nil, err
	}
	b.ID, b.Created, b.CreatorID = within+name, p.Now().UTC(), by.UserID
	ops := p.holding(b.ProjectID)
	if d, ok := p.State.RolesOf(kind).Get(b.Role); ok && !role.Builtin {
		ops = append(ops, p.State.RolesOf(kind).Updating(d)) // it must still be there, and be what was checked
	}
	return b, ops, nil
}

// ProjectNamespace is the namespace of a project's own objects: its id with a dash.
func ProjectNamespace(projectID string) string { return strings.Replace(projectID, ":", "-", 1) }

// Rebind changes labels and annotations of a binding; nothing else of one changes. What is not allowed is a *RefusedError.
func (p *People) Rebind(ctx context.Context, by auth.Identity, id string, labels, annotations map[string]string) (b roles.Binding, err error) {
	err = store.Retry(func() error {
		d, ok := p.State.Bindings.Get(id)
		if !ok {
			return &store.NotFoundError{Collection: "bindings", Key: id}
		}
		if err := p.fresh("bindings", id, d.Revision); err != nil {
			return err
		}
		d.Value.Labels, d.Value.Annotations = labels, annotations
		b = d.Value
		return p.commit(ctx, by, "change binding", id, []store.Op{p.State.Bindings.Updating(d)})
	})
	return b, err
}

// Unbind takes a role from a user or a group; no one takes what they could not give. What is not allowed is a *RefusedError.
func (p *People) Unbind(ctx context.Context, by auth.Identity, id string) error {
	return store.Retry(func() error {
		d, ok := p.State.Bindings.Get(id)
		if !ok {
			return &store.NotFoundError{Collection: "bindings", Key: id}
		}
		if err := p.fresh("bindings", id, d.Revision); err != nil {
			return err
		}
		b := d.Value
		ops := []store.Op{p.State.Bindings.Deleting(id, d.Revision)}
		if role, ok := p.State.Role(roles.KindOf(b.Context()), b.Role); ok {
			at := roles.Place{Cluster: b.ClusterID, Project: b.ProjectID}
			if err := covers(by, roles.Resolve(role, p.State.Role), at, "the role "+role.ID+" that would be taken away"); err != nil {
				return err
			}
		}
		if b.Role == roles.Admin && b.Context() == roles.Global {
			stays, err := p.witness("", id)
			if err != nil {
				return err
			}
			ops = append(ops, stays...)
		}
		return p.commit(ctx, by, "unbind role", id, ops)
	})
}

// NewUserRoles are the IDs of the global roles that new users get where none were chosen.
func (p *People) NewUserRoles() []string {
	var ids []string
	for _, r := range p.State.Roles(roles.GlobalRole) {
		if r.NewUserDefault {
			ids = append(ids, r.ID)
		}
	}
	return ids
}
