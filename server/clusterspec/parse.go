// Reading cluster documents: everything is checked before anything is returned, and
// every complaint names the field and its line.

package clusterspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/plans/strictyaml"
)

// MaxSize is the largest stream of documents that is read, in bytes.
const MaxSize = 2 << 20

// Stream is what a text describes: clusters, and the Secrets and ConfigMaps that they refer to.
type Stream struct {
	Clusters []Document
	Objects  []objects.Object
}

// Parse reads a stream of cluster documents alone, as ParseStream does. The errors are strictyaml.Errors.
func Parse(data []byte, known *versions.Data) ([]Document, error) {
	stream, err := ParseStream(data, known)
	if err == nil && len(stream.Objects) > 0 {
		return nil, strictyaml.Errors{{Path: "kind", Reason: fmt.Sprintf("is %s where %s belongs", stream.Objects[0].Kind, Kind)}}
	}
	return stream.Clusters, err
}

// secretStream matches a text that may have a Secret in it, whether it is YAML or not.
var secretStream = regexp.MustCompile(`(?m)kind["']?\s*:\s*["']?Secret\b`)

// ParseStream reads a stream of documents of clusters, Secrets and ConfigMaps, YAML or JSON, also in a List as kubectl writes it, and checks
// each cluster against the known versions. The documents are returned only when all of them are good;
// the error is then a strictyaml.Errors with everything that is wrong.
func ParseStream(data []byte, known *versions.Data) (Stream, error) {
	texts, err := strictyaml.Read(strictyaml.Source{Limits: strictyaml.Limits{Bytes: MaxSize}}, data)
	if err != nil && secretStream.Match(data) {
		// The parser's own words may repeat a value.
		_, err = strictyaml.Read(strictyaml.Source{Private: true, Limits: strictyaml.Limits{Bytes: MaxSize}}, data)
	}
	if err != nil {
		return Stream{}, err
	}
	if len(texts) == 0 {
		return Stream{}, strictyaml.Errors{{Reason: "there is no document in this text; expected kind Cluster of " + APIVersion + " or " + DockerAPIVersion}}
	}
	var stream Stream
	var errs strictyaml.Errors
	first := map[string]int{}
	for _, text := range inLists(texts) {
		var bad strictyaml.Errors
		var key, name string
		if objects.Is(text) {
			var o objects.Object
			o, bad = objects.Read(text, DefaultNamespace, FilledByServer)
			key, name = o.Key(), o.Name
			stream.Objects = append(stream.Objects, o)
		} else if reason := foreign(text); reason != "" {
			bad = strictyaml.Errors{{Path: "kind", Line: max(text.LineOf("kind"), text.Line()), Reason: reason}}
		} else {
			var doc Document
			doc, bad = readCluster(text, known)
			key, name = doc.Metadata.Namespace+"/"+doc.Metadata.Name, doc.Metadata.Name
			stream.Clusters = append(stream.Clusters, doc)
		}
		if line, ok := first[key]; ok && name != "" {
			bad = append(bad, strictyaml.Error{Path: "metadata.name", Line: text.LineOf("metadata.name"),
				Reason: fmt.Sprintf("%q is described twice, first in the document of line %d", name, line)})
		} else {
			first[key] = text.Line()
		}
		errs = append(errs, bad...)
	}
	if len(errs) > 0 {
		return Stream{}, errs
	}
	return stream, nil
}

// head is what a document is.
type head struct {
	APIVersion any `json:"apiVersion"`
	Kind       any `json:"kind"`
}

func headOf(text *strictyaml.Document) (h head) {
	text.Decode(&h, strictyaml.Options{Ignore: strictyaml.IgnoreAll})
	return h
}

// inLists are documents, those of a List in place of it.
func inLists(texts []*strictyaml.Document) (all []*strictyaml.Document) {
	for _, text := range texts {
		if headOf(text) == (head{"v1", "List"}) {
			all = append(all, text.Items("items")...)
		} else {
			all = append(all, text)
		}
	}
	return all
}

