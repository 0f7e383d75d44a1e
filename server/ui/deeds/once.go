// A button that is pressed twice does it once: each form has a key, and whoever comes with the key of a form that has
// been sent gets what became of it. Keys are remembered by the server that the form came to.

package deeds

import (
	"crypto/rand"
	"encoding/hex"
	"net/http"
	"sync"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
)

const (
	// remembered is how long a key is, which nobody presses a button after, and mostKeys how many are.
	remembered = 15 * time.Minute
	mostKeys   = 10_000
)

// once remembers forms. The zero value with a clock is ready.
type once struct {
	now func() time.Time

	mu    sync.Mutex
	forms map[string]*sent // by user and key
}

// sent is a form that came.
type sent struct {
	at      time.Time
	over    chan struct{} // closed when outcome is there
	outcome outcome
	err     error
}

func newKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: it ends the process when the system has no randomness
	return hex.EncodeToString(b[:])
}

// do runs act unless the form with this key has come before, and answers with what it came to. What was refused may be
// sent again: the form that shows the refusal has another key.
func (o *once) do(c *route.Call, key string, act func() (outcome, error), answer func(outcome) (route.Answer, error)) (route.Answer, error) {
	if len(key) != 32 {
		return route.Answer{}, norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the form is not one of this page; go back and load it again")
	}
	s, first := o.enter(c.Who.UserID + "/" + key)
	if first {
		return s.run(act, answer)
	}
	select {
	case <-s.over:
	case <-c.Ctx().Done():
		return route.Answer{}, c.Ctx().Err()
	}
	if s.err != nil {
		return route.Answer{}, s.err
	}
	return answer(s.outcome)
}

// run is do for the form that came first. What is shown once is not kept.
func (s *sent) run(act func() (outcome, error), answer func(outcome) (route.Answer, error)) (route.Answer, error) {
	s.err = norman.Errorf(http.StatusInternalServerError, norman.ServerError, "the server failed; look whether it was done") // of a panic
	defer close(s.over)
	became, err := act()
	s.outcome, s.err = became, err
	if became.shown != nil {
		s.outcome = outcome{status: http.StatusConflict, fault: "This was done already, and what came of it is shown only once."}
	}
	if err != nil {
		return route.Answer{}, err
	}
	return answer(became)
}

// enter is the form of a key, and whether it is here for the first time.
func (o *once) enter(key string) (s *sent, first bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.now()
	if s, ok := o.forms[key]; ok && now.Sub(s.at) < remembered {
		return s, false
	}
	if len(o.forms) >= mostKeys {
		o.forget(now)
	}
	if o.forms == nil {
		o.forms = map[string]*sent{}
	}
	s = &sent{at: now, over: make(chan struct{})}
	o.forms[key] = s
	return s, true
}

// forget drops what is old, and all where nothing is: to press a button twice a moment ago is then to do it twice.
func (o *once) forget(now time.Time) {
	for key, s := range o.forms {
		if now.Sub(s.at) >= remembered {
			delete(o.forms, key)
		}
	}
	if len(o.forms) >= mostKeys {
		clear(o.forms)
	}
}
