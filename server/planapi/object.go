// A plan Secret as JSON, there and back. It is written by hand: the data are most of
// it, and are encoded straight into the answer.

package planapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/planapi/fanout"
	"github.com/drover-project/drover/server/records"
)

// document is a plan Secret with its revision.
type document = fanout.Document

func decimal(revision int64) string { return strconv.FormatInt(revision, 10) }

// appendSecret appends the Secret as JSON. Empty values are "" and never null: the
// original agent compares what it gets byte for byte with what it sent, and would
// write for ever.
func appendSecret(b []byte, d document) []byte {
	b = append(b, `{"kind":"Secret","apiVersion":"v1","metadata":`...)
	b = appendMetadata(b, d.Value.Object, d.Revision)
	if len(d.Value.Data) > 0 {
		b = append(b, `,"data":{`...)
		for i, key := range slices.Sorted(maps.Keys(d.Value.Data)) {
			if i > 0 {
				b = append(b, ',')
			}
			b = append(appendString(b, key), `:"`...)
			b = append(base64.StdEncoding.AppendEncode(b, d.Value.Data[key]), '"')
		}
		b = append(b, '}')
	}
	b = append(b, `,"type":`...)
	return append(appendString(b, plans.SecretType), '}')
}

func appendMetadata(b []byte, o records.Object, revision int64) []byte {
	b = appendString(append(b, `{"name":`...), o.Name)
	b = appendString(append(b, `,"namespace":`...), o.Namespace)
	b = appendString(append(b, `,"uid":`...), o.UID)
	b = appendString(append(b, `,"resourceVersion":`...), decimal(revision))
	if !o.Created.IsZero() {
		b = appendString(append(b, `,"creationTimestamp":`...), o.Created.UTC().Format(time.RFC3339))
	}
	b = appendMap(b, `,"labels":`, o.Labels)
	b = appendMap(b, `,"annotations":`, o.Annotations)
	return append(b, '}')
}

func appendMap(b []byte, name string, m map[string]string) []byte {
	if len(m) == 0 {
		return b
	}
	b = append(b, name...)
	for i, key := range slices.Sorted(maps.Keys(m)) {
		c := byte(',')
		if i == 0 {
			c = '{'
		}
		b = append(appendString(append(b, c), key), ':')
		b = appendString(b, m[key])
	}
	return append(b, '}')
}

func appendString(b []byte, s string) []byte {
	if isPlain(s) {
		return append(append(append(b, '"'), s...), '"')
	}
	quoted, err := json.Marshal(s)
	if err != nil {
		return append(b, `""`...) // cannot happen: every string has a JSON form
	}
	return append(b, quoted...)
}

// isPlain says whether a string is its own JSON: nothing in it needs an escape.
func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			return false
		}
	}
	return true
}

// encodedSize is about what appendSecret needs.
func encodedSize(d document) int {
	n := 1024
	for key, value := range d.Value.Data {
		n += len(key) + 8 + base64.StdEncoding.EncodedLen(len(value))
	}
	return n
}

func encodeSecret(d document) []byte { return appendSecret(make([]byte, 0, encodedSize(d)), d) }

// body is a Secret that a client sends. Value is how a data value is read.
type body[Value any] struct {
	Kind       string `json:"kind"`
	APIVersion string `json:"apiVersion"`
	Metadata   struct {
		Name            string            `json:"name"`
		Namespace       string            `json:"namespace"`
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Labels          map[string]string `json:"labels"`
		Annotations     map[string]string `json:"annotations"`
		Finalizers      []string          `json:"finalizers"`
		OwnerReferences []json.RawMessage `json:"ownerReferences"`
	} `json:"metadata"`
	Immutable  bool              `json:"immutable"`
	Type       string            `json:"type"`
	Data       map[string]Value  `json:"data"`
	StringData map[string]string `json:"stringData"`
}

// check refuses what is not the Secret of the request's path.
func (b body[Value]) check(d document) error {
	name := d.Value.Name
	switch {
	case b.Kind != "" && b.Kind != "Secret" || b.APIVersion != "" && b.APIVersion != "v1":
		return badRequest("the body is a %s of %s and not a Secret of v1", b.Kind, b.APIVersion)
	case b.Metadata.Name != "" && b.Metadata.Name != name || b.Metadata.Namespace != "" && b.Metadata.Namespace != d.Value.Namespace:
		return badRequest("the body is Secret %s/%s and not that of the path, %s", b.Metadata.Namespace, b.Metadata.Name, d.Key)
	case b.Metadata.UID != "" && b.Metadata.UID != d.Value.UID:
		f := conflict(name, b.Metadata.ResourceVersion, d.Revision)
		f.message = "Precondition failed: the Secret was removed and made again since you read it (UID " + b.Metadata.UID + ", now " + d.Value.UID + ")"
		return f
	case b.Type != "" && b.Type != plans.SecretType:
		return invalid(name, "type: field is immutable; it is %s", plans.SecretType)
	}
	return nil
}

// agentData reads the agent's own keys out of a body; the plan and other keys of the
// server come back with every update and are not even decoded. null is an empty value.
func agentData(raw map[string]json.RawMessage) (map[string][]byte, error) {
	data := make(map[string][]byte, len(plans.AgentKeys()))
	for _, key := range plans.AgentKeys() {
		text, ok := raw[key]
		if !ok {
			continue
		}
		value, err := base64Value(text)
		if err != nil {
			return nil, badRequest("data[%s] is not standard base64 in a JSON string", key)
		}
		data[key] = value
	}
	return data, nil
}

// base64Value reads a value of data, which is valid JSON.
func base64Value(text json.RawMessage) ([]byte, error) {
	if len(text) >= 2 && text[0] == '"' && bytes.IndexByte(text, '\\') < 0 {
		value := make([]byte, 0, base64.StdEncoding.DecodedLen(len(text)-2))
		return base64.StdEncoding.AppendDecode(value, text[1:len(text)-1])
	}
	value := []byte{}
	err := json.Unmarshal(text, &value)
	if value == nil {
		value = []byte{}
	}
	return value, err
}
