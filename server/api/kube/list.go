// Many objects: LIST, whole or in pages, and the way to WATCH.

package kube

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/listing"
)

// List is GET of a type, or of its objects in one namespace; it is also where watches begin. Everybody may ask for it, and
// sees what they may see.
func (r *Resource) List(c *route.Call) (route.Answer, error) {
	return route.Answer{}, r.ListIn(c, c.Param("namespace"))
}

// ListIn is List for the objects of a namespace; "" for all. It refuses a query that cannot be read (400) and a version of before a restore (410).
func (r *Resource) ListIn(c *route.Call, namespace string) error {
	shape, err := shapeOf(c.R)
	if err != nil {
		return err
	}
	known := []string{"metadata.name", "metadata.namespace"}
	switch r.Plural {
	case "machines":
		known = append(known, "spec.clusterName")
	case "secrets":
		known = append(known, "type")
	}
	q, err := listing.Read(c.Query(), known...)
	if err != nil {
		return err
	}
	q.Namespace = namespace
	store := r.api.o.State.Store
	if q.Known && q.Version > store.Revision() && !listing.Reach(c.Ctx(), store.Revision, q.Version) {
		// This happens when the server was restored from a backup. "Expired" is what makes clients begin anew.
		return listing.Expired("resourceVersion %d is newer than the server's, %d: list again without one", q.Version, store.Revision())
	}
	if !q.Watch {
		return r.answerList(c, shape, q)
	}
	if restored, ok := store.Restored(); ok && q.Known && q.Version < restored.Revision {
		return listing.Expired("resourceVersion %d is of before this server was restored from a backup: list again without one", q.Version)
	}
	return r.watch(c, shape, q)
}

// page is where a list goes on: behind the key, with the revision of its first part, from which a watch of all
// parts misses nothing.
type page struct {
	Revision int64  `json:"rv"`
	Key      string `json:"key"`
}

func readPage(text string) (page, error) {
	var p page
	decoded, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || json.Unmarshal(decoded, &p) != nil || p.Revision <= 0 {
		return p, listing.Refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, "continue %.80q is not what a list before gave: list again without it", text)
	}
	return p, nil
}

func (p page) String() string {
	text, err := json.Marshal(p)
	if err != nil {
		return "" // a number and a text have a form
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

func (r *Resource) answerList(c *route.Call, s shape, q listing.Options) error {
	// The revision comes first: who watches from it may see something twice, but misses nothing.
	from := page{Revision: r.api.o.State.Store.Revision()}
	if q.Match == "Exact" && q.Version != from.Revision {
		return listing.Expired("resourceVersion %d is not kept, the server is at %d: list again without one", q.Version, from.Revision)
	}
	if q.Continue != "" {
		var err error
		if from, err = readPage(q.Continue); err != nil {
			return err
		}
	}
	objects := r.chosen(c, q)
	for len(objects) > 0 && objects[0].key <= from.Key && from.Key != "" {
		objects = objects[1:]
	}
	meta := map[string]any{"resourceVersion": strconv.FormatInt(from.Revision, 10)}
	if q.Limit > 0 && int64(len(objects)) > q.Limit {
		rest := len(objects) - int(q.Limit)
		objects = objects[:q.Limit]
		from.Key = objects[len(objects)-1].key
		meta["continue"] = from.String()
		if q.Labels == nil && q.Fields == nil {
			meta["remainingItemCount"] = rest
		}
	}
	c.SendPlain(http.StatusOK, r.presentList(s, objects, meta))
	return nil
}

// chosen are the objects that are asked for and that the caller may see, in the order of their keys.
func (r *Resource) chosen(c *route.Call, q listing.Options) []object {
	var chosen []object
	for _, o := range r.list() {
		if o.matches(q) && r.shows(c.Who, o) {
			chosen = append(chosen, o)
		}
	}
	return chosen
}
