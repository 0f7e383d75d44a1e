// The plan Secret on the wire. Only its data is ours to change; everything else goes
// back as it came, fields of later Kubernetes releases included.

package remote

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"sync"

	"github.com/drover-project/drover/plans"
)

// Secret is one version of the plan Secret.
type Secret struct {
	UID             string
	ResourceVersion string
	Data            map[string][]byte

	// fields are all top-level fields as received, data left out.
	fields map[string]json.RawMessage
	// parsed is the plan in Data, once for all versions with the same; nil: it is read when it is asked for.
	parsed *parsedPlan
}

// parsedPlan is what a plan's text says, read at most once.
type parsedPlan struct {
	text     []byte
	checksum string
	once     sync.Once
	plan     *plans.Plan
	fault    error
}

func (p *parsedPlan) read() (*plans.Plan, error) {
	p.once.Do(func() { p.plan, p.fault = plans.Parse(p.text) })
	return p.plan, p.fault
}

// delivered is the Secret's plan.
func (s *Secret) delivered() *parsedPlan {
	if text := s.Data[plans.KeyPlan]; s.parsed == nil || !bytes.Equal(s.parsed.text, text) {
		return &parsedPlan{text: text, checksum: plans.Checksum(text)}
	}
	return s.parsed
}

// version is the Secret's resourceVersion; empty of no Secret.
func (s *Secret) version() string {
	if s == nil {
		return ""
	}
	return s.ResourceVersion
}

type objectMeta struct {
	Name            string            `json:"name"`
	Namespace       string            `json:"namespace"`
	UID             string            `json:"uid"`
	ResourceVersion string            `json:"resourceVersion"`
	Annotations     map[string]string `json:"annotations"`
}

// foreignError is an object that is well-formed and not the Secret we asked for.
type foreignError struct{ what string }

func (e *foreignError) Error() string {
	return "the server sent " + e.what + " instead of the plan Secret"
}

// parseSecret reads the Secret and checks that it is the one asked for.
func parseSecret(b []byte, namespace, name string) (*Secret, error) {
	fields := map[string]json.RawMessage{}
	if err := json.Unmarshal(b, &fields); err != nil {
		return nil, fmt.Errorf("read the Secret: %w", err)
	}
	var kind string
	var m objectMeta
	var data map[string][]byte
	for _, field := range []struct {
		name string
		into any
	}{{"kind", &kind}, {"metadata", &m}, {"data", &data}} {
		if text, ok := fields[field.name]; ok {
			if err := json.Unmarshal(text, field.into); err != nil {
				return nil, fmt.Errorf("read the Secret's %s: %w", field.name, err)
			}
		}
	}
	if kind != "" && kind != "Secret" {
		return nil, &foreignError{what: fmt.Sprintf("a %.40q", kind)}
	}
	if m.Name != name || (m.Namespace != "" && m.Namespace != namespace) {
		return nil, &foreignError{what: fmt.Sprintf("the object %.100q of namespace %.100q", m.Name, m.Namespace)}
	}
	if m.ResourceVersion == "" {
		return nil, errors.New("read the Secret: it has no metadata.resourceVersion")
	}
	delete(fields, "data")
	s := &Secret{UID: m.UID, ResourceVersion: m.ResourceVersion, Data: data, fields: fields}
	if s.Data == nil {
		s.Data = map[string][]byte{}
	}
	for key, value := range s.Data {
		if value == nil {
			s.Data[key] = []byte{} // null and "" are the same to us, and only "" is sent back
		}
	}
	return s, nil
}

// with is the Secret with some of its data replaced.
func (s *Secret) with(data map[string][]byte) *Secret {
	next := *s
	next.Data = data
	return &next
}

// encode renders the Secret for an update.
func (s *Secret) encode() ([]byte, error) {
	fields := maps.Clone(s.fields)
	data, err := json.Marshal(s.Data)
	if err != nil {
		return nil, fmt.Errorf("encode the Secret's data: %w", err)
	}
	fields["data"] = data
	// Items of a list come without these two, and an update needs them.
	for key, value := range map[string]string{"kind": `"Secret"`, "apiVersion": `"v1"`} {
		if len(fields[key]) == 0 {
			fields[key] = json.RawMessage(value)
		}
	}
	b, err := json.Marshal(fields)
	if err != nil {
		return nil, fmt.Errorf("encode the Secret: %w", err)
	}
	return b, nil
}

// holds says whether the data has all of these values already, byte for byte.
func (s *Secret) holds(values map[string][]byte) bool {
	for key, value := range values {
		if had, ok := s.Data[key]; !ok || !bytes.Equal(had, value) {
			return false
		}
	}
	return true
}
