// The table of resources: what each is called, what can be done with it, what people see of it
// in a table, and what it is made of.

package kube

import (
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/discovery"
)

// Definition is what a resource is called and how it looks.
type Definition struct {
	Group, Version, Kind string
	// Plural is the resource in paths; Short are abbreviations.
	Plural, Singular string
	Short            []string
	Namespaced       bool
	// Of is what auth.May knows the objects by.
	Of      auth.Kind
	Verbs   metav1.Verbs
	Columns []metav1.TableColumnDefinition
	Schema  *discovery.Schema
}

// GVK is group, version and kind.
func (d Definition) GVK() kschema.GroupVersionKind {
	return kschema.GroupVersionKind{Group: d.Group, Version: d.Version, Kind: d.Kind}
}

// APIVersion is that of the objects.
func (d Definition) APIVersion() string {
	if d.Group == "" {
		return d.Version
	}
	return d.Group + "/" + d.Version
}

// NamespaceDefinition are those of the core group, of which package planapi has the rest.
func NamespaceDefinition() Definition {
	return Definition{
		Version: "v1", Kind: "Namespace", Plural: "namespaces", Singular: "namespace", Short: []string{"ns"}, Of: auth.Namespace,
		Verbs: metav1.Verbs{"get", "list", "watch"}, Columns: columns("Name", "Status", "Age"),
	}
}

// SecretDefinition are those of people, also of the core group.
func SecretDefinition() Definition {
	return Definition{
		Version: "v1", Kind: "Secret", Plural: "secrets", Singular: "secret", Namespaced: true, Of: auth.SharedObject,
		Verbs: metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}, Columns: columns("Name", "Type", "Data#", "Age"),
	}
}

// definitions in the order in which clients look for a name: "clusters" are those of provisioning.cattle.io.
func definitions() []Definition {
	return append([]Definition{
		{
			Group: "provisioning.cattle.io", Version: "v1", Kind: "Cluster", Plural: "clusters", Singular: "cluster", Namespaced: true, Of: auth.ProvisionedCluster,
			Verbs:   metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"},
			Columns: columns("Name", "Ready", "State", "Version", "Machines#", "Age", "Id+", "Message+"), Schema: clusterSchema(),
		},
		{
			Group: "management.cattle.io", Version: "v3", Kind: "Cluster", Plural: "clusters", Singular: "cluster", Of: auth.Cluster,
			Verbs:   metav1.Verbs{"delete", "get", "list", "watch"},
			Columns: columns("Name", "Display name", "Ready", "State", "Provider", "Version", "Machines#", "Age"), Schema: managementSchema(),
		},
		{
			Group: "management.cattle.io", Version: "v3", Kind: "Setting", Plural: "settings", Singular: "setting", Of: auth.Setting,
			Verbs:   metav1.Verbs{"get", "list", "patch", "update", "watch"},
			Columns: columns("Name", "Value", "Source"), Schema: settingSchema(),
		},
		{
			Group: "cluster.x-k8s.io", Version: "v1beta1", Kind: "Machine", Plural: "machines", Singular: "machine", Short: []string{"ma"}, Namespaced: true, Of: auth.ClusterMachine,
			Verbs:   metav1.Verbs{"get", "list", "watch"},
			Columns: columns("Name", "Cluster", "Node", "Roles", "Phase", "State", "Age", "Version+", "Message+"), Schema: machineSchema(),
		},
	}, ofPeople()...)
}

// columns by their names: those with + are shown with -o wide, and those with # are numbers.
func columns(names ...string) []metav1.TableColumnDefinition {
	list := make([]metav1.TableColumnDefinition, len(names))
	for i, name := range names {
		one := metav1.TableColumnDefinition{Name: name, Type: "string"}
		switch name[len(name)-1] {
		case '+':
			one.Name, one.Priority = name[:len(name)-1], 1
		case '#':
			one.Name, one.Type = name[:len(name)-1], "integer"
		}
		if one.Name == "Name" {
			one.Format = "name"
		}
		list[i] = one
	}
	return list
}

// DefinitionOf is the definition of a resource.
func DefinitionOf(group, plural string) Definition {
	for _, d := range definitions() {
		if d.Group == group && d.Plural == plural {
			return d
		}
	}
	return Definition{}
}

// Groups are what discovery shows, in the order in which clients look for a name.
func Groups() []discovery.Group {
	var groups []discovery.Group
	kinds := map[string][]discovery.SchemaKind{}
	at := map[string]int{}
	for _, d := range definitions() {
		gv := d.Group + "/" + d.Version
		if _, known := at[gv]; !known {
			at[gv] = len(groups)
			groups = append(groups, discovery.Group{Name: d.Group, Version: d.Version})
		}
		one := &groups[at[gv]]
		one.Resources = append(one.Resources, metav1.APIResource{
			Name: d.Plural, SingularName: d.Singular, Namespaced: d.Namespaced, Kind: d.Kind, ShortNames: d.Short, Verbs: d.Verbs, Categories: []string{"drover"},
		})
		kinds[gv] = append(kinds[gv], discovery.SchemaKind{
			GVK: discovery.GVK{Group: d.Group, Version: d.Version, Kind: d.Kind}, Plural: d.Plural, Namespaced: d.Namespaced,
			Changes: d.changes(), Schema: d.Schema,
		})
		one.OpenAPI = discovery.OpenAPI(kinds[gv]...)
	}
	return append(groups, reviewGroups()...)
}

