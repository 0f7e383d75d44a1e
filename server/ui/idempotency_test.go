package ui

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/drover-project/drover/server/api/route"
	"github.com/drover-project/drover/server/auth"
)

func call(ctx context.Context, user string) *route.Call {
	return &route.Call{R: httptest.NewRequestWithContext(ctx, "POST", "/", nil), Who: auth.Identity{UserID: user}}
}

var key = strings.Repeat("a", 32)

// TestDo: a form is done once for each user, and who comes later gets what is remembered of what it came to.
func TestDo(t *testing.T) {
	now := time.Now()
	f := &Forms[string]{Now: func() time.Time { return now }, Most: 4, Later: func(s string) string { return s + ", later" }}
	did := 0
	act := func() (string, error) { did++; return "done", nil }
	for _, c := range []struct {
		what, user, key string
		wait            time.Duration
		outcome         string
		first           bool
		did             int
	}{
		{"the first press", "ann", key, 0, "done", true, 1},
		{"the second press", "ann", key, 0, "done, later", false, 1},
		{"somebody else with the same key", "ben", key, 0, "done", true, 2},
		{"another form", "ann", strings.Repeat("b", 32), 0, "done", true, 3},
		{"after a quarter of an hour", "ann", key, 16 * time.Minute, "done", true, 4},
	} {
		now = now.Add(c.wait)
		outcome, first, err := f.Do(call(t.Context(), c.user), c.key, act)
		if outcome != c.outcome || first != c.first || err != nil || did != c.did {
			t.Errorf("%s: %q, first %v, %v; done %d times, want %d", c.what, outcome, first, err, did, c.did)
		}
	}
	if _, _, err := f.Do(call(t.Context(), "ann"), "x", act); err == nil || did != 4 {
		t.Error("a key that is none is taken")
	}
	failure := errors.New("it failed")
	for range 2 {
		if _, _, err := f.Do(call(t.Context(), "ann"), strings.Repeat("c", 32), func() (string, error) { did++; return "", failure }); !errors.Is(err, failure) || did != 5 {
			t.Errorf("%v, done %d times", err, did)
		}
	}
	for i := range 10 {
		now = now.Add(time.Second)
		_, _, _ = f.Do(call(t.Context(), "ann"), strings.Repeat(string(rune('k'+i)), 32), act)
	}
	if _, first, _ := f.Do(call(t.Context(), "ann"), strings.Repeat("t", 32), act); first || len(f.forms) > 4 {
		t.Errorf("the newest form is forgotten, or %d of 4 are remembered", len(f.forms))
	}
}

// TestGivenUp: browsers give a request up when its button is pressed again. What it asked for is finished, and the second
// press waits for what it came to.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &Forms[string]{Now: time.Now, Most: 4}
		ctx, giveUp := context.WithCancel(t.Context())
		first := call(ctx, "ann")
		go func() {
			_, _, _ = f.Do(first, key, func() (string, error) {
				select {
				case <-first.Ctx().Done():
					return "", first.Ctx().Err()
				case <-time.After(time.Second):
					return "done", nil
				}
			})
		}()
		synctest.Wait()
		giveUp()
		if outcome, again, err := f.Do(call(t.Context(), "ann"), key, nil); outcome != "done" || again || err != nil {
			t.Errorf("%q, first %v, %v", outcome, again, err)
		}
		if synctest.Wait(); first.Ctx().Err() == nil {
			t.Error("the call has another request after it than before")
		}
	})
}
