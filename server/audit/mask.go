// Bodies of requests without what could be a secret. What a body may hold is open: documents with any
// settings of any component, values of charts, manifests within texts. So what is shown is a list of
// what is harmless, and all else is masked.

package audit

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"strings"
	"sync"

	"gopkg.in/yaml.v3"
)

// MaxBody is the largest body that is recorded, in bytes.
const MaxBody = 64 << 10

const (
	masked = "•••"
	// maxShown bounds a value that is shown, in bytes.
	maxShown = 256
	// maxDepth bounds how deep values are nested; what is deeper is masked.
	maxDepth = 32
)

// harmless are the fields, in lower case, whose texts and numbers are shown: names, kinds, versions and counts.
// Never add one that people write free text, addresses with passwords, or parts of files into; a login name is
// none of them, as passwords are typed into the wrong field.
var harmless = map[string]bool{
	"apiversion": true, "kind": true, "type": true, "name": true, "namespace": true, "id": true,
	"clusterid": true, "clustername": true, "userid": true, "projectid": true, "principalid": true, "roletemplateid": true, "globalrolename": true,
	"kubernetesversion": true, "version": true, "responsetype": true, "ttl": true,
	"quantity": true, "maxunavailable": true, "concurrency": true, "retention": true, "snapshotretention": true, "snapshotschedulecron": true,
	"cni": true, "operator": true, "effect": true, "generation": true, "snapshot": true, "machine": true, "window": true,
}

// fieldName is what is shown as the name of a field.
var fieldName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z][A-Za-z0-9._/-]{0,63}$`) })

// Masked is a body of JSON or YAML with the structure that it has and harmless values alone, as JSON. Of
// what is neither, too large or nested too deep there is only a sentence that says so. kind is that of the object:
// of a setting the value is shown, since settings are read by everybody.
func Masked(body []byte, kind string) json.RawMessage {
	if len(body) > MaxBody {
		return quoted("not recorded: it is larger than 64 KiB")
	}
	decoder := yaml.NewDecoder(bytes.NewReader(body))
	documents := []any{}
	for {
		var node yaml.Node
		err := decoder.Decode(&node)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return quoted("not recorded: it is neither JSON nor YAML")
		}
		documents = append(documents, mask(&node, "", kind, maxDepth))
	}
	var value any = documents
	switch len(documents) {
	case 0:
		return nil
	case 1:
		value = documents[0]
	}
	text, err := json.Marshal(value)
	if err != nil {
		return quoted("not recorded: it cannot be written as JSON")
	}
	if len(text) > maxLine/2 { // a mask is longer than what it stands for
		return quoted("not recorded: it has too many values")
	}
	return text
}

func quoted(text string) json.RawMessage { return json.RawMessage(`"` + text + `"`) }

// mask is a value with the name of the field that it is of.
func mask(n *yaml.Node, field, kind string, depth int) any {
	if depth == 0 {
		return masked
	}
	switch n.Kind {
	case yaml.DocumentNode:
		if len(n.Content) == 1 {
			return mask(n.Content[0], field, kind, depth)
		}
	case yaml.SequenceNode:
		all := make([]any, len(n.Content))
		for i, one := range n.Content {
			all[i] = mask(one, field, kind, depth-1)
		}
		return all
	case yaml.MappingNode:
		all := map[string]any{}
		for i := 0; i+1 < len(n.Content); i += 2 {
			name := n.Content[i].Value
			if n.Content[i].Kind != yaml.ScalarNode || !fieldName().MatchString(name) {
				name = masked
			}
			all[name] = mask(n.Content[i+1], name, kind, depth-1)
		}
		return all
	case yaml.ScalarNode:
		return scalar(n, strings.ToLower(field), kind)
	case yaml.AliasNode: // never followed: a few of them can stand for a very long text
	}
	return masked
}

func scalar(n *yaml.Node, field, kind string) any {
	switch n.Tag {
	case "!!null":
		return nil
	case "!!bool":
		return strings.EqualFold(n.Value, "true")
	}
	if !harmless[field] && (kind != settingsKind || field != "value") {
		return masked
	}
	if len(n.Value) > maxShown {
		return n.Value[:maxShown] + "…"
	}
	return n.Value
}
