// How many objects of each type there are, which dashboards ask for before anything else.

package steve

import (
	"net/http"
	"strconv"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
)

// summary counts objects.
type summary struct {
	Count         int            `json:"count"`
	States        map[string]int `json:"states,omitempty"`
	Errors        int            `json:"errors,omitempty"`
	Transitioning int            `json:"transitioning,omitempty"`
}

func (s *summary) add(o Object) {
	s.Count++
	state := map[string]any{}
	if metadata, ok := o["metadata"].(map[string]any); ok {
		state, _ = metadata["state"].(map[string]any)
	}
	if name, ok := state["name"].(string); ok {
		if s.States == nil {
			s.States = map[string]int{}
		}
		s.States[name]++
	}
	if state["error"] == true {
		s.Errors++
	}
	if state["transitioning"] == true {
		s.Transitioning++
	}
}

// count is what there is of one type.
type count struct {
	Summary    summary             `json:"summary"`
	Revision   string              `json:"revision"`
	Namespaces map[string]*summary `json:"namespaces,omitempty"`
}

// Counts is GET /v1/counts. Wire source: rancher/steve pkg/resources/counts.
func (a *API) Counts(call *route.Call) (route.Answer, error) {
	c := a.start(call)
	revision := strconv.FormatInt(a.State.Store.Revision(), 10)
	counts := map[string]*count{}
	for _, k := range a.kinds {
		if !k.allows(c.Who, auth.ListAll) {
			continue
		}
		n := &count{Revision: revision}
		for _, o := range k.list(c) {
			n.Summary.add(o)
			if !k.schema.Namespaced {
				continue
			}
			namespace := o.At("metadata.namespace")[0]
			if n.Namespaces == nil {
				n.Namespaces = map[string]*summary{}
			}
			if n.Namespaces[namespace] == nil {
				n.Namespaces[namespace] = &summary{}
			}
			n.Namespaces[namespace].add(o)
		}
		counts[k.schema.ID()] = n
	}
	self := c.base + "/counts"
	return route.Answer{Status: http.StatusOK, Body: map[string]any{
		"type": "collection", "resourceType": "count", "links": map[string]string{"self": self}, "actions": map[string]string{},
		"data": []map[string]any{{"id": "count", "type": "count", "links": map[string]string{"self": self + "/count"}, "counts": counts}},
	}}, nil
}
