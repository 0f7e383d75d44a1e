package service

import (
	"runtime/debug"
	"testing"
)

func TestIdle(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		name        string
		before, now heap
		want        bool
	}{
		{"after a busy time", heap{Made: 900 * mib}, heap{Live: 100 * mib, Held: 180 * mib, Made: 905 * mib}, true},
		{"still busy", heap{Made: 900 * mib}, heap{Live: 100 * mib, Held: 180 * mib, Made: 990 * mib}, false},
		{"little to give", heap{Made: 900 * mib}, heap{Live: 100 * mib, Held: 110 * mib, Made: 905 * mib}, false},
		{"before the first collection", heap{}, heap{}, false},
	} {
		if got := c.now.idle(c.before); got != c.want {
			t.Errorf("%s: %t, want %t", c.name, got, c.want)
		}
	}
}

// TestHeapNow: the names of the runtime's figures are right, and giving back ends what makes a heap idle.
func TestHeapNow(t *testing.T) {
	held := make([]byte, 64<<20)
	for i := range held {
		held[i] = 1
	}
	before := heapNow()
	if before.Held < 64<<20 || before.Made < before.Live {
		t.Fatalf("while 64 MiB are used: %+v", before)
	}
	held = nil
	if before.Live = 1 << 20; !before.idle(before) {
		t.Errorf("much is held and little used: %+v", before)
	}
	debug.FreeOSMemory()
	if after := heapNow(); after.Held > before.Held-48<<20 {
		t.Errorf("once it was given back: %+v, before %+v", after, before)
	}
}
