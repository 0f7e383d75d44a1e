// Memory that a busy time needed goes back to the machine when it is over.

package service

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/backoff"
)

// quietFor is how long little must have happened, and how often it is looked at.
const quietFor = time.Minute

// heap is what the runtime says of its heap, in bytes.
type heap struct {
	// Live is what the last collection left, Held what the heap has of the machine, and Made all that was ever allocated.
	Live, Held, Made uint64
}

// idle says whether a heap that was once as before should be collected and the rest be given back: little was made since, and much
// is held that is not used. A collection costs about what it takes to make as much again as is live, so it is not worth little.
func (h heap) idle(before heap) bool {
	return h.Made-before.Made < h.Live/4 && h.Held > h.Live+h.Live/8
}

// heapNow reads it.
func heapNow() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	return heap{Live: samples[0].Value.Uint64(), Held: samples[1].Value.Uint64() + samples[2].Value.Uint64(), Made: samples[3].Value.Uint64()}
}

// giveBack gives memory back in quiet times until the function that it returns is called. The runtime alone keeps for the next busy
// time what the last one needed.
func giveBack(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		for before := heapNow(); backoff.Wait(ctx, quietFor) == nil; {
			now := heapNow()
			if now.idle(before) {
				debug.FreeOSMemory()
			}
			before = now
		}
	})
	return func() { cancel(); running.Wait() }
}
