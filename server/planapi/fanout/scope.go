// Which Secrets a watch is about.

package fanout

import (
	"strings"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/records"
)

// Scope is which Secrets a list or watch is about.
type Scope struct {
	// Key is the one Secret, "<namespace>/<name>"; "" for many.
	Key string
	// Prefix is "<namespace>/", or "" for all namespaces; unused with Key.
	Prefix string
	// Fields and Labels narrow it further; nil for all.
	Fields fields.Selector
	Labels labels.Selector
}

// Covers says whether a key is in the scope; what is stored under it may still not match.
func (s *Scope) Covers(key string) bool {
	if s.Key != "" {
		return s.Key == key
	}
	return strings.HasPrefix(key, s.Prefix)
}

// Matches says whether a Secret that the scope covers is in it.
func (s *Scope) Matches(o records.Object) bool {
	if s.Labels != nil && !s.Labels.Matches(labels.Set(o.Labels)) {
		return false
	}
	return s.Fields == nil || s.Fields.Matches(fields.Set{"metadata.name": o.Name, "metadata.namespace": o.Namespace, "type": plans.SecretType})
}
