package apply_test

import (
	"fmt"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/supervise"
)

// BenchmarkApply measures how long it takes from Apply until the instruction runs and until
// the result is there. Part of it is that this binary is started again as the supervisor.
func BenchmarkApply(b *testing.B) {
	h := newHost(b)
	h.options.Supervisor = []string{"/proc/self/exe", supervise.Entry}
	e := h.engine()
	fifo := h.fifo("running")
	p := plans.Plan{
		Files:        []plans.File{file("/etc/conf", "content")},
		Instructions: []plans.OneTimeInstruction{shell("install", "echo > "+fifo)},
	}
	var running, reported time.Duration
	n := 0
	for b.Loop() {
		n++
		d := delivery(b, p, id(fmt.Sprint(n)))
		begin := time.Now()
		ran := make(chan time.Duration, 1)
		go func() {
			if _, err := os.ReadFile(fifo); err != nil {
				b.Error(err)
			}
			ran <- time.Since(begin)
		}()
		r, err := e.Apply(b.Context(), d)
		reported += time.Since(begin)
		if err != nil || !r.Succeeded {
			b.Fatal(r, err)
		}
		running += <-ran
	}
	b.ReportMetric(float64(running.Microseconds())/1000/float64(n), "ms/running")
	b.ReportMetric(float64(reported.Microseconds())/1000/float64(n), "ms/reported")
}

// BenchmarkFiles measures the throughput of new files.
func BenchmarkFiles(b *testing.B) {
	h := newHost(b)
	e := h.engine()
	var round atomic.Int64
	const each = 100
	for b.Loop() {
		k := round.Add(1)
		var p plans.Plan
		for i := range each {
			p.Files = append(p.Files, file(fmt.Sprintf("/etc/d%d/f%d", i%10, i), fmt.Sprint("content ", k)))
		}
		if r, err := e.Apply(b.Context(), delivery(b, p, id(fmt.Sprint(k)))); err != nil || !r.Succeeded {
			b.Fatal(r, err)
		}
	}
	b.ReportMetric(float64(round.Load()*each)/b.Elapsed().Seconds(), "files/s")
}
