package kube

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// Namespaces are those that clusters and fleets are in, and the default one. They are made and removed with what is in them.
func (a People) Namespaces() PersonKind {
	k := PersonKind{Definition: namespaceDefinition()}
	k.List = func() []PersonObject {
		names := []string{clusterspec.DefaultNamespace}
		for _, c := range a.State.Clusters.List() {
			names = append(names, c.Value.Namespace)
		}
		for _, f := range a.State.Fleets.List() {
			names = append(names, f.Value.Namespace)
		}
		slices.Sort(names)
		var all []PersonObject
		for _, name := range slices.Compact(names) {
			o, _ := k.Get(name)
			all = append(all, o)
		}
		return all
	}
	k.Get = func(name string) (PersonObject, bool) {
		created, _, exists := a.namespaceIn(name)
		return showNamespace(k, name, created), exists
	}
	// A namespace comes with the first document in it, and goes with the last one.
	k.Changed = func(c subscribe.Change) (string, *PersonObject, bool) {
		if c.Collection != subscribe.Clusters && c.Collection != subscribe.Fleets {
			return "", nil, false
		}
		name := records.ClusterKey(c.Key).Namespace()
		created, since, exists := a.namespaceIn(name)
		if !exists {
			last := showNamespace(k, name, created)
			return name, &last, true
		}
		return name, nil, c.Created && since >= c.Revision && name != clusterspec.DefaultNamespace
	}
	return k
}

// namespaceIn is when the oldest document of a namespace was made, and the revision before which none of them was written. The default
// namespace is as old as the first user.
func (a People) namespaceIn(namespace string) (created time.Time, since int64, exists bool) {
	note := func(at time.Time, revision int64) {
		if !exists || at.Before(created) {
			created = at
		}
		if !exists || revision < since {
			since = revision
		}
		exists = true
	}
	for _, c := range a.State.Clusters.ListIn(namespace + "/") {
		note(c.Value.Created, c.Revision)
	}
	for _, f := range a.State.Fleets.ListIn(namespace + "/") {
		note(f.Value.Created, f.Revision)
	}
	if namespace == clusterspec.DefaultNamespace {
		for _, u := range a.State.Users.List() {
			note(u.Value.Created, 0)
		}
		exists = true
	}
	return created, since, exists
}

func showNamespace(k PersonKind, name string, created time.Time) PersonObject {
	content := personObject(k.Definition, about{name: name, labels: map[string]string{corev1.LabelMetadataName: name}}, map[string]any{
		"spec": map[string]any{"finalizers": []string{"kubernetes"}}, "status": map[string]any{"phase": string(corev1.NamespaceActive)},
	})
	if meta, ok := content["metadata"].(map[string]any); ok && !created.IsZero() {
		meta["creationTimestamp"] = created.UTC().Format(time.RFC3339)
	}
	return PersonObject{Key: name, May: auth.Object{Kind: auth.Namespace}, Content: content, Cells: []any{name, string(corev1.NamespaceActive), created}}
}
