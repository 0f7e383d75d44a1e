package store

import (
	"testing"
	"time"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestEachWaiterIsWokenForItsRevision(t *testing.T) {
	var p viewProgress
	p.Advance(5)
	p.Advance(3)
	if p.Reached() != 5 || p.At(5) != nil || p.At(4) != nil {
		t.Errorf("it is at %d", p.Reached())
	}
	nine, seven, again := p.At(9), p.At(7), p.At(7)
	p.Advance(6)
	if closed(seven) || closed(nine) {
		t.Error("woken too early")
	}
	p.Advance(8)
	if !closed(seven) || !closed(again) || closed(nine) {
		t.Error("those of 7 are woken at 8, and not that of 9")
	}
}

func TestContact(t *testing.T) {
	var c contact
	began := time.Now()
	if c.Complete(4, 3, began) || !c.Last().IsZero() {
		t.Error("it is complete without having heard of it")
	}
	if !c.Complete(4, 4, began) || !c.Last().Equal(began) || !c.Complete(4, 4, began.Add(-time.Hour)) || !c.Last().Equal(began) {
		t.Errorf("complete by the view, last %v", c.Last())
	}
	c.Heard(9)
	if !c.Complete(9, 4, began) || c.Last().Before(began) {
		t.Error("complete by the watch")
	}
	calls := 0
	c.OnStale(func() { calls++ })
	for _, step := range []struct{ stale, changed bool }{{false, false}, {true, true}, {true, false}, {false, true}, {true, true}} {
		if got := c.Found(step.stale); got != step.changed {
			t.Errorf("stale %v: changed %v", step.stale, got)
		}
	}
	if calls != 2 {
		t.Errorf("%d calls", calls)
	}
}
