// A button which is pressed twice does it once: each form has a key, and a request with the key
// of a form that has been sent gets what became of it. Keys are remembered by the server that the form came to.

package ui

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
)

const (
	// formsRemembered is how long a key is, after which no button is pressed.
	formsRemembered = 15 * time.Minute
	// longest is how long it may take to do what a form asks for. Browsers give the first request up when a button is
	// pressed again, so it is not over when its client has gone.
	longest = 5 * time.Minute
)

// Forms remembers forms by what became of them.
type Forms[T any] struct {
	Now func() time.Time
	// Most is how many forms are remembered; the oldest are forgotten first.
	Most int
	// Later is what is remembered of an outcome, for those who come later; nil is all of it.
	Later func(T) T

	mu    sync.Mutex
	forms map[string]*sent[T] // by user and key
}

// sent is a form that came.
type sent[T any] struct {
	at      time.Time
	over    chan struct{} // closed when outcome is there
	outcome T
	err     error
}

// NewFormKey is the key of a form.
func NewFormKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process when the system has no randomness
	return hex.EncodeToString(b[:])
}

// Do runs act unless the form with this key has come before, and returns what it came to. What was refused may be sent
// again: the form that shows the refusal has another key.
func (f *Forms[T]) Do(c *route.Call, key string, act func() (T, error)) (outcome T, first bool, err error) {
	if len(key) != 32 {
		return outcome, false, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the form is not one of this page; go back and load it again")
	}
	s, first := f.enter(c.Who.UserID + "/" + key)
	if first {
		outcome, err = s.run(c, act, f.Later)
		return outcome, true, err
	}
	select {
	case <-s.over:
		return s.outcome, false, s.err
	case <-c.Ctx().Done():
		return outcome, false, c.Ctx().Err()
	}
}

// run is Do for the form that came first.
func (s *sent[T]) run(c *route.Call, act func() (T, error), later func(T) T) (T, error) {
	s.err = norman.Errorf(http.StatusInternalServerError, norman.ServerError, "the server failed; look whether it was done") // of a panic
	defer close(s.over)
	asked := c.R
	ctx, cancel := context.WithTimeout(context.WithoutCancel(c.Ctx()), longest)
	defer func() { cancel(); c.R = asked }()
	c.R = c.R.WithContext(ctx)
	outcome, err := act()
	if s.outcome, s.err = outcome, err; later != nil {
		s.outcome = later(outcome)
	}
	return outcome, err
}

// enter is the form of a key, and whether it is here for the first time.
func (f *Forms[T]) enter(key string) (s *sent[T], first bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.Now()
	if s, ok := f.forms[key]; ok && now.Sub(s.at) < formsRemembered {
		return s, false
	}
	if len(f.forms) >= f.Most {
		f.forget(now)
	}
	if f.forms == nil {
		f.forms = map[string]*sent[T]{}
	}
	s = &sent[T]{at: now, over: make(chan struct{})}
	f.forms[key] = s
	return s, true
}

// forget drops what is old, and the older half of what is not: to press a button twice is then to do it twice.
func (f *Forms[T]) forget(now time.Time) {
	maps.DeleteFunc(f.forms, func(_ string, s *sent[T]) bool { return now.Sub(s.at) >= formsRemembered })
	if len(f.forms) < f.Most {
		return
	}
	keys := slices.SortedFunc(maps.Keys(f.forms), func(a, b string) int { return cmp.Compare(f.forms[a].at.UnixNano(), f.forms[b].at.UnixNano()) })
	for _, key := range keys[:(len(keys)+1)/2] {
		delete(f.forms, key)
	}
}
