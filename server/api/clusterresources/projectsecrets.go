// The type secret of a project's part of /v3: Secrets that are kept here and copied into all
// namespaces of the project. Who may see or change them there may here, as roles in the project say; their values are
// shown to those alone, and every answer with values is in the audit log.
//
// Wire source: rancher/rancher pkg/client/generated/project/v3 (Secret).

package clusterresources

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/management"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

const (
	// maxSecrets bounds the secrets of a project: each is copied into each of its namespaces.
	maxSecrets = 200
	// serviceAccountToken is the type of Secrets that clusters make for themselves.
	serviceAccountToken = "kubernetes.io/service-account-token"
)

// ProjectSecrets serves the secrets of projects.
type ProjectSecrets struct {
	State *state.State
	Now   func() time.Time
	// V3 has the projects.
	V3 *management.API
}

// ProjectSecretSchema is the type, as the project's part of /v3 publishes it.
func ProjectSecretSchema() norman.Schema {
	values := norman.Field{Type: "map[string]", Create: true, Update: true, Nullable: true}
	return norman.Schema{
		ID: "secret", Plural: "secrets", Version: norman.Version{Group: "project.cattle.io", Version: "v3", Path: "/v3/project"},
		CollectionMethods: []string{"GET", "POST"}, ResourceMethods: []string{"GET", "PUT", "DELETE"},
		Fields: norman.Fields(map[string]norman.Field{
			"name":        {Type: "dnsLabel", Create: true, Required: true},
			"description": {Type: "string", Create: true, Update: true},
			"kind":        {Type: "string", Create: true},
			"data":        values, "stringData": values,
			"projectId":   {Type: "reference[project]", Create: true},
			"namespaceId": {Type: "reference[namespace]", Nullable: true},
		}),
	}
}

// secretRequest is one about the secrets of a project, or about one of them.
type secretRequest struct {
	*route.Call
	project string
	urls    norman.URLs
	secret  store.Document[records.ProjectSecret]
}

// Secrets begins a request about the secrets of the project of the path. The error is that of management.API.Context.
func (a *ProjectSecrets) Secrets(c *route.Call) (*secretRequest, error) {
	id, urls, err := a.V3.Context(c, "project")
	return &secretRequest{Call: c, project: id, urls: urls}, err
}

func (r *secretRequest) may(verb auth.Verb, name string) bool {
	return auth.May(r.Who, verb, auth.Object{Kind: auth.ProjectSecret, Key: name, Project: r.project})
}

// id of a secret is "p-xxxxx:<name>".
func (r *secretRequest) id(name string) string {
	_, short, _ := strings.Cut(r.project, ":")
	return short + ":" + name
}

func (r *secretRequest) object(s records.ProjectSecret) norman.Object {
	data := map[string]string{}
	for key, value := range s.Data {
		data[key] = base64.StdEncoding.EncodeToString(value)
	}
	o := norman.Object{ID: r.id(s.Name), Fields: map[string]any{
		"name": s.Name, "description": s.Description, "kind": s.Type, "data": data, "projectId": s.ProjectID, "namespaceId": nil,
		"created": s.Created, "creatorId": norman.Reference(s.CreatorID), "uuid": s.UID, "labels": norman.Map(s.Labels), "annotations": norman.Map(s.Annotations),
	}}
	k8sobjects.Well().Into(o.Fields)
	return o
}

func (r *secretRequest) show(status int, s records.ProjectSecret) route.Answer {
	body := r.present(r.object(s))
	management.Ignored(r.Call, body)
	return route.Answer{Status: status, Body: body}
}

func (r *secretRequest) present(o norman.Object) map[string]any {
	name, _ := o.Fields["name"].(string)
	return ProjectSecretSchema().Present(o, r.urls, norman.Allowed{Update: r.may(auth.Update, name), Remove: r.may(auth.Remove, name)})
}

