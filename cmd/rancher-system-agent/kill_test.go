package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
)

var (
	killRounds = flag.Int("kill.rounds", 20, "plans during which the agent is killed")
	killSeed   = flag.Uint64("kill.seed", 1, "seed of the moments at which it is")
)

// TestKilledAtAnyMoment: whenever the process dies, each instruction of the plan runs once,
// the files are as wanted, and the server gets the report.
func TestKilledAtAnyMoment(t *testing.T) {
	s := newScene(t, t.TempDir())
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(web.Close)
	random := rand.New(rand.NewPCG(*killSeed, 0))
	kills := 0
	s.start()
	for round := range *killRounds {
		plan, check := s.killPlan(round, web.URL)
		raw := s.marshal(plan)
		s.server.deliver(raw)
		for range 1 + random.IntN(3) {
			// Somewhere between the start of a process and the end of the plan; on a machine that is
			// busy the agent may not have begun, or on a fast one have ended.
			pause := time.NewTimer(time.Duration(random.Int64N(int64(400 * time.Millisecond))))
			<-pause.C
			if err := s.agent.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			<-s.agent.ended
			kills++
			s.start()
		}
		s.applied(raw)
		check()
		s.until("the probe is healthy", func() bool { return s.server.value("probe-statuses") == `{"web":{"healthy":true,"successCount":1}}` })
		if n := s.server.value("success-count"); n != fmt.Sprint(round+1) {
			t.Fatalf("round %d of seed %d: %s successes were reported", round, *killSeed, n)
		}
	}
	t.Logf("killed %d times in %d plans", kills, *killRounds)
}

// killPlan is a plan with some of everything, and a look at what came of it.
func (s *scene) killPlan(round int, url string) (p plans.Plan, check func()) {
	for i := range 30 {
		p.Files = append(p.Files, wantedFile(s.path("files", fmt.Sprint(i%3), fmt.Sprint(i)), fmt.Sprint("round ", round)))
	}
	record := s.path("record")
	for i := range 3 {
		p.Instructions = append(p.Instructions, shell(fmt.Sprint("in", i), fmt.Sprintf("echo %d.%d >> %s; sleep 0.05; echo said %d.%d", round, i, record, round, i)))
	}
	p.Probes = map[string]plans.Probe{"web": {TimeoutSeconds: 20, HTTPGetAction: plans.HTTPGet{URL: url}}}
	return p, func() {
		s.t.Helper()
		b, err := os.ReadFile(record)
		want := fmt.Sprintf("%[1]d.0\n%[1]d.1\n%[1]d.2\n", round)
		if err != nil || !strings.HasSuffix("\n"+string(b), "\n"+want) || strings.Count(string(b), "\n") != 3*(round+1) {
			s.t.Fatalf("round %d of seed %d: the runs are\n%s%v", round, *killSeed, b, err)
		}
		for _, f := range p.Files {
			if b, err := os.ReadFile(f.Path); string(b) != fmt.Sprint("round ", round) {
				s.t.Fatalf("round %d of seed %d: %s has %q, %v", round, *killSeed, f.Path, b, err)
			}
		}
		outputs, err := plans.DecodeOutputs([]byte(s.server.value("applied-output")))
		for i := range 3 {
			if got, want := string(outputs[fmt.Sprint("in", i)]), fmt.Sprintf("said %d.%d\n", round, i); got != want {
				s.t.Fatalf("round %d of seed %d: output %q, %v", round, *killSeed, got, err)
			}
		}
	}
}
