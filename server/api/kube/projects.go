package kube

import (
	"encoding/json"
	"fmt"

	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/people"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/roles"
	"github.com/drover-project/drover/server/store"
)

// project is a Project that was sent.
type project struct {
	Metadata metadata `json:"metadata"`
	Spec     struct {
		DisplayName                   string          `json:"displayName"`
		Description                   string          `json:"description"`
		ClusterName                   string          `json:"clusterName"`
		ResourceQuota                 json.RawMessage `json:"resourceQuota"`
		NamespaceDefaultResourceQuota json.RawMessage `json:"namespaceDefaultResourceQuota"`
		ContainerDefaultResourceLimit json.RawMessage `json:"containerDefaultResourceLimit"`
	} `json:"spec"`
}

// into puts what was sent in place of what a project is.
func (p project) into(to *records.Project) error {
	for name, given := range map[string]json.RawMessage{
		"resourceQuota": p.Spec.ResourceQuota, "namespaceDefaultResourceQuota": p.Spec.NamespaceDefaultResourceQuota, "containerDefaultResourceLimit": p.Spec.ContainerDefaultResourceLimit,
	} {
		if len(given) > 0 && string(given) != "null" && string(given) != "{}" {
			return &roles.InvalidError{Field: "spec." + name, Reason: "is not enforced by this version of drover: leave it out, and make ResourceQuotas and LimitRanges in the namespaces"}
		}
	}
	if p.Spec.ClusterName != "" && p.Spec.ClusterName != p.Metadata.Namespace {
		return &roles.InvalidError{Field: "spec.clusterName", Reason: fmt.Sprintf("is %.80q, and the namespace is %.80q: a project is in the namespace of its cluster", p.Spec.ClusterName, p.Metadata.Namespace)}
	}
	to.Name, to.Description, to.Labels, to.Annotations = p.Spec.DisplayName, p.Spec.Description, p.Metadata.Labels, p.Metadata.Annotations
	return nil
}

func (a People) projects() PersonKind {
	k := PersonKind{Definition: define("projects"), Collection: subscribe.Projects}
	show := func(p records.Project) PersonObject {
		d, _ := a.State.Projects.Get(records.ProjectKey(p.ID))
		return showProject(k, store.Document[records.Project]{Key: records.ProjectKey(p.ID), Revision: d.Revision, Value: p})
	}
	k.List = func() []PersonObject {
		var all []PersonObject
		for _, cl := range a.State.Clusters.List() {
			for _, p := range a.State.ProjectsOf(cl.Value) {
				all = append(all, show(p))
			}
		}
		return sorted(all)
	}
	k.Get = func(key string) (PersonObject, bool) {
		p, _, ok := a.State.Project(idOf(key))
		return show(p), ok
	}
	k.Changed = subscribe.Shown(func(d store.Document[records.Project]) PersonObject { return showProject(k, d) })
	k.Within = func(namespace string) auth.Object { return auth.In(namespace, auth.Project) }
	k.Create = func(q personRequest, content map[string]any) (PersonObject, error) {
		var sent project
		if err := read(content, &sent, &sent.Metadata); err != nil {
			return PersonObject{}, err
		}
		p := records.Project{ID: sent.Metadata.Name, ClusterID: sent.Metadata.Namespace}
		cl, ok := a.State.ClustersByID.First(p.ClusterID)
		switch {
		case !ok || !auth.May(q.Who, auth.Get, auth.OfCluster(p.ClusterID)):
			return PersonObject{}, &roles.InvalidError{Field: "metadata.namespace", Reason: fmt.Sprintf("there is no cluster %.80q", p.ClusterID)}
		case !cl.Value.Deleting.IsZero():
			return PersonObject{}, &people.RefusedError{Why: people.Unfit, Field: "metadata.namespace", Reason: fmt.Sprintf("cluster %s is being removed", p.ClusterID)}
		}
		if err := sent.into(&p); err != nil {
			return PersonObject{}, err
		}
		p, err := a.People.Under(q.Terms).CreateProject(q.Ctx, q.Who, p)
		if err != nil {
			return PersonObject{}, err
		}
		return show(p), nil
	}
	k.Update = func(q personRequest, o PersonObject, content map[string]any) (PersonObject, error) {
		var sent project
		if err := read(content, &sent, &sent.Metadata); err != nil {
			return o, err
		}
		p, err := a.People.Under(q.Terms).UpdateProject(q.Ctx, q.Who, idOf(o.Key), sent.into)
		if err != nil {
			return o, err
		}
		return show(p), nil
	}
	k.Remove = func(q personRequest, o PersonObject) error {
		return a.People.Under(q.Terms).RemoveProject(q.Ctx, q.Who, idOf(o.Key))
	}
	return k
}

func showProject(k PersonKind, d store.Document[records.Project]) PersonObject {
	p := d.Value
	spec := map[string]any{"displayName": p.Name, "clusterName": p.ClusterID}
	if p.Description != "" {
		spec["description"] = p.Description
	}
	return PersonObject{
		Key: records.ProjectKey(p.ID), May: auth.Object{Kind: auth.Project, Key: p.ID}, Revision: max(1, d.Revision), Cells: []any{p.Short(), p.Name, p.Created},
		Content: personObject(k.Definition, about{name: p.Short(), namespace: p.ClusterID, created: p.Created, labels: p.Labels, annotations: p.Annotations, revision: d.Revision},
			map[string]any{"spec": spec, "status": map[string]any{"backingNamespace": people.ProjectNamespace(p.ID)}}),
	}
}
