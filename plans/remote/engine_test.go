package remote

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply"
	"github.com/drover-project/drover/plans/apply/supervise"
)

func TestMain(m *testing.M) { os.Exit(withPublicAuthority(m.Run)) }

func realEngine(t *testing.T, dir string) *apply.Engine {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e, err := apply.New(apply.Options{
		WorkDir: filepath.Join(dir, "work"), LedgerDir: filepath.Join(dir, "ledger"), AppliedDir: filepath.Join(dir, "applied"),
		Supervisor: []string{exe, supervise.Entry}, Logger: quiet(),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// life runs one life of an agent with the real engine.
func life(t *testing.T, s *server, dir string) (src *Source, stop func()) {
	t.Helper()
	src, err := New(Options{Access: s.access(t), Namespace: namespace, SecretName: secretName, Engine: realEngine(t, dir), Logger: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	src.pace = pace{retryMin: 2 * time.Millisecond, retryMax: 50 * time.Millisecond, mark: 100 * time.Millisecond, unanswered: 50 * time.Millisecond, report: 20 * time.Millisecond}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		src.Run(ctx)
	}()
	stop = func() {
		cancel()
		<-done
	}
	t.Cleanup(stop)
	return src, stop
}

// recorder is a plan whose only instruction appends its number to a file.
func recorder(t *testing.T, file string, n int, more string) string {
	t.Helper()
	b, err := json.Marshal(plans.Plan{
		Files: []plans.File{{Path: filepath.Join(filepath.Dir(file), "conf"), Content: plans.EncodeContent(fmt.Appendf(nil, "plan %d", n))}},
		Instructions: []plans.OneTimeInstruction{{
			Instruction: plans.Instruction{Name: "record", Command: "sh", Args: []string{"-c", fmt.Sprintf("echo %d >> %s; echo said %d; %s", n, file, n, more)}},
			SaveOutput:  true,
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func lines(t *testing.T, file string) []string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return strings.Fields(string(b))
}

func TestRealEngineThroughTrouble(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "record")
	random := make(chan *rand.Rand, 1)
	random <- rand.New(rand.NewPCG(1, 2))
	s.setTrap(func(w http.ResponseWriter, r *http.Request) bool {
		rnd := <-random
		dice := rnd.IntN(14)
		random <- rnd
		switch dice {
		case 0:
			fail(w, 500, "InternalError")
		case 1:
			panic(http.ErrAbortHandler)
		case 2:
			w.Header().Set("Content-Type", "text/html")
			io.WriteString(w, "<html>")
		case 3:
			io.WriteString(w, `{"kind":"Sec`)
		case 4: // done, but the client does not get the answer
			if r.Method == "PUT" {
				s.put(noAnswer{w}, r)
			}
			panic(http.ErrAbortHandler)
		case 5: // meanwhile the server changes something
			s.set(map[string]string{"unrelated": fmt.Sprint(time.Now().UnixNano())})
			return false
		case 6:
			s.cutStreams()
			return false
		default:
			return false
		}
		return true
	})
	life(t, s, dir)
	var want []string
	for n := range 6 {
		plan := recorder(t, file, n, "true")
		s.set(map[string]string{"plan": plan, "plan-state": "pending", "probe-statuses": ""})
		waitUntil(t, fmt.Sprintf("plan %d is reported", n), func() bool {
			got := s.now()
			return got["plan-state"] == "succeeded" && got["applied-checksum"] == sum(plan)
		})
		want = append(want, fmt.Sprint(n))
		outputs, err := plans.DecodeOutputs([]byte(s.now()["applied-output"]))
		if err != nil || string(outputs["record"]) != fmt.Sprintf("said %d\n", n) {
			t.Errorf("output %q, %v", outputs, err)
		}
	}
	if diff := cmp.Diff(want, lines(t, file)); diff != "" {
		t.Errorf("each plan has to run once (-want +got):\n%s", diff)
	}
	if b, err := os.ReadFile(filepath.Join(dir, "conf")); string(b) != "plan 5" {
		t.Errorf("file %q, %v", b, err)
	}
}

// noAnswer swallows what the handler says.
type noAnswer struct{ http.ResponseWriter }

func (noAnswer) Header() http.Header         { return http.Header{} }
func (noAnswer) Write(p []byte) (int, error) { return len(p), nil }
func (noAnswer) WriteHeader(int)             {}

func TestRealEngineRestartInTheMiddle(t *testing.T) {
	for _, flow := range []string{"pending", ""} {
		t.Run("flow with state "+flow, func(t *testing.T) {
			t.Parallel()
			s := newServer(t)
			dir := t.TempDir()
			file, gate := filepath.Join(dir, "record"), filepath.Join(dir, "gate")
			plan := recorder(t, file, 7, "gate="+gate+"; while test -d ${gate%/*} && ! test -e $gate; do sleep 0.02; done; echo end")
			s.set(map[string]string{"plan": plan, "plan-state": flow})
			_, stop := life(t, s, dir)
			waitUntil(t, "the instruction runs", func() bool { return len(lines(t, file)) == 1 })
			stop()
			if err := os.WriteFile(gate, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			life(t, s, dir)
			waitUntil(t, "it is reported", func() bool { return s.now()["applied-checksum"] == sum(plan) })
			if got := lines(t, file); len(got) != 1 {
				t.Errorf("ran %d times", len(got))
			}
			outputs, err := plans.DecodeOutputs([]byte(s.now()["applied-output"]))
			if err != nil || string(outputs["record"]) != "said 7\nend\n" {
				t.Errorf("output %q, %v", outputs, err)
			}
		})
	}
}

func TestRealEngineCancel(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "record")
	plan := recorder(t, file, 1, "sleep 600")
	s.set(map[string]string{"plan": plan, "plan-state": "pending"})
	src, _ := life(t, s, dir)
	waitUntil(t, "the instruction runs", func() bool { return len(lines(t, file)) == 1 })
	s.set(map[string]string{"plan-state": "cancelled"})
	waitUntil(t, "it is taken back", func() bool { return strings.Contains(src.Status().Doing, "cancelled") })
	next := recorder(t, file, 2, "true")
	s.set(map[string]string{"plan": next, "plan-state": "pending"})
	s.wantState(t, "succeeded")
	if diff := cmp.Diff([]string{"1", "2"}, lines(t, file)); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
