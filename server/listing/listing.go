// Package listing reads what clients of Kubernetes' APIs ask of lists and watches: selectors, versions,
// and how a watch begins. Its errors are what Kubernetes answers.
//
// Wire source: k8s.io/apimachinery pkg/apis/meta/v1, ListOptions, and pkg/apis/meta/internalversion/validation.
package listing

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// Options are the query of a list or watch.
type Options struct {
	// Labels and Fields are selectors; nil for all.
	Labels labels.Selector
	Fields fields.Selector
	// Namespace is the one of the path; "" for all.
	Namespace string
	Watch     bool
	// Version is the resourceVersion; Known is false when it is absent or 0.
	Version int64
	Known   bool
	// Initial is sendInitialEvents, nil when absent.
	Initial *bool
	// Match is resourceVersionMatch: NotOlderThan, Exact or "".
	Match     string
	Bookmarks bool
	// Timeout is how long a watch is wanted; 0 when absent.
	Timeout time.Duration
	// Limit is how many objects are wanted at once, 0 for all; Continue is where they go on, as the answer before gave it.
	Limit    int64
	Continue string
}

// Read reads a query. The field selector may be about these fields alone. The errors are those of BadRequest.
func Read(q url.Values, known ...string) (Options, error) {
	o := Options{Match: q.Get("resourceVersionMatch"), Continue: q.Get("continue")}
	if err := o.selectors(q.Get("labelSelector"), q.Get("fieldSelector"), known); err != nil {
		return o, err
	}
	var err error
	for name, into := range map[string]*bool{"watch": &o.Watch, "allowWatchBookmarks": &o.Bookmarks} {
		if *into, err = readBool(name, q.Get(name)); err != nil {
			return o, err
		}
	}
	if q.Has("sendInitialEvents") {
		initial, err := readBool("sendInitialEvents", q.Get("sendInitialEvents"))
		if err != nil {
			return o, err
		}
		o.Initial = &initial
	}
	if o.Version, err = Version(q.Get("resourceVersion")); err != nil {
		return o, err
	}
	o.Known = o.Version > 0
	seconds, err := whole("timeoutSeconds", q.Get("timeoutSeconds"), 32)
	if err != nil {
		return o, err
	}
	o.Timeout = time.Duration(seconds) * time.Second
	if o.Limit, err = whole("limit", q.Get("limit"), 63); err != nil {
		return o, err
	}
	return o, o.check()
}

func (o *Options) selectors(labelText, fieldText string, known []string) (err error) {
	if labelText != "" {
		if o.Labels, err = labels.Parse(labelText); err != nil {
			return BadRequest("labelSelector cannot be read: %v", err)
		}
	}
	if fieldText == "" {
		return nil
	}
	if o.Fields, err = fields.ParseSelector(fieldText); err != nil {
		return BadRequest("fieldSelector cannot be read: %v", err)
	}
	for _, q := range o.Fields.Requirements() {
		if !slices.Contains(known, q.Field) {
			last := len(known) - 1
			return BadRequest("field label not supported: %.80s; there are %s and %s", q.Field, strings.Join(known[:last], ", "), known[last])
		}
	}
	return nil
}

// check is Kubernetes' own rules for the combinations.
func (o Options) check() error {
	fault := func(format string, args ...any) error {
		return Refuse(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, "ListOptions is invalid: "+format, args...)
	}
	switch {
	case o.Match != "" && o.Match != "NotOlderThan" && o.Match != "Exact":
		return fault("resourceVersionMatch: %.40q is neither NotOlderThan nor Exact", o.Match)
	case o.Initial != nil && !o.Watch:
		return fault("sendInitialEvents: is for watches only")
	case o.Initial != nil && o.Match != "NotOlderThan":
		return fault("resourceVersionMatch: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan")
	case o.Watch && o.Initial == nil && o.Match != "":
		return fault("resourceVersionMatch: is for watches with sendInitialEvents only")
	}
	return nil
}

// Start is where a watch begins.
type Start struct {
	// Initial sends what there is as ADDED; Mark ends that with the marked bookmark.
	Initial, Mark bool
	// Since is the revision after which changes are reported; unused with Initial.
	Since int64
}

// Begin is Kubernetes' rule: a streamed list sends everything and marks its end; a
// watch from nowhere sends everything; one from a version sends what came after it.
func (o Options) Begin(current int64) Start {
	switch {
	case o.Initial != nil && *o.Initial:
		return Start{Initial: true, Mark: true}
	case o.Known:
		return Start{Since: o.Version}
	case o.Initial != nil:
		return Start{Since: current}
	}
	return Start{Initial: true}
}

// MaxWatch bounds watches: one whose client does not say how long it wants it ends after half of that at
// least, and none is longer.
const MaxWatch = time.Hour

// Duration is how long a watch lasts.
func (o Options) Duration() time.Duration {
	if o.Timeout <= 0 || o.Timeout > MaxWatch {
		return MaxWatch/2 + rand.N(MaxWatch/2) // #nosec G404 -- spreads load, nothing secret
	}
	// A little early, so that the end is ours and in order: the client's own limit is the same.
	return o.Timeout - min(o.Timeout/10, 2*time.Second)
}

// Version reads a resourceVersion; "" is 0. The error is one of BadRequest.
func Version(text string) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, BadRequest("resourceVersion %.40q is not a decimal number", text)
	}
	return n, nil
}

func readBool(name, text string) (bool, error) {
	if text == "" {
		return false, nil
	}
	b, err := strconv.ParseBool(text)
	if err != nil {
		return false, BadRequest("%s %.40q is neither true nor false", name, text)
	}
	return b, nil
}

func whole(name, text string, bits int) (int64, error) {
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, bits)
	if err != nil || n < 0 {
		return 0, BadRequest("%s %.40q is not a whole number", name, text)
	}
	return n, nil
}

// Refuse is an answer in the form of Kubernetes: code and reason for programs, a sentence for people.
func Refuse(code int, reason metav1.StatusReason, format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure, Code: int32(code), Reason: reason, Message: fmt.Sprintf(format, args...), // #nosec G115 -- an HTTP status
	}}
}

// BadRequest is about requests that cannot be understood.
func BadRequest(format string, args ...any) error {
	return Refuse(http.StatusBadRequest, metav1.StatusReasonBadRequest, format, args...)
}

// Expired makes a client list again. The error is one of Refuse with 410.
func Expired(format string, args ...any) error {
	return Refuse(http.StatusGone, metav1.StatusReasonExpired, format, args...)
}

// Reading of another server's newest version is waited for so long, in steps.
const (
	reachWithin = 500 * time.Millisecond
	reachStep   = 10 * time.Millisecond
)

// Reach waits until current is a revision that exists already on another server; it is false when it does not
// come there soon.
func Reach(ctx context.Context, current func() int64, revision int64) bool {
	if current() >= revision {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, reachWithin)
	defer cancel()
	step := time.NewTicker(reachStep)
	defer step.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-step.C:
			if current() >= revision {
				return true
			}
		}
	}
}