// foreign says that a document is of a kind that is none of drover's, which its fields need not be looked at for; "" where it may be one.
func foreign(text *strictyaml.Document) string {
	h := headOf(text)
	for _, key := range []string{"rancher_kubernetes_engine_config", "rancherKubernetesEngineConfig"} {
		if _, options := text.At(key); options && h.Kind == nil {
			return fmt.Sprintf("is missing; the document has %s, as Rancher's form of a cluster of RKE1 saves it: write apiVersion: %s, kind: %s and metadata: {name: …} "+
				"above it, and what is below it under spec.rancherKubernetesEngineConfig; the options beside it have camel case there", key, DockerAPIVersion, Kind)
		}
	}
	version, _ := h.APIVersion.(string)
	kind, _ := h.Kind.(string)
	if kind == "" || kind == Kind || version == APIVersion {
		return ""
	}
	return fmt.Sprintf("%.80s of %.80s is no document that drover keeps: take it out, and apply it where it belongs; here belong %s of %s or %s, Secret and ConfigMap", kind, version, Kind, APIVersion, DockerAPIVersion)
}

// readCluster reads and checks one document of a cluster.
func readCluster(text *strictyaml.Document, known *versions.Data) (Document, strictyaml.Errors) {
	var fields struct {
		APIVersion string        `json:"apiVersion"`
		Kind       string        `json:"kind"`
		Metadata   Metadata      `json:"metadata"`
		Spec       withoutBlanks `json:"spec"`
	}
	bad := text.Decode(&fields, strictyaml.Options{Unknown: reasonOf, Ignore: FilledByServer, IgnoreZero: OfRancher})
	doc := Document{APIVersion: fields.APIVersion, Kind: fields.Kind, Metadata: fields.Metadata, Spec: Spec(fields.Spec)}
	bad = without(bad, usual(text, doc.Metadata))
	if doc.Spec.Docker() {
		own, notes, wrong := readRKE1Config(text)
		doc.Spec.RancherKubernetesEngineConfig, doc.Notes, bad = &own, notes, append(bad, wrong...)
	}
	doc.Metadata.Namespace = cmp.Or(doc.Metadata.Namespace, DefaultNamespace)
	refused, notes := check(doc, text, known)
	doc.Notes = append(doc.Notes, notes...)
	if bad = append(bad, without(refused, bad)...); len(bad) == 0 {
		var written map[string]any
		if spec, ok := text.At("spec"); ok {
			spec.Decode(&written, strictyaml.Options{})
		}
		if err := doc.Spec.keepBlanks(written); err != nil {
			bad = strictyaml.Errors{{Path: "spec", Line: text.LineOf("spec"), Reason: err.Error()}}
		}
	}
	return doc, bad
}

// without leaves out complaints about fields that could not even be read: that a field is missing
// says nothing new to a user who just learned that it is misspelt.
func without(errs, read strictyaml.Errors) strictyaml.Errors {
	return slices.DeleteFunc(errs, func(e strictyaml.Error) bool {
		return slices.ContainsFunc(read, func(r strictyaml.Error) bool { return strings.EqualFold(r.Path, e.Path) })
	})
}

// ParseSpec reads and checks one document whose kind, version and name come from elsewhere (a request's URL); used where a client sends one object.
// The errors are strictyaml.Errors.
func ParseSpec(data []byte, known *versions.Data) (Document, error) {
	docs, err := Parse(data, known)
	if err != nil {
		return Document{}, err
	}
	if len(docs) != 1 {
		return Document{}, strictyaml.Errors{{Reason: fmt.Sprintf("%d documents where one belongs", len(docs))}}
	}
	return docs[0], nil
}

// FilledByServer are fields that clients send back as they read them.
func FilledByServer(path string) bool {
	switch path {
	case "status", "id", "__clone", "type", "links", "actions", "actionLinks",
		"metadata.uid", "metadata.resourceVersion", "metadata.generation", "metadata.creationTimestamp", "metadata.managedFields",
		"metadata.finalizers", "metadata.ownerReferences", "metadata.deletionTimestamp", "metadata.deletionGracePeriodSeconds",
		"metadata.selfLink", "metadata.state", "metadata.relationships", "metadata.fields":
		return true
	}
	return false
}

// OfRancher says that a field is one that Rancher's clusters have and drover's do not. It is refused with its reason,
// but for a zero value: Terraform and Rancher's UI send those of all of them, which ask for nothing.
func OfRancher(path string) bool {
	return reasonOf(path) != ""
}

// Equal says whether two specs ask for the same, with any empty values written in them.
func Equal(a, b Spec) bool {
	a.Blanks, b.Blanks = nil, nil
	return Same(a, b)
}

// Same says whether two specs are written the same, empty values included.
func Same(a, b Spec) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