// List is GET of the type: those that the caller may see.
func (a *ProjectSecrets) List(c *route.Call, r *secretRequest) (route.Answer, error) {
	var all []norman.Object
	for _, d := range a.State.ProjectSecrets.ListIn(records.ProjectSecretKey(r.project, "")) {
		if r.may(auth.Get, d.Value.Name) {
			all = append(all, r.object(d.Value))
		}
	}
	return route.Answer{Status: http.StatusOK, Body: ProjectSecretSchema().Collection(all, norman.List{
		URLs: r.urls, Values: c.Query(), Creates: r.may(auth.Create, ""), Show: r.present,
	})}, nil
}

// Secret begins a request about the secret of the path, which the caller may see and do something to. Its id has the project in front, or has it not.
// The error is a *norman.Error of 404 or 403.
func (a *ProjectSecrets) Secret(c *route.Call) (*secretRequest, error) {
	r, err := a.Secrets(c)
	if err != nil {
		return nil, err
	}
	id := c.Param("id")
	name := strings.TrimPrefix(id, r.id(""))
	d, ok := a.State.ProjectSecrets.Get(records.ProjectSecretKey(r.project, name))
	if !ok || !r.may(auth.Get, name) {
		return nil, norman.Missing("secret", id)
	}
	if !r.may(c.Row.Access.Verb, name) {
		return nil, c.Denied()
	}
	r.secret = d
	return r, nil
}

// Get is GET of one.
func (a *ProjectSecrets) Get(_ *route.Call, r *secretRequest) (route.Answer, error) {
	return r.show(http.StatusOK, r.secret.Value), nil
}

// Create is POST of the type.
func (a *ProjectSecrets) Create(c *route.Call, r *secretRequest) (route.Answer, error) {
	if !r.may(auth.Create, "") {
		return route.Answer{}, c.Denied()
	}
	in, err := c.Input(ProjectSecretSchema())
	if err != nil {
		return route.Answer{}, err
	}
	s := records.ProjectSecret{ProjectID: r.project, UID: randomid.UID(), Created: a.Now().UTC(), CreatorID: c.Who.UserID}
	if s.Name, err = in.Required("name"); err != nil {
		return route.Answer{}, err
	}
	if s, err = secretChanged(in, s); err != nil {
		return route.Answer{}, err
	}
	key := records.ProjectSecretKey(r.project, "")
	if len(a.State.ProjectSecrets.ListIn(key)) >= maxSecrets {
		return route.Answer{}, norman.Invalid(norman.MaxLimitExceeded, "", "project %s has %d secrets, and no more are possible", r.project, maxSecrets)
	}
	// With the project, so that none is left of one that goes at the same moment. The two that every cluster has are not stored.
	ops := []store.Op{a.State.ProjectSecrets.Creating(s.Key(), s)}
	if d, ok := a.State.Projects.Get(records.ProjectKey(r.project)); ok {
		ops = append(ops, a.State.Projects.Updating(d))
	}
	if _, err := a.State.Store.Commit(c.Ctx(), ops...); err != nil {
		if _, known := a.State.ProjectSecrets.Get(s.Key()); known {
			return route.Answer{}, norman.Invalid(norman.NotUnique, "name", "project %s has a secret %q already", r.project, s.Name)
		}
		return route.Answer{}, fmt.Errorf("create secret %s: %w", r.id(s.Name), err)
	}
	c.Concern(r.id(s.Name))
	return r.show(http.StatusCreated, s), nil
}

// Update is PUT: what the body does not have stays; values that it has take the place of all that were there.
func (a *ProjectSecrets) Update(c *route.Call, r *secretRequest) (route.Answer, error) {
	in, err := c.Input(ProjectSecretSchema())
	if err != nil {
		return route.Answer{}, err
	}
	next, err := a.State.ProjectSecrets.Modify(c.Ctx(), r.secret.Key, func(s records.ProjectSecret) (records.ProjectSecret, error) {
		return secretChanged(in, s)
	})
	if err != nil {
		return route.Answer{}, err
	}
	return r.show(http.StatusOK, next.Value), nil
}

