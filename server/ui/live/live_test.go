package live

import "testing"

func TestWatchesAreToldOfTheirTopics(t *testing.T) {
	var h Hub
	var toldA, toldB int
	a, b := h.Open(func() { toldA++ }), h.Open(func() { toldB++ })
	told := func(what string, wantA, wantB int) {
		t.Helper()
		if toldA != wantA || toldB != wantB {
			t.Errorf("%s: told %d and %d times, want %d and %d", what, toldA, toldB, wantA, wantB)
		}
		toldA, toldB = 0, 0
	}
	a.Of([]string{"clusters"}, h.Revision())
	b.Of([]string{"cluster/y"}, h.Revision())
	h.Changed("cluster/x", "clusters")
	told("the topic of one", 1, 0)
	a.Of([]string{"cluster/y"}, h.Revision())
	h.Changed("clusters")
	told("a topic of before", 0, 0)
	h.Changed("cluster/y")
	told("the topic of both", 1, 1)
	a.Close()
	b.Close()
	h.Changed("cluster/y")
	if told("closed", 0, 0); h.Topics() != 0 {
		t.Error("the topics of what is closed are kept")
	}
}

// TestMissed: who looks first and then says what they looked at learns whether something may have changed in between.
func TestMissed(t *testing.T) {
	var h Hub
	w := h.Open(func() {})
	began := h.Revision()
	if w.Of([]string{"a"}, began) {
		t.Error("nothing changed, and something was missed")
	}
	h.Changed("a")
	if w.Of([]string{"a"}, began) {
		t.Error("the watch was told of the change")
	}
	if !w.Of([]string{"b"}, began) {
		t.Error("a change of a new topic may have been missed")
	}
}

// Topics is the number of topics that open pages wait for.
func (h *Hub) Topics() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.open)
}
