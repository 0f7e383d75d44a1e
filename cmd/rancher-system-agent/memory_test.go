package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"github.com/drover-project/drover/plans"
)

// TestMemoryAfterLargePlans: what ten of them needed is given back once the agent rests.
func TestMemoryAfterLargePlans(t *testing.T) {
	s := newScene(t, t.TempDir()).start("CATTLE_LOGLEVEL=info")
	for i := range 10 {
		p := plans.Plan{Instructions: []plans.OneTimeInstruction{shell("in", "echo done")}}
		for j := range 10 { // 700 KB of JSON
			p.Files = append(p.Files, wantedFile(s.path("large", fmt.Sprint(j)), strings.Repeat(fmt.Sprintf("%03d %03d ", i, j), 52_500/8)))
		}
		s.succeeds(s.marshal(p))
	}
	// The rest of what is resident is the program itself, which the kernel can drop at any time.
	// At their most the plans took some 14 MiB; the last one is kept, to put its files back.
	const most = 9 << 10
	t.Cleanup(func() {
		if t.Failed() { // then the log ends with where each goroutine is
			t.Logf("%d KiB without a file behind them", s.agent.memory(t, "RssAnon"))
			_ = s.agent.Process.Signal(syscall.SIGQUIT)
			<-s.agent.ended
		}
	})
	s.until("the memory is given back", func() bool { return s.agent.memory(t, "RssAnon") <= most })
	t.Logf("%.1f MiB resident, at most %.1f", float64(s.agent.resident(t))/1024, float64(s.agent.peak(t))/1024)
}
