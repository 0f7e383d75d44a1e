// Package objects holds the Secrets and ConfigMaps that clusters refer to by name and hosts get by their plans: what
// they are, and how they are read from YAML or JSON. What is in them is repeated in no error.
package objects

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drover-project/drover/plans/strictyaml"
)

// Kinds of objects.
const (
	Secret    = "Secret"
	ConfigMap = "ConfigMap"
)

// apiVersion is the apiVersion of both kinds.
const apiVersion = "v1"

// maxData bounds the values of one object together, in bytes; Kubernetes has the same bound.
const maxData = 1 << 20

// maxName bounds the name of an object and the type of a Secret, in characters.
const maxName = 253

var (
	namePattern = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*$`)
	})
	namespacePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })
	keyPattern       = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9._-]{1,253}$`) })
)

// ValidName says whether a text can be the name of a Secret or a ConfigMap.
func ValidName(name string) bool { return len(name) <= maxName && namePattern().MatchString(name) }

// ValidKey says whether a text can be a key in one.
func ValidKey(key string) bool { return keyPattern().MatchString(key) }

// Annotations of objects that allow clusters to use them. The first lists names or IDs of clusters with commas between
// them, the second, of a Secret with cloud credentials, has the one. See Object.Clusters for what a name means.
//
// Source: rancher/rancher pkg/capr, AuthorizedObjectAnnotation and AuthorizedSecretAnnotation.
const (
	AuthorizedObject      = "rke.cattle.io/object-authorized-for-clusters"
	AuthorizedCloudConfig = "v2prov-secret-authorized-for-cluster"
)

// Types of Secrets that registries name.
const (
	AuthConfigSecret   = "rke.cattle.io/auth-config"
	BasicAuthSecret    = "kubernetes.io/basic-auth"
	DockerConfigSecret = "kubernetes.io/dockerconfigjson"
	TLSSecret          = "kubernetes.io/tls"
)

// CredentialsNamespace has the credentials that are made over /v3. Source: rancher/rancher pkg/namespace, GlobalNamespace.
const CredentialsNamespace = "cattle-global-data"

// Metadata are the parts of the metadata that an owner may set.
type Metadata struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

// Object is a Secret or a ConfigMap. Its values are shown to those alone who may read it, by Object.Form. Key: Object.Key.
type Object struct {
	// Kind is Secret or ConfigMap.
	Kind string `json:"kind"`
	Metadata
	// Type is that of a Secret; Opaque where its document names none.
	Type string `json:"type,omitempty"`
	// Data are the values as they become files, not in base64.
	Data map[string][]byte `json:"data,omitempty"`
	// UID differs after deletion and re-creation.
	UID string `json:"uid,omitempty"`
	// CreatorID is the user who made it, who may read, change and remove it; empty where that is not known.
	CreatorID string `json:"creatorID,omitempty"`
	// Clusters are the IDs of the clusters that its annotations name, by the name there; empty for a name that no cluster had
	// when it was written.
	Clusters map[string]string `json:"clusters,omitempty"`
}

// Key is "<kind>/<namespace>/<name>".
func (o Object) Key() string { return KeyOf(o.Kind, o.Namespace, o.Name) }

// KeyOf is the key of the object of that kind and name.
func KeyOf(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// Named is an object by its key as sentences name it: secret fleet-default/mirror.
func Named(key string) string {
	kind, name, _ := strings.Cut(key, "/")
	return strings.ToLower(kind) + " " + name
}

// Equal says whether two objects are the same in all that a document gives, and in what their annotations mean.
func Equal(a, b Object) bool {
	return a.Key() == b.Key() && a.Type == b.Type && maps.Equal(a.Clusters, b.Clusters) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations) &&
		maps.EqualFunc(a.Data, b.Data, slices.Equal)
}

// document is the document of an object.
type document struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   Metadata          `json:"metadata"`
	Type       string            `json:"type"`
	Data       map[string]string `json:"data"`
	StringData map[string]string `json:"stringData"`
	BinaryData map[string]string `json:"binaryData"`
}

// Is says whether a document is that of a Secret or ConfigMap. Everything else is read as a cluster, which
// refuses what is none.
func Is(text *strictyaml.Document) bool {
	var head struct {
		Kind any `json:"kind"`
	}
	text.Decode(&head, strictyaml.Options{Ignore: strictyaml.IgnoreAll})
	return head.Kind == Secret || head.Kind == ConfigMap
}

