// The type project: the two that every cluster has, by which clients find their context, and those that people
// make.

package access

import (
	"net/http"

	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
)

// ProjectSchema is the type project.
func ProjectSchema() norman.Schema {
	text := norman.Field{Type: "string"}
	return norman.Schema{
		ID: "project", Plural: "projects",
		Fields: norman.Fields(map[string]norman.Field{
			"name":        {Type: "string", Create: true, Update: true, Required: true},
			"description": {Type: "string", Create: true, Update: true},
			"clusterId":   {Type: "reference[cluster]", Create: true, Required: true},
			"namespaceId": text, "backingNamespace": text, "conditions": {Type: "array[condition]"},
			"resourceQuota": {Type: "json", Nullable: true}, "namespaceDefaultResourceQuota": {Type: "json", Nullable: true},
			"containerDefaultResourceLimit": {Type: "json", Nullable: true},
		}),
	}
}

// project is what the body of a request makes of a project.
func project(in norman.Input, p *records.Project) error {
	if err := noQuotas(in); err != nil {
		return err
	}
	for name, to := range map[string]*string{"name": &p.Name, "description": &p.Description} {
		value, err := text(in, name)
		if err != nil {
			return err
		}
		if value != nil {
			*to = *value
		}
	}
	var err error
	p.Labels, p.Annotations, err = in.Labelled(p.Labels, p.Annotations)
	return err
}

// noQuotas refuses what nothing would enforce, rather than keep it.
func noQuotas(in norman.Input) error {
	const quota, each = "resourceQuota", "namespaceDefaultResourceQuota"
	if in.Has(quota) != in.Has(each) {
		field := quota
		if in.Has(quota) {
			field = each
		}
		return norman.Invalid(norman.MissingRequired, field, "%s and %s are given together or not at all", quota, each)
	}
	for _, name := range []string{quota, "containerDefaultResourceLimit"} {
		if in.Has(name) {
			return norman.Invalid(norman.InvalidOption, name, "is not enforced by this version of drover: leave it out, and make ResourceQuotas and LimitRanges in the namespaces")
		}
	}
	return nil
}

// CreateProject is POST of the type. The handler asks May itself, about the cluster of the body.
func (a *API) CreateProject(c *management.Request, in norman.Input) (_ route.Answer, err error) {
	var p records.Project
	if p.ClusterID, err = in.Required("clusterId"); err != nil {
		return route.Answer{}, err
	}
	cl, ok := a.State.ClustersByID.First(p.ClusterID)
	if !ok || !auth.May(c.Who, auth.Get, auth.OfCluster(p.ClusterID)) {
		return route.Answer{}, norman.Invalid(norman.InvalidReference, "clusterId", "there is no cluster %.80q", p.ClusterID)
	}
	if !auth.May(c.Who, auth.Create, auth.In(p.ClusterID, auth.Project)) {
		return route.Answer{}, c.Denied()
	}
	if !cl.Value.Deleting.IsZero() {
		return route.Answer{}, norman.Invalid(norman.InvalidState, "clusterId", "cluster %s is being removed", p.ClusterID)
	}
	if _, err := in.Required("name"); err != nil {
		return route.Answer{}, err
	}
	if err := project(in, &p); err != nil {
		return route.Answer{}, err
	}
	p, err = a.People.CreateProject(c.Ctx(), c.Who, p)
	if err != nil {
		return route.Answer{}, problem(err)
	}
	return c.Shown(http.StatusCreated, management.ProjectObject(p, cl.Value, c.URLs)), nil
}

// UpdateProject is PUT: what the body does not have stays, and the cluster cannot change.
func (a *API) UpdateProject(c *management.Request, in norman.Input) (route.Answer, error) {
	if id, err := in.String("clusterId"); err != nil || id != "" && id != c.Object().Fields["clusterId"] {
		return route.Answer{}, norman.Invalid(norman.InvalidOption, "clusterId", "a project stays in its cluster")
	}
	p, err := a.People.UpdateProject(c.Ctx(), c.Who, c.ID(), func(p *records.Project) error { return project(in, p) })
	if err != nil {
		return route.Answer{}, problem(err)
	}
	_, cl, _ := a.State.Project(p.ID)
	return c.Shown(http.StatusOK, management.ProjectObject(p, cl, c.URLs)), nil
}

// RemoveProject is DELETE.
func (a *API) RemoveProject(c *management.Request) (route.Answer, error) {
	return route.Answer{Status: http.StatusNoContent}, problem(a.People.RemoveProject(c.Ctx(), c.Who, c.ID()))
}
