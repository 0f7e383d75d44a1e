// Projects that people make. A project and the roles of its maker in it are one transaction, as are its end
// and that of everybody's roles in it.

package people

import (
	"context"
	"fmt"
	"regexp"
	"strings"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	// maxProjects bounds the projects of a cluster.
	maxProjects = 1000
	// maxProjectName bounds the name of a project, in bytes.
	maxProjectName = 253
)

// CreateProject makes a project in the cluster that the request names, which the caller has found to exist. Its ID is empty,
// or the name that the caller chose, which has the form of those that are made up: clients look for that. Who
// makes it gets the roles of a project's creator there. Its errors are *RefusedError.
func (p *People) CreateProject(ctx context.Context, by auth.Identity, request records.Project) (made records.Project, err error) {
	if err := checkProject(request); err != nil {
		return made, err
	}
	err = store.Retry(func() error {
		made = request
		if made.ID, err = p.projectID(request.ClusterID, request.ID); err != nil {
			return err
		}
		made.UID, made.Created, made.CreatorID = randomid.UID(), p.Now().UTC(), by.UserID
		if len(p.State.Projects.ListIn(request.ClusterID+"/")) >= maxProjects {
			return refuse(TooMany, "clusterId", "cluster %s has %d projects, and no more are possible", request.ClusterID, maxProjects)
		}
		maker, ok := p.State.Users.Get(by.UserID)
		if !ok {
			return refuse(Unknown, "", "user %s is no more", by.UserID)
		}
		ops := []store.Op{p.State.Projects.Creating(records.ProjectKey(made.ID), made), p.State.Users.Updating(maker)}
		for _, b := range p.creatorBindings(by, made) {
			ops = append(ops, p.State.Bindings.Creating(b.ID, b))
		}
		return p.commit(ctx, by, "create project", made.ID, ops)
	})
	return made, err
}

// creatorBindings give the maker of a project the roles that are for that; they need not have them elsewhere.
func (p *People) creatorBindings(by auth.Identity, made records.Project) []roles.Binding {
	var all []roles.Binding
	for _, r := range p.State.Roles(roles.RoleTemplate) {
		if !r.ProjectCreatorDefault || r.Context != roles.Project || r.Locked {
			continue
		}
		all = append(all, roles.Binding{
			ID: ProjectNamespace(made.ID) + ":prtb-" + randomid.ID(5), Role: r.ID, Subject: roles.Subject{User: roles.LocalUser(by.UserID)},
			ClusterID: made.ClusterID, ProjectID: made.ID, Created: made.Created, CreatorID: by.UserID,
		})
	}
	return all
}

// projectIDs are the names of projects inside their clusters: the rancher command line refuses contexts of others.
var projectIDs = regexp.MustCompile(`^p-[a-z0-9]{5}$`)

// projectID is the ID of a project whose name the caller chose, or one that is made up.
func (p *People) projectID(clusterID, name string) (string, error) {
	id := clusterID + ":" + name
	switch _, _, known := p.State.Project(id); {
	case name == "":
		return p.newProjectID(clusterID), nil
	case !projectIDs.MatchString(name):
		return "", &roles.InvalidError{Field: "id", Reason: fmt.Sprintf("%.80q is not a valid name of a project: p- and five small letters or digits", name)}
	case known:
		return "", refuse(Taken, "id", "there is a project %q already", id)
	}
	return id, nil
}

// newProjectID is one that no project has; the store refuses one that another is made with at the same moment.
func (p *People) newProjectID(clusterID string) string {
	for {
		id := records.NewProjectID(clusterID)
		if _, _, known := p.State.Project(id); !known {
			return id
		}
	}
}

func checkProject(pr records.Project) error {
	switch {
	case strings.TrimSpace(pr.Name) == "":
		return refuse(Unfit, "name", "is empty; a project needs a name")
	case len(pr.Name) > maxProjectName:
		return refuse(Unfit, "name", "has %d bytes; at most %d are possible", len(pr.Name), maxProjectName)
	case strings.ContainsFunc(pr.Name, func(r rune) bool { return r < ' ' || r == 0x7f }):
		return refuse(Unfit, "name", "%.80q has control characters", pr.Name)
	}
	return checkText("description", pr.Description)
}

// UpdateProject changes name, description, labels and annotations of a project that people made. What is not allowed is a *RefusedError.
func (p *People) UpdateProject(ctx context.Context, by auth.Identity, id string, change func(*records.Project) error) (pr records.Project, err error) {
	err = store.Retry(func() error {
		d, err := p.project(id)
		if err != nil {
			return err
		}
		pr = d.Value
		if err := change(&pr); err != nil {
			return err
		}
		if err := checkProject(pr); err != nil {
			return err
		}
		d.Value = pr
		return p.commit(ctx, by, "change project", id, []store.Op{p.State.Projects.Updating(d)})
	})
	return pr, err
}

// RemoveProject removes a project that people made, with all roles and secrets in it. Its namespaces stay in the cluster,
// and belong to no project then. What is not allowed is a *RefusedError.
func (p *People) RemoveProject(ctx context.Context, by auth.Identity, id string) error {
	return store.Retry(func() error {
		d, err := p.project(id)
		if err != nil {
			return err
		}
		ops := append(state.LeavingProject(p.State, d.Value.ClusterID, id), p.State.Projects.Deleting(d.Key, d.Revision))
		for _, b := range p.State.BindingsByCluster.Find(d.Value.ClusterID) {
			if b.Value.ProjectID == id {
				ops = append(ops, p.State.Bindings.Deleting(b.Key, 0))
			}
		}
		for _, s := range p.State.ProjectSecrets.ListIn(records.ProjectSecretKey(id, "")) {
			ops = append(ops, p.State.ProjectSecrets.Deleting(s.Key, 0))
		}
		return p.commit(ctx, by, "remove project", id, ops)
	})
}

// project is one that people made; the others are refused.
func (p *People) project(id string) (store.Document[records.Project], error) {
	if pr, _, ok := p.State.Project(id); ok && pr.Builtin {
		return store.Document[records.Project]{}, refuse(Fixed, "", "project %s comes with its cluster: it can be neither changed nor removed", id)
	}
	d, ok := p.State.Projects.Get(records.ProjectKey(id))
	if !ok {
		return d, &store.NotFoundError{Collection: "projects", Key: id}
	}
	return d, p.fresh("projects", id, d.Revision)
}

// holding are the writes that have a transaction fail when the project goes at the same moment.
func (p *People) holding(projectID string) []store.Op {
	if d, ok := p.State.Projects.Get(records.ProjectKey(projectID)); ok && projectID != "" {
		return []store.Op{p.State.Projects.Updating(d)}
	}
	return nil
}