// Read reads one document of a Secret or ConfigMap, into a namespace where it names none. Fields that ignore accepts are
// those that clients send back as they read them. Complaints repeat no value.
func Read(text *strictyaml.Document, namespace string, ignore func(path string) bool) (Object, strictyaml.Errors) {
	var doc document
	bad := text.Decode(&doc, strictyaml.Options{Private: true, Ignore: ignore, IgnoreZero: func(path string) bool { return path == "immutable" }})
	o := Object{Kind: doc.Kind, Metadata: doc.Metadata, Type: doc.Type, Data: map[string][]byte{}}
	o.Namespace = cmp.Or(o.Namespace, namespace)
	// A client's copy of the whole object, with the values in it.
	o.Annotations = maps.Clone(o.Annotations)
	delete(o.Annotations, "kubectl.kubernetes.io/last-applied-configuration")
	c := &checker{text: text}
	if doc.APIVersion != apiVersion {
		c.fail("apiVersion", "is %.100q where %s belongs", doc.APIVersion, apiVersion)
	}
	if !ValidName(o.Name) {
		c.fail("metadata.name", "%.300q is not the name of a Kubernetes object", o.Name)
	}
	if !namespacePattern().MatchString(o.Namespace) {
		c.fail("metadata.namespace", "%.300q is not a namespace name", o.Namespace)
	}
	c.values(doc, &o)
	for _, name := range o.AllowedNames() {
		if !namespacePattern().MatchString(name) {
			c.fail("metadata.annotations", "%s: %.100q is not the name of a cluster", AuthorizedObject, name)
		}
	}
	// That a field is missing says nothing new where it could not be read.
	c.errs = slices.DeleteFunc(c.errs, func(e strictyaml.Error) bool {
		return slices.ContainsFunc(bad, func(r strictyaml.Error) bool { return strings.EqualFold(r.Path, e.Path) })
	})
	return o, append(bad, c.errs...)
}

// checker collects complaints about one document.
type checker struct {
	text *strictyaml.Document
	errs strictyaml.Errors
}

func (c *checker) fail(at, format string, args ...any) {
	c.errs = append(c.errs, strictyaml.Error{Path: at, Line: c.text.LineOf(at), Reason: fmt.Sprintf(format, args...)})
}

// values are those of an object: a Secret has them in base64 in data, and as they are in stringData, which wins; a
// ConfigMap as they are in data, and in base64 in binaryData.
func (c *checker) values(doc document, o *Object) {
	encoded, plain := doc.Data, doc.StringData
	at, plainAt := "data", "stringData"
	if doc.Kind == ConfigMap {
		encoded, plain, at, plainAt = doc.BinaryData, doc.Data, "binaryData", "data"
		if doc.StringData != nil {
			c.fail("stringData", "is not a field of a ConfigMap; write data")
		}
		if doc.Type != "" {
			c.fail("type", "is not a field of a ConfigMap")
		}
	} else if doc.BinaryData != nil {
		c.fail("binaryData", "is not a field of a Secret; write data")
	}
	size := 0
	take := func(at, key string, value []byte) {
		if !ValidKey(key) {
			c.fail(at, "%.300q is not a key of a Secret or ConfigMap", key)
		}
		size += len(value)
		o.Data[key] = value
	}
	for _, key := range slices.Sorted(maps.Keys(encoded)) {
		value, err := base64.StdEncoding.DecodeString(encoded[key])
		if err != nil {
			c.fail(at, "the value of %.300q is not base64; a value as it is belongs into %s", key, plainAt)
		}
		take(at, key, value)
	}
	for _, key := range slices.Sorted(maps.Keys(plain)) {
		take(plainAt, key, []byte(plain[key]))
	}
	if size > maxData {
		c.fail("data", "has %d KiB of values, more than the %d KiB allowed", size>>10, maxData>>10)
	}
	if doc.Kind == Secret {
		c.secretType(o)
	}
}

// secretType refuses a Secret that its type says can not be used.
func (c *checker) secretType(o *Object) {
	o.Type = cmp.Or(o.Type, "Opaque")
	if len(o.Type) > maxName {
		c.fail("type", "is longer than %d characters", maxName)
	}
	missing := func(keys ...string) {
		for _, key := range keys {
			if len(o.Data[key]) > 0 {
				return
			}
		}
		c.fail("data", "a Secret of type %s needs %s", o.Type, strings.Join(keys, " or "))
	}
	switch o.Type {
	case TLSSecret:
		missing("tls.crt")
		missing("tls.key")
	case BasicAuthSecret:
		missing("username", "password")
	case AuthConfigSecret:
		missing("username", "password", "auth", "identityToken")
	case DockerConfigSecret:
		missing(".dockerconfigjson")
		if !json.Valid(o.Data[".dockerconfigjson"]) && len(o.Data[".dockerconfigjson"]) > 0 {
			c.fail("data", "the value of .dockerconfigjson is not JSON")
		}
	}
}

// AllowedNames are the names and IDs of clusters in the object's annotations.
func (o Object) AllowedNames() []string {
	var names []string
	for name := range strings.SplitSeq(o.Annotations[AuthorizedObject]+","+o.Annotations[AuthorizedCloudConfig], ",") {
		if name = strings.TrimSpace(name); name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Allows says whether the object's annotations allow the cluster of that ID to use it.
func (o Object) Allows(clusterID string) bool {
	if clusterID == "" {
		return false
	}
	for _, id := range o.Clusters {
		if id == clusterID {
			return true
		}
	}
	return false
}

// Form is a Secret in the form of Kubernetes, with its values: for those who may read it. The revision is that of its document.
func (o Object) Form(revision int64) map[string]any {
	data := o.Data // in base64 once it is written as JSON, by those who may read it alone
	if data == nil {
		data = map[string][]byte{}
	}
	metadata := map[string]any{"name": o.Name, "namespace": o.Namespace, "uid": o.UID, "resourceVersion": strconv.FormatInt(revision, 10)}
	for field, values := range map[string]map[string]string{"labels": o.Labels, "annotations": o.Annotations} {
		if len(values) > 0 {
			metadata[field] = maps.Clone(values)
		}
	}
	return map[string]any{"apiVersion": apiVersion, "kind": o.Kind, "metadata": metadata, "type": o.Type, "data": data}
}
