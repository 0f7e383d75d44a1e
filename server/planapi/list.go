// Many Secrets: LIST, and the way to WATCH.

package planapi

import (
	"bufio"
	"net/http"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/planapi/fanout"
)

// listOptions are the query of a list or watch.
type listOptions struct {
	scope fanout.Scope
	watch bool
	// version is the resourceVersion; known is false when it is absent or 0.
	version int64
	known   bool
	// initial is sendInitialEvents, nil when absent.
	initial   *bool
	match     string // resourceVersionMatch
	bookmarks bool
	timeout   time.Duration // 0 when absent
}

func readListOptions(r *http.Request) (listOptions, error) {
	q := r.URL.Query()
	var o listOptions
	var err error
	if o.scope, err = readScope(r.PathValue("namespace"), q.Get("fieldSelector"), q.Get("labelSelector")); err != nil {
		return o, err
	}
	for name, into := range map[string]*bool{"watch": &o.watch, "allowWatchBookmarks": &o.bookmarks} {
		if *into, err = readBool(name, q.Get(name)); err != nil {
			return o, err
		}
	}
	if q.Has("sendInitialEvents") {
		initial, err := readBool("sendInitialEvents", q.Get("sendInitialEvents"))
		if err != nil {
			return o, err
		}
		o.initial = &initial
	}
	if o.version, err = parseVersion(q.Get("resourceVersion")); err != nil {
		return o, err
	}
	o.known = o.version > 0
	o.match = q.Get("resourceVersionMatch")
	if text := q.Get("timeoutSeconds"); text != "" {
		seconds, err := strconv.ParseInt(text, 10, 32)
		if err != nil || seconds < 0 {
			return o, badRequest("timeoutSeconds %.40q is not a number of seconds", text)
		}
		o.timeout = time.Duration(seconds) * time.Second
	}
	if q.Get("continue") != "" {
		return o, expired("lists are whole here, so there is nothing to continue")
	}
	return o, o.check()
}

// check is Kubernetes' own rules for the combinations.
func (o listOptions) check() error {
	fault := func(format string, args ...any) error {
		return fail(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "ListOptions is invalid: "+format, args...)
	}
	switch {
	case o.match != "" && o.match != "NotOlderThan" && o.match != "Exact":
		return fault("resourceVersionMatch: %.40q is neither NotOlderThan nor Exact", o.match)
	case o.initial != nil && !o.watch:
		return fault("sendInitialEvents: is for watches only")
	case o.initial != nil && o.match != "NotOlderThan":
		return fault("resourceVersionMatch: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	case o.watch && o.initial == nil && o.match != "":
		return fault("resourceVersionMatch: is for watches with sendInitialEvents only")
	}
	return nil
}

func readBool(name, text string) (bool, error) {
	if text == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, badRequest("%s %.40q is neither true nor false", name, text)
	}
	return b, nil
}

func readScope(namespace, fieldText, labelText string) (fanout.Scope, error) {
	var s fanout.Scope
	if namespace != "" {
		s.Prefix = namespace + "/"
	}
	if labelText != "" {
		selector, err := labels.Parse(labelText)
		if err != nil {
			return s, badRequest("labelSelector cannot be read: %v", err)
		}
		s.Labels = selector
	}
	if fieldText == "" {
		return s, nil
	}
	selector, err := fields.ParseSelector(fieldText)
	if err != nil {
		return s, badRequest("fieldSelector cannot be read: %v", err)
	}
	requirements := selector.Requirements()
	for _, q := range requirements {
		if q.Field != "metadata.name" && q.Field != "metadata.namespace" && q.Field != "type" {
			return s, badRequest("field label not supported: %.80s; there are metadata.name, metadata.namespace and type", q.Field)
		}
	}
	if name, exact := selector.RequiresExactMatch("metadata.name"); exact && namespace != "" {
		s.Key = s.Prefix + name
		if len(requirements) == 1 {
			return s, nil
		}
	}
	s.Fields = selector
	return s, nil
}

func (a *API) secrets(w http.ResponseWriter, r *http.Request) error {
	who, err := a.caller(r)
	if err != nil {
		return err
	}
	if r.Method != http.MethodGet {
		if !may(who, auth.Create, "") {
			return forbidden("with " + r.Method)
		}
		return methodNotAllowed(r, "a plan Secret lives and ends with its machine")
	}
	o, err := readListOptions(r)
	if err != nil {
		return err
	}
	if !may(who, auth.List, o.scope.Key) {
		return forbidden("other Secrets; ask with fieldSelector=metadata.name=<its own>")
	}
	if o.known && o.version > a.state.Store.Revision() && !a.reach(r.Context(), o.version) {
		// This happens when the server was restored from a backup. "Expired" is what makes clients begin anew.
		return expired("resourceVersion %d is newer than the server's, %d: list again without one", o.version, a.state.Store.Revision())
	}
	if o.watch {
		if restored, ok := a.state.Store.Restored(); ok && o.known && o.version < restored.Revision {
			return expired("resourceVersion %d is of before this server was restored from a backup: list again without one", o.version)
		}
		return a.watch(w, r, who, o)
	}
	return a.list(w, o)
}

func (a *API) list(w http.ResponseWriter, o listOptions) error {
	revision := a.state.Store.Revision() // before the list: everything up to it is in the list
	if o.match == "Exact" && o.version != revision {
		return expired("resourceVersion %d is not kept, the server is at %d: list again without one", o.version, revision)
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache, private")
	b := bufio.NewWriterSize(w, 32<<10)
	_, _ = b.WriteString(`{"kind":"SecretList","apiVersion":"v1","metadata":{"resourceVersion":"` + decimal(revision) + `"},"items":[`)
	var buffer []byte
	first := true
	for _, d := range a.hub.List(&o.scope) {
		if !first {
			_ = b.WriteByte(',')
		}
		first = false
		buffer = appendSecret(buffer[:0], d)
		if _, err := b.Write(buffer); err != nil {
			return nil // the client has gone; the header is sent already
		}
	}
	_, _ = b.WriteString("]}\n")
	_ = b.Flush()
	return nil
}