// Remove is DELETE: the copies go, too.
func (a *ProjectSecrets) Remove(c *route.Call, r *secretRequest) (route.Answer, error) {
	return route.Answer{Status: http.StatusNoContent}, a.State.ProjectSecrets.Delete(c.Ctx(), r.secret.Key, 0)
}

// secretChanged is a secret after the body of a request.
func secretChanged(in norman.Input, s records.ProjectSecret) (records.ProjectSecret, error) {
	if err := stays(in, s); err != nil {
		return s, err
	}
	var err error
	if in.Has("description") {
		if s.Description, err = in.String("description"); err == nil {
			err = norman.CheckDescription(s.Description)
		}
	}
	if err == nil {
		s.Labels, s.Annotations, err = in.Labelled(s.Labels, s.Annotations)
	}
	if err != nil {
		return s, err
	}
	return valued(in, s)
}

// stays refuses what would make another secret of this one.
func stays(in norman.Input, s records.ProjectSecret) error {
	for field, is := range map[string]string{"name": s.Name, "projectId": s.ProjectID, "kind": s.Type, "namespaceId": ""} {
		want, err := in.String(field)
		if err != nil {
			return err
		}
		switch {
		case want == "" || want == is || field == "kind" && s.Type == "":
		case field == "namespaceId":
			return norman.Invalid(norman.InvalidOption, field, "a project's secret is in all of its namespaces; one of a single namespace is made there, with kubectl")
		case field == "projectId" && roles.ClusterOf(want) == "":
			return norman.Invalid(norman.InvalidReference, field, "%.80q is not the id of a project", want)
		default:
			return norman.Invalid(norman.InvalidOption, field, "is %.80q of this secret and cannot be changed to %.80q", is, want)
		}
	}
	return nil
}

// valued is a secret with the type and the values of a body, read as all Secrets from outside are.
func valued(in norman.Input, s records.ProjectSecret) (records.ProjectSecret, error) {
	kind, err := in.String("kind")
	if err != nil {
		return s, err
	}
	s.Type = cmp.Or(s.Type, kind)
	encoded, _, err := in.Map("data")
	if err != nil {
		return s, err
	}
	plain, _, err := in.Map("stringData")
	if err != nil {
		return s, err
	}
	if !in.Has("data") { // values as text come beside those that are there
		encoded = map[string]string{}
		for key, value := range s.Data {
			encoded[key] = base64.StdEncoding.EncodeToString(value)
		}
	}
	read, err := read(s, encoded, plain)
	if err != nil {
		return s, err
	}
	s.Type, s.Data = read.Type, maps.Clone(read.Data)
	return s, nil
}

func read(s records.ProjectSecret, data, stringData map[string]string) (objects.Object, error) {
	text, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": objects.Secret, "type": s.Type, "metadata": map[string]any{"name": s.Name}, "data": data, "stringData": stringData,
	})
	if err != nil {
		return objects.Object{}, err
	}
	doc, err := strictyaml.ReadOne(strictyaml.Source{Private: true, Limits: strictyaml.Limits{Bytes: 2 * norman.MaxBody}}, text)
	if err != nil {
		return objects.Object{}, norman.Invalid(norman.InvalidBodyContent, "", "the secret cannot be read: %v", err)
	}
	o, bad := objects.Read(doc, metaNamespace, nil)
	if len(bad) > 0 { // one is enough: /v3 names one field
		e := bad[0]
		field := map[string]string{"metadata.name": "name", "type": "kind"}[e.Path]
		if field == "" {
			field, _, _ = strings.Cut(e.Path, ".")
		}
		return o, norman.Invalid(norman.InvalidBodyContent, field, "%s", e.Reason)
	}
	if o.Type == serviceAccountToken {
		return o, norman.Invalid(norman.InvalidOption, "kind", "clusters make tokens of service accounts themselves: no project has them")
	}
	return o, nil
}

// metaNamespace stands for the namespaces that a secret is read without.
const metaNamespace = "default"
