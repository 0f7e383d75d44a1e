// A plan Secret as JSON, there and back. It is written by hand: the data are most of
// it, and are encoded straight into the answer.

package planapi

import (
	"encoding/base64"
	"encoding/json"
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
		first := true
		records.EachSorted(d.Value.Data, func(key string, value []byte) {
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(records.AppendString(b, key), `:"`...)
			b = append(base64.StdEncoding.AppendEncode(b, value), '"')
		})
		b = append(b, '}')
	}
	b = append(b, `,"type":`...)
	return append(records.AppendString(b, plans.SecretType), '}')
}

func appendMetadata(b []byte, o records.Object, revision int64) []byte {
	b = records.AppendString(append(b, `{"name":`...), o.Name)
	b = records.AppendString(append(b, `,"namespace":`...), o.Namespace)
	b = records.AppendString(append(b, `,"uid":`...), o.UID)
	b = records.AppendString(append(b, `,"resourceVersion":`...), decimal(revision))
	if !o.Created.IsZero() {
		b = records.AppendString(append(b, `,"creationTimestamp":`...), o.Created.UTC().Format(time.RFC3339))
	}
	b = records.AppendStrings(b, "labels", o.Labels)
	b = records.AppendStrings(b, "annotations", o.Annotations)
	return append(b, '}')
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

// body is a Secret that a client sends. Data is how its data are read.
type body[Data any] struct {
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
	Data       Data              `json:"data"`
	StringData map[string]string `json:"stringData"`
}

// check refuses what is not the Secret of the request's path.
func (b body[Data]) check(d document) error {
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