// changes says whether objects are written by patches.
func (d Definition) changes() bool {
	return slices.Contains(d.Verbs, "patch")
}

func objectSchema(description string, more map[string]*discovery.Schema) *discovery.Schema {
	s := discovery.Struct(description, map[string]*discovery.Schema{
		"apiVersion": discovery.Text("The group and version of the object."), "kind": discovery.Text("The kind of the object."), "metadata": metadataSchema(),
	})
	maps.Copy(s.Properties, more)
	return s
}

func metadataSchema() *discovery.Schema {
	return discovery.Struct("What all objects have.", map[string]*discovery.Schema{
		"name": discovery.Text("The name, which never changes."), "namespace": discovery.Text("The namespace; clusters are in fleet-default unless they say otherwise."),
		"labels": discovery.Texts("Labels, which selectors match."), "annotations": discovery.Texts("Annotations."),
		"uid": discovery.Text("Stable for the life of the object."), "resourceVersion": discovery.Text("Changes whenever the object does."),
		"generation": discovery.Whole("Grows with each change of what is wanted."), "creationTimestamp": discovery.Time("When the object was made."),
		"deletionTimestamp": discovery.Time("When its removal was asked for."), "deletionGracePeriodSeconds": discovery.Whole("Not used."),
		"finalizers":    discovery.List("What has to be done before the object is gone; the server does it and keeps this list.", discovery.Text("")),
		"managedFields": discovery.List("Who set which field; see server-side apply.", discovery.Open("")), "ownerReferences": discovery.List("Not supported.", discovery.Open("")),
		"generateName": discovery.Text("Not supported: names are not generated."), "selfLink": discovery.Text("Not used."),
	})
}

func conditionsSchema() *discovery.Schema {
	return discovery.List("How the object stands, one condition for each thing.", discovery.Struct("", map[string]*discovery.Schema{
		"type": discovery.Text("The name of the condition, such as Ready."), "status": discovery.Text("True, False or Unknown."),
		"reason": discovery.Text("A word for programs."), "message": discovery.Text("A sentence for people: what is waited for, or what went wrong."),
		"lastUpdateTime": discovery.Time("Since when."), "lastTransitionTime": discovery.Time("Since when."),
	}))
}

func clusterSchema() *discovery.Schema {
	spec := *discovery.SchemaOf(reflect.TypeFor[clusterspec.Spec](), discovery.Comments(), reflect.TypeFor[*clusterspec.RancherKubernetesEngineConfig]())
	spec.Description = "What is wanted of the cluster."
	return objectSchema("A cluster of k3s or RKE2 on hosts that register themselves, as its owner wants it and as it is.", map[string]*discovery.Schema{
		"spec": &spec,
		"status": {
			Type: "object", Description: "How the cluster is. The server writes it; what others write is left out.", Free: true,
			Properties: map[string]*discovery.Schema{
				"clusterName": discovery.Text("The id by which the management API knows the cluster."), "ready": discovery.Flag("Whether the cluster's own API answers through the server."),
				"agentDeployed": discovery.Flag("Whether a tunnel to its control plane is open."), "observedGeneration": discovery.Whole("The generation that the planner has looked at."),
				"fleetWorkspaceName": discovery.Text("The namespace."), "conditions": conditionsSchema(),
			},
		},
	})
}

func managementSchema() *discovery.Schema {
	return objectSchema("A cluster as the management API knows it, by its id. Its document is the Cluster of provisioning.cattle.io.", map[string]*discovery.Schema{
		"spec": discovery.Struct("Who it is.", map[string]*discovery.Schema{
			"displayName": discovery.Text("The cluster's name."), "description": discovery.Text("A few words about it."), "fleetWorkspaceName": discovery.Text("Its namespace."),
			"internal": discovery.Flag("Never true."),
		}),
		"status": {Type: "object", Description: "How the cluster is.", Free: true, Properties: map[string]*discovery.Schema{
			"driver": discovery.Text("How it is provisioned; empty before its first host joins."), "provider": discovery.Text("Its distribution."), "nodeCount": discovery.Whole("How many machines it has."),
			"apiEndpoint": discovery.Text("The URL of its own API, on a host."), "conditions": conditionsSchema(),
		}},
	})
}

func settingSchema() *discovery.Schema {
	return objectSchema("A setting of the server. All of them exist always; an empty value is the default.", map[string]*discovery.Schema{
		"value": discovery.Text("What was set; empty for the default."), "default": discovery.Text("What counts while nothing is set."),
		"customized": discovery.Flag("Whether the value that counts is not the default."), "source": discovery.Text("Where the value that counts is from: default, db or env."),
	})
}

func machineSchema() *discovery.Schema {
	return objectSchema("A host that registered for a cluster. Its label cluster.x-k8s.io/cluster-name is the cluster's name.", map[string]*discovery.Schema{
		"spec": {Type: "object", Description: "What it belongs to.", Free: true, Properties: map[string]*discovery.Schema{
			"clusterName": discovery.Text("The cluster's name."), "providerID": discovery.Text("The node's id."),
		}},
		"status": {Type: "object", Description: "How it is.", Free: true, Properties: map[string]*discovery.Schema{
			"phase":      discovery.Text("Pending, Provisioning, Provisioned, Running, Deleting or Failed."),
			"nodeRef":    discovery.Open("The node of the cluster that it is."),
			"addresses":  discovery.List("Where it is.", discovery.Open("")),
			"conditions": conditionsSchema(),
		}},
	})
}
