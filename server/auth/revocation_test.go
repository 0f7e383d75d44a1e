package auth

import (
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestStreamsEndWithTheirCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s Streams
		var mu sync.Mutex
		var ended []string
		valid := map[string]bool{"a": true, "b": true, "c": true}
		open := func(name, owner string, life time.Duration) func() {
			return s.Add(owner, life, func() bool { mu.Lock(); defer mu.Unlock(); return valid[name] }, func() {
				mu.Lock()
				defer mu.Unlock()
				ended = append(ended, name)
			})
		}
		want := func(when string, names ...string) {
			t.Helper()
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(ended, names) {
				t.Errorf("%s: %v have ended, want %v", when, ended, names)
			}
			ended = nil
		}
		revoke := func(name string) { mu.Lock(); defer mu.Unlock(); valid[name] = false }

		open("a", "m1", 0)
		closeB := open("b", "m1", 0)
		open("c", "m2", time.Minute)
		s.Check("m1")
		s.CheckAll()
		want("all are valid")
		revoke("a")
		s.Check("m2")
		want("another owner is checked")
		s.Check("m1")
		s.Check("m1")
		want("one was revoked", "a")
		closeB()
		revoke("b")
		s.CheckAll()
		want("one has closed by itself")
		time.Sleep(time.Minute)
		want("its time is over", "c")
		open("a", "m1", 0)
		want("it was revoked before it opened", "a")
		open("c", "m1", -time.Second)
		want("it was over before it opened", "c")
		if len(s.byOwner) > 0 {
			t.Errorf("%d owners are left", len(s.byOwner))
		}
	})
}

// TestEnd: all streams of an owner end, once, and no other's.
func TestEnd(t *testing.T) {
	var s Streams
	ended := map[string]int{}
	for _, name := range []string{"a/1", "a/2", "b/1"} {
		s.Add(name[:1], 0, nil, func() { ended[name]++ })
	}
	gone := s.Add("a", 0, nil, func() { ended["gone"]++ })
	gone()
	s.End("a")
	s.End("a")
	s.Check("b")
	if want := (map[string]int{"a/1": 1, "a/2": 1}); !maps.Equal(ended, want) {
		t.Errorf("ended %v, want %v", ended, want)
	}
}
