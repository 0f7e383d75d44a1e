// Many Secrets: LIST, and WATCH, which says where a stream begins.

package planapi

import (
	"bufio"
	"encoding/json"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/planapi/fanout"
	"github.com/drover-project/drover/server/store"
)

// listOptions are the query of a list or watch.
type listOptions struct {
	listing.Options
	scope fanout.Scope
}

func readListOptions(r *http.Request) (listOptions, error) {
	read, err := listing.Read(r.URL.Query(), "metadata.name", "metadata.namespace", "type")
	o := listOptions{Options: read}
	if err != nil {
		return o, err
	}
	if o.Continue != "" {
		return o, expired("lists are whole here, so there is nothing to continue")
	}
	o.scope = scopeOf(r.PathValue("namespace"), o.Options)
	return o, nil
}

// scopeOf is the scope of a namespace, or of all.
func scopeOf(namespace string, o listing.Options) fanout.Scope {
	s := fanout.Scope{Labels: o.Labels}
	if namespace != "" {
		s.Prefix = namespace + "/"
	}
	if o.Fields == nil {
		return s
	}
	if name, exact := o.Fields.RequiresExactMatch("metadata.name"); exact && namespace != "" {
		s.Key = s.Prefix + name
		if len(o.Fields.Requirements()) == 1 {
			return s
		}
	}
	s.Fields = o.Fields
	return s
}

func (a *API) secrets(w http.ResponseWriter, r *http.Request) error {
	who, err := a.caller(r)
	switch {
	case err != nil:
		return err
	case r.Method != http.MethodGet && !may(who, auth.Create, ""):
		return forbidden("with " + r.Method)
	case r.Method != http.MethodGet:
		return methodNotAllowed(r, "a plan Secret lives and ends with its machine")
	}
	o, err := readListOptions(r)
	if err != nil {
		return err
	}
	if !may(who, auth.List, o.scope.Key) {
		return forbidden("other Secrets; ask with fieldSelector=metadata.name=<its own>")
	}
	if o.Known && o.Version > a.state.Store.Revision() && !a.reach(r.Context(), o.Version) {
		// This happens when the server was restored from a backup. "Expired" is what makes clients begin anew.
		return expired("resourceVersion %d is newer than the server's, %d: list again without one", o.Version, a.state.Store.Revision())
	}
	if o.Watch {
		if restored, ok := a.state.Store.Restored(); ok && o.Known && o.Version < restored.Revision {
			return expired("resourceVersion %d is of before this server was restored from a backup: list again without one", o.Version)
		}
		return a.watch(w, r, who, o)
	}
	return a.list(w, who, r.PathValue("namespace"), o)
}

// list has the Secrets of people, too, which a user who sees plans may read.
func (a *API) list(w http.ResponseWriter, who auth.Identity, namespace string, o listOptions) error {
	revision := a.state.Store.Revision() // before the list: everything up to it is in the list
	if o.Match == "Exact" && o.Version != revision {
		return expired("resourceVersion %d is not kept, the server is at %d: list again without one", o.Version, revision)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache, private")
	b := bufio.NewWriterSize(w, 32<<10)
	_, _ = b.WriteString(`{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"` + decimal(revision) + `"},"items":[`)
	var buffer []byte
	comma := ""
	for _, d := range a.hub.List(&o.scope) {
		_, _ = b.WriteString(comma)
		comma, buffer = ",", appendSecret(buffer[:0], d)
		if _, err := b.Write(buffer); err != nil {
			return nil // the client has gone; the header is sent already
		}
	}
	if who.PlanSecret == "" {
		for _, d := range a.readable(who, namespace, o.Options) {
			text, _ := json.Marshal(d.Value.Form(d.Revision)) // texts alone
			_, _ = b.WriteString(comma + string(text))
			comma = ","
		}
	}
	_, _ = b.WriteString("]}\n")
	_ = b.Flush()
	return nil
}

// watch opens a stream. On HTTP/1.1 the handler returns and leaves it running.
func (a *API) watch(w http.ResponseWriter, r *http.Request, who auth.Identity, o listOptions) error {
	from := fanout.Start(o.Begin(a.state.Store.Revision()))
	if a.tooOld(o.scope, from) {
		return expired("too old resource version: %d: what was removed since then is not known any more; list again", from.Since)
	}
	a.hub.Serve(w, r, fanout.Watch{
		Scope: o.scope, Start: from, Bookmarks: o.Bookmarks, Machine: who.PlanSecret != "", Duration: o.Duration(),
		Until: func(end func()) func() { return a.until(r, end) },
	})
	return nil
}

// tooOld says whether a watch would miss removals; found out here, it is an HTTP status.
func (a *API) tooOld(s fanout.Scope, from fanout.Start) bool {
	if from.Initial {
		return false
	}
	if s.Key != "" {
		if _, ok := a.state.PlanSecrets.Get(s.Key); ok {
			return false // its present state is all that a watch of one Secret needs
		}
	}
	return !a.hub.Remembers(from.Since)
}

// readable are the Secrets of people that the caller may read, of one namespace or, with "", of all, that the selectors of a list choose. They are in the
// order of their keys.
func (a *API) readable(who auth.Identity, namespace string, o listing.Options) []store.Document[objects.Object] {
	key := objects.Secret + "/"
	if namespace != "" {
		key = objects.KeyOf(objects.Secret, namespace, "")
	}
	return slices.DeleteFunc(slices.Clone(a.state.Objects.ListIn(key)), func(d store.Document[objects.Object]) bool {
		about := fields.Set{"metadata.name": d.Value.Name, "metadata.namespace": d.Value.Namespace, "type": d.Value.Type}
		return !auth.May(who, auth.Get, auth.OfShared(d.Value)) || o.Labels != nil && !o.Labels.Matches(labels.Set(d.Value.Labels)) || o.Fields != nil && !o.Fields.Matches(about)
	})
}
