package addons

// check.go says whether a text is objects of Kubernetes.

import (
	"fmt"

	"github.com/drover-project/drover/plans/strictyaml"
)

// Bounds of a text.
const (
	maxText   = 1_000_000 // bytes; a ConfigMap holds 1 MiB with all around it
	maxValues = 500_000
)

// check refuses a text that has more than objects with a kind, a version of its API and a name.
// Empty documents are passed over, as by kubectl. Errors repeat no values: a text may have Secrets.
func check(file string, text []byte) error {
	if len(text) > maxText {
		return fmt.Errorf("%s has %d bytes, more than the %d that a ConfigMap holds", file, len(text), maxText)
	}
	docs, err := strictyaml.Read(strictyaml.Source{File: file, Private: true, Limits: strictyaml.Limits{Bytes: maxText, Values: maxValues}}, text)
	if err != nil {
		return err
	}
	for _, doc := range docs {
		if err := object(doc.Root()); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return nil
}

// maxItems bounds the objects of a List.
const maxItems = 10_000

func object(n *strictyaml.Node) error {
	var kind, version, name string
	var isList bool
	err := n.Fields(strictyaml.Readers{
		"kind": strictyaml.TextInto(&kind), "apiVersion": strictyaml.TextInto(&version),
		"metadata": func(m *strictyaml.Node) error {
			return m.Fields(strictyaml.Readers{"name": strictyaml.TextInto(&name)})
		},
		"items": func(items *strictyaml.Node) error {
			isList = true
			return items.Items(maxItems, object)
		},
	})
	switch {
	case err != nil:
		return err
	case kind == "":
		return n.Fault("an object has no kind; expected documents of Kubernetes objects, with --- between them")
	case version == "":
		return n.Fault("the object of kind %.60q has no apiVersion", kind)
	case name == "" && !(isList && kind == "List"):
		return n.Fault("the object of kind %.60q has no metadata.name, by which it is applied again", kind)
	}
	return nil
}
