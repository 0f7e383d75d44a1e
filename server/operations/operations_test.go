package operations

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// at is noon and some seconds.
func at(seconds int) time.Time { return noon.Add(time.Duration(seconds) * time.Second) }

// full is an operation with everything in it, made on the way that one takes.
func full(t *testing.T) Operation {
	t.Helper()
	o, err := Begin(Operation{
		ID: "op-bcdfghjk", Kind: "upgrade", Subject: "fleet-default/demo", Title: "Upgrade demo to v1.33.1+k3s1",
		By: "user-1", Generation: 7, Params: json.RawMessage(`{"version":"v1.33.1+k3s1"}`), Created: at(0),
	}, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	o = o.WithTask(Task{ID: "custom-1", Title: "Upgrade a", State: TaskRunning, Host: "a", Attempts: 1}, at(1))
	o = o.WithTask(Task{ID: "custom-2", Title: "Upgrade b", Host: "b"}, at(1))
	o = o.WithTask(Task{ID: "custom-1", Title: "Upgrade a", State: TaskWaiting, Progress: "waiting for probes: etcd", Host: "a", Attempts: 1}, at(2))
	o = o.WithWait(&Wait{Object: "machine custom-1", Host: "a", Cause: "etcd on a does not answer", NextStep: "look at its log"}, at(3))
	o.Retry, o.Once = 1, true
	if o, err = o.AbortBy("user-2", at(4)); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestEveryTransition(t *testing.T) {
	allowed := map[string]bool{
		"queued running": true, "queued aborted": true,
		"running stopping": true, "running succeeded": true, "running failed": true, "running aborted": true,
		"stopping succeeded": true, "stopping failed": true, "stopping aborted": true,
		"failed running": true,
	}
	all := append(States(), "", "paused")
	for _, from := range all {
		for _, to := range all {
			name := fmt.Sprintf("%s %s", from, to)
			t.Run(name, func(t *testing.T) {
				before := Operation{ID: "op-1", State: from, Started: at(1), Ended: at(2), Reason: "before", Wait: &Wait{}}
				after, err := before.To(to, "because", at(9))
				if !allowed[name] {
					var refused *TransitionError
					if !errors.As(err, &refused) || *refused != (TransitionError{ID: "op-1", From: from, To: to}) {
						t.Errorf("got %v, want a *TransitionError of both states", err)
					}
					if diff := cmp.Diff(before, after); diff != "" {
						t.Error("a refused transition changed the operation", diff)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				want := Operation{ID: "op-1", State: to, Started: at(1), Log: []Line{{At: at(9), Text: string(to) + ": because"}}, Wait: before.Wait}
				if to.Ended() {
					want.Ended, want.Wait = at(9), nil
				}
				if to == Failed || to == Aborted {
					want.Reason = "because"
				}
				if diff := cmp.Diff(want, after); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

func TestTheTableIsWhole(t *testing.T) {
	if len(follows) != len(States()) {
		t.Errorf("the table has %d states and States %d", len(follows), len(States()))
	}
	for _, s := range States() {
		next, known := follows[s]
		if !known {
			t.Errorf("%s is not in the table", s)
		}
		for _, to := range next {
			if !slices.Contains(States(), to) {
				t.Errorf("%s is followed by %s, which is not a state", s, to)
			}
		}
		if s.Ended() && slices.ContainsFunc(next, State.Ended) {
			t.Errorf("%s has ended and can end again", s)
		}
	}
	Following(Queued)[0] = Failed
	if Following(Queued)[0] == Failed {
		t.Error("who asks for the next states can change the table")
	}
}

func TestStartedIsTheFirstStart(t *testing.T) {
	o := Operation{State: Queued}
	var err error
	for i, s := range []State{Running, Failed, Running} {
		if o, err = o.To(s, "", at(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	if !o.Started.Equal(at(1)) || !o.Ended.IsZero() || o.Reason != "" {
		t.Errorf("started %v, ended %v, reason %q; want the first start and no end", o.Started, o.Ended, o.Reason)
	}
}

func TestTaskTimes(t *testing.T) {
	type times struct{ since, started, ended int } // seconds, -1 for none
	steps := []struct {
		state    TaskState
		progress string
		want     times
		line     string // of the log, when there is a new one
	}{
		{"", "", times{1, -1, -1}, ""},
		{TaskPending, "", times{1, -1, -1}, ""},
		{TaskRunning, "", times{3, 3, -1}, "m: running"},
		{TaskRunning, "files", times{4, 3, -1}, ""},
		{TaskRunning, "files", times{4, 3, -1}, ""},
		{TaskWaiting, "probes", times{6, 3, -1}, "m: waiting"},
		{TaskFailed, "", times{7, 3, 7}, "m: failed"},
		{TaskFailed, "exit 1", times{8, 3, 7}, ""},
		{TaskPending, "", times{9, -1, -1}, "m: pending"},
		{TaskRunning, "", times{10, 10, -1}, "m: running"},
		{TaskSucceeded, "", times{11, 10, 11}, "m: succeeded"},
		{TaskSkipped, "", times{12, 10, 12}, "m: skipped"},
	}
	seconds := func(when time.Time) int {
		if when.IsZero() {
			return -1
		}
		return int(when.Sub(noon).Seconds())
	}
	o := Operation{State: Running}
	for i, s := range steps {
		lines := len(o.Log)
		// What the caller says of the times does not count.
		o = o.WithTask(Task{ID: "m", State: s.state, Progress: s.progress, Since: at(99), Started: at(99), Ended: at(99)}, at(i+1))
		task, ok := o.Task("m")
		if !ok || len(o.Tasks) != 1 {
			t.Fatalf("step %d: tasks are %v", i, o.Tasks)
		}
		if got := (times{seconds(task.Since), seconds(task.Started), seconds(task.Ended)}); got != s.want {
			t.Errorf("step %d, %s %q: since, started, ended are %v, want %v", i, s.state, s.progress, got, s.want)
		}
		got := ""
		if len(o.Log) > lines {
			got = o.Log[lines].Text
		}
		if got != s.line {
			t.Errorf("step %d, %s: the log got %q, want %q", i, s.state, got, s.line)
		}
	}
}

func TestTaskThatBeginsInTheMiddle(t *testing.T) {
	o := Operation{}.WithTask(Task{ID: "m", State: TaskFailed, Message: "no space left"}, at(1))
	want := Operation{
		Tasks: []Task{{ID: "m", State: TaskFailed, Message: "no space left", Since: at(1), Started: at(1), Ended: at(1)}},
		Log:   []Line{{At: at(1), Text: "m: failed: no space left"}},
	}
	if diff := cmp.Diff(want, o); diff != "" {
		t.Error(diff)
	}
	if _, ok := o.Task("n"); ok {
		t.Error("there is a task that nobody named")
	}
}

func TestProgress(t *testing.T) {
	o := Operation{}
	for i, s := range []TaskState{TaskPending, TaskRunning, TaskWaiting, TaskSucceeded, TaskFailed, TaskSkipped} {
		o = o.WithTask(Task{ID: fmt.Sprint(i), State: s}, noon)
	}
	if done, total := o.Progress(); done != 2 || total != 6 {
		t.Errorf("%d of %d are done, want 2 of 6", done, total)
	}
}

func TestWaitKeepsSince(t *testing.T) {
	o := Operation{}
	w := &Wait{Object: "machine m", Host: "a", Cause: "down", Since: at(99)}
	o = o.WithWait(w, at(1))
	o = o.WithWait(&Wait{Object: "machine m", Host: "a", Cause: "down", NextStep: "start it"}, at(2))
	if diff := cmp.Diff(&Wait{Object: "machine m", Host: "a", Cause: "down", NextStep: "start it", Since: at(1)}, o.Wait); diff != "" {
		t.Error(diff)
	}
	if !w.Since.Equal(at(99)) {
		t.Error("the caller's value was changed")
	}
	for i, other := range []Wait{
		{Object: "machine n", Host: "a", Cause: "down"}, {Object: "machine m", Host: "b", Cause: "down"}, {Object: "machine m", Host: "a", Cause: "slow"},
	} {
		if got := o.WithWait(&other, at(3)).Wait.Since; !got.Equal(at(3)) {
			t.Errorf("another wait (%d) is since %v", i, got)
		}
	}
	if o.WithWait(nil, at(3)).Wait != nil {
		t.Error("waits for nothing and has a wait")
	}
}

func TestLogIsBounded(t *testing.T) {
	o := Operation{}
	for i := range MaxLines + 5 {
		o = o.WithLine(fmt.Sprint("line ", i), at(i))
	}
	if len(o.Log) != MaxLines || o.Log[0].Text != "line 5" || o.Log[MaxLines-1].Text != fmt.Sprint("line ", MaxLines+4) {
		t.Errorf("%d lines from %q to %q", len(o.Log), o.Log[0].Text, o.Log[len(o.Log)-1].Text)
	}
	for _, c := range []struct{ name, text, want string }{
		{"as long as allowed", strings.Repeat("x", MaxLine), strings.Repeat("x", MaxLine)},
		{"too long", strings.Repeat("x", MaxLine+1), strings.Repeat("x", MaxLine-3) + "…"},
		{"cut within a character", strings.Repeat("é", MaxLine), strings.Repeat("é", (MaxLine-3)/2) + "…"},
		{"lines", "a\nb\r\tc\x1b[0m", "a b  c [0m"},
		{"not text", "a\xffb", "a\uFFFDb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := Operation{}.WithLine(c.text, noon).Log[0].Text
			if got != c.want || len(got) > MaxLine || !utf8.ValidString(got) {
				t.Errorf("got %q of %d bytes, want %q", got, len(got), c.want)
			}
		})
	}
}

// Texts that may come from hosts are cut and printable wherever they are.
func TestTextsAreBounded(t *testing.T) {
	long := "\x1b" + strings.Repeat("x", 2*MaxLine)
	o := Operation{State: Running}.WithTask(Task{ID: "m", Progress: long, Message: long}, noon)
	o = o.WithWait(&Wait{Object: long, Host: long, Cause: long, NextStep: long}, at(1))
	o = o.WithWait(&Wait{Object: long, Host: long, Cause: long, NextStep: long}, at(2))
	if !o.Wait.Since.Equal(at(1)) {
		t.Error("a wait with a long cause is taken for another one")
	}
	wait := *o.Wait
	o, err := o.To(Failed, long, noon)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"progress": o.Tasks[0].Progress, "message": o.Tasks[0].Message, "reason": o.Reason,
		"object": wait.Object, "host": wait.Host, "cause": wait.Cause, "next step": wait.NextStep,
	} {
		if len(text) > MaxLine || !strings.HasPrefix(text, " xx") || !strings.HasSuffix(text, "x…") {
			t.Errorf("%s is %.10q… of %d bytes", name, text, len(text))
		}
	}
}

// made is an operation of one subject, created at a second.
func made(id, subject string, s State, created int) Operation {
	return Operation{ID: id, Kind: "change", Subject: subject, State: s, By: "user-1", Created: at(created), Started: at(created + 1)}
}

func TestReadyAndActive(t *testing.T) {
	for _, c := range []struct {
		name string
		all  []Operation
		want string // the one of subject s
	}{
		{"none", nil, ""},
		{"of others", []Operation{made("a", "t", Running, 1)}, ""},
		{"ended", []Operation{made("a", "s", Succeeded, 1), made("b", "s", Failed, 2), made("c", "s", Aborted, 3)}, ""},
		{"running", []Operation{made("a", "s", Running, 1)}, "a"},
		{"stopping is not the end", []Operation{made("b", "s", Queued, 2), made("a", "s", Stopping, 1)}, "a"},
		{"oldest first", []Operation{made("a", "s", Queued, 3), made("b", "s", Queued, 2), made("c", "s", Queued, 1)}, "c"},
		{"behind an ended one", []Operation{made("a", "s", Succeeded, 1), made("b", "s", Queued, 2)}, "b"},
		{"made in one moment", []Operation{made("b", "s", Queued, 1), made("a", "s", Queued, 1)}, "a"},
		{"begun in the same moment", []Operation{made("b", "s", Running, 2), made("a", "s", Running, 1)}, "a"},
		{"a clock that was behind", []Operation{made("a", "s", Queued, 1), made("b", "s", Running, 2)}, "b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			first, ok := Active("s", c.all)
			if ok != (c.want != "") || first.ID != c.want {
				t.Errorf("active is %q, %v, want %q", first.ID, ok, c.want)
			}
		})
	}
}

// TestOneAtATime: of whatever is there, in whatever order it is listed, the same one of a subject is active, and it has not ended.
func TestOneAtATime(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		var all []Operation
		for i := range 1 + random.IntN(8) {
			all = append(all, made(fmt.Sprint("op-", i), "s", States()[random.IntN(6)], random.IntN(4)))
		}
		first, ok := Active("s", all)
		if left := slices.ContainsFunc(all, func(o Operation) bool { return !o.State.Ended() }); ok != left || ok && first.State.Ended() {
			t.Fatalf("active is %q, %v, of %v", first.ID, ok, all)
		}
		random.Shuffle(len(all), func(i, k int) { all[i], all[k] = all[k], all[i] })
		if again, _ := Active("s", all); again.ID != first.ID {
			t.Fatalf("active is %q, and in another order %q, of %v", first.ID, again.ID, all)
		}
	}
}

func TestBegin(t *testing.T) {
	asked := Operation{ID: "op-n", Kind: "upgrade", Subject: "s", Created: at(9)}
	busy := []Operation{made("op-a", "s", Running, 1), made("op-b", "s", Queued, 2)}
	for _, c := range []struct {
		name  string
		all   []Operation
		queue bool
		want  State
		log   string
	}{
		{"free", nil, false, Running, "running"},
		{"free, and it would wait", nil, true, Running, "running"},
		{"only another subject is busy", []Operation{made("op-a", "t", Running, 1)}, false, Running, "running"},
		{"after ended ones", []Operation{made("op-a", "s", Failed, 1)}, false, Running, "running"},
		{"busy, and it waits", busy, true, Queued, "queued behind op-a"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Begin(asked, c.all, c.queue)
			if err != nil {
				t.Fatal(err)
			}
			want := asked
			want.State, want.Log = c.want, []Line{{At: at(9), Text: c.log}}
			if c.want == Running {
				want.Started = at(9)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if first, _ := Active("s", append(c.all, got)); (first.ID == got.ID) != (c.want == Running) {
				t.Errorf("%s, and %s is active", c.want, first.ID)
			}
		})
	}
	for _, c := range []struct {
		name  string
		first Operation
		want  string
	}{
		{"running", made("op-a", "s", Running, 1), "operation op-a (change), asked for by user-1, has been running since 2026-01-02T12:00:02Z: wait for it with `drover operations wait op-a`, stop it with `drover operations abort op-a`, put the new one behind it with --queue, or in its place with --replace"},
		{"queued", made("op-a", "s", Queued, 1), "operation op-a (change), asked for by user-1, has been queued since 2026-01-02T12:00:01Z: wait for it with `drover operations wait op-a`, stop it with `drover operations abort op-a`, or put the new one behind it with --queue"},
		{"of nobody", Operation{ID: "op-a", Kind: "removal", Subject: "s", State: Stopping, Created: at(1)}, "operation op-a (removal) has been stopping since 2026-01-02T12:00:01Z: wait for it with `drover operations wait op-a`, stop it with `drover operations abort op-a`, or put the new one behind it with --queue"},
	} {
		t.Run("busy with one "+c.name, func(t *testing.T) {
			_, err := Begin(asked, []Operation{made("op-z", "s", Queued, 8), c.first}, false)
			var busy *BusyError
			if !errors.As(err, &busy) || busy.First.ID != "op-a" || err.Error() != c.want {
				t.Errorf("got  %v\nwant %v", err, c.want)
			}
		})
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	asked := Operation{ID: "op-n", Kind: "upgrade", Subject: "s", Created: at(99)}
	all := []Operation{made("op-a", "s", Running, 1), made("op-t", "t", Queued, 1)}
	for i := range MaxQueued {
		if _, err := Begin(asked, all, true); err != nil {
			t.Fatalf("after %d: %v", i, err)
		}
		all = append(all, made(fmt.Sprintf("op-%d", i), "s", Queued, 2+i))
	}
	_, err := Begin(asked, all, true)
	want := "16 operations of s are queued already, and no more may be; the first is op-a: wait for it with `drover operations wait op-a`, or take one out of the queue with `drover operations abort`"
	if full, ok := errors.AsType[*QueueFullError](err); !ok || full.First.ID != "op-a" || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

func TestPrune(t *testing.T) {
	ended := func(id, subject string, s State, seconds int) Operation {
		return Operation{ID: id, Subject: subject, State: s, Ended: at(seconds)}
	}
	all := []Operation{
		ended("d", "s", Aborted, 4), ended("b", "s", Succeeded, 2), ended("a", "s", Failed, 1), ended("c", "s", Failed, 2),
		ended("e", "t", Succeeded, 0), ended("f", "t", Succeeded, 3),
		{ID: "r", Subject: "s", State: Running}, {ID: "q", Subject: "s", State: Queued}, {ID: "x", Subject: "s", State: Stopping},
	}
	for _, c := range []struct {
		keep int
		want []string
	}{
		{-1, []string{"e", "a", "b", "c", "f", "d"}}, {0, []string{"e", "a", "b", "c", "f", "d"}},
		{1, []string{"e", "a", "b", "c"}}, {2, []string{"a", "b"}}, {3, []string{"a"}}, {4, nil}, {Kept, nil},
	} {
		var got []string
		for _, o := range Prune(all, c.keep) {
			got = append(got, o.ID)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("keep %d: %s", c.keep, diff)
		}
	}
}

func TestAbort(t *testing.T) {
	for _, c := range []struct {
		state, want State
		final       string
		refused     string
	}{
		{Queued, Aborted, "", ""},
		{Queued, Aborted, "cannot be stopped", ""},
		{Running, Stopping, "", ""},
		{Running, "", "cannot be stopped: wait for it", "operation op-1 cannot be stopped: wait for it"},
		{Stopping, "", "", "operation op-1 is stopping already, and finishes what was begun"},
		{Succeeded, "", "", "operation op-1 has ended and is succeeded"},
		{Failed, "", "cannot be stopped", "operation op-1 has ended and is failed"},
		{Aborted, "", "", "operation op-1 has ended and is aborted"},
	} {
		t.Run(string(c.state)+c.final, func(t *testing.T) {
			o := Operation{ID: "op-1", State: c.state, Final: c.final}
			got, err := o.AbortBy("user-2", at(3))
			if isRefused(t, err, c.refused) {
				if diff := cmp.Diff(o, got); diff != "" {
					t.Error(diff)
				}
				return
			}
			if got.State != c.want || got.Abort == nil || *got.Abort != (Request{By: "user-2", At: at(3)}) {
				t.Errorf("is %s, asked by %v, want %s by user-2", got.State, got.Abort, c.want)
			}
		})
	}
}

func TestRetry(t *testing.T) {
	failed := []Task{{ID: "a", State: TaskSucceeded, Attempts: 1}, {ID: "b", State: TaskFailed, Attempts: 2, Progress: "p", Message: "m"}}
	busy := []Operation{made("op-2", "s", Queued, 7)}
	for _, c := range []struct {
		name    string
		o       Operation
		all     []Operation
		refused string
	}{
		{"failed", Operation{State: Failed, Tasks: failed, Reason: "r", Ended: at(2), Abort: &Request{}, Retry: 3}, nil, ""},
		{"failed without tasks", Operation{State: Failed}, nil, ""},
		{"running with a failed task", Operation{State: Running, Tasks: failed, Wait: &Wait{}}, busy, ""},
		{"failed, and another waits", Operation{State: Failed}, busy, "operation op-1 cannot run now, since operation op-2 (change), asked for by user-1, has been queued since 2026-01-02T12:00:07Z"},
		{"failed once and for all", Operation{State: Failed, Once: true, Kind: "restore"}, nil, `operation op-1 has failed, and "restore" is not carried out twice: ask for it anew`},
		{"running", Operation{State: Running, Tasks: failed[:1]}, nil, "operation op-1 runs, and none of its tasks has failed"},
		{"queued", Operation{State: Queued}, nil, "operation op-1 is queued, and only what has failed can be tried again"},
		{"stopping", Operation{State: Stopping, Tasks: failed}, nil, "operation op-1 is stopping, and only what has failed can be tried again"},
		{"succeeded", Operation{State: Succeeded}, nil, "operation op-1 is succeeded, and only what has failed can be tried again"},
		{"aborted", Operation{State: Aborted}, nil, "operation op-1 is aborted, and only what has failed can be tried again"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.o
			o.ID, o.Subject = "op-1", "s"
			got, err := o.RetryBy("user-2", append(c.all, o), at(9))
			if isRefused(t, err, c.refused) {
				if diff := cmp.Diff(o, got); diff != "" {
					t.Error(diff)
				}
				return
			}
			if got.State != Running || got.Retry != o.Retry+1 || got.Abort != nil || got.Wait != nil || !got.Ended.IsZero() || got.Reason != "" {
				t.Errorf("after the retry it is %+v", got)
			}
			if b, ok := got.Task("b"); ok && (b.State != TaskPending || b.Attempts != 2 || b.Progress+b.Message != "") {
				t.Errorf("the failed task is %+v", b)
			}
			if a, ok := got.Task("a"); ok && a.State != TaskSucceeded {
				t.Errorf("the task that had succeeded is %+v", a)
			}
		})
	}
}

// isRefused checks the error of a request; a wanted one is *RefusedError with that text.
func isRefused(t *testing.T, err error, want string) bool {
	t.Helper()
	if want == "" {
		if err != nil {
			t.Fatal(err)
		}
		return false
	}
	var refused *RefusedError
	if !errors.As(err, &refused) || err.Error() != want {
		t.Errorf("got  %v\nwant %v", err, want)
	}
	return true
}

// What changes an operation leaves the value before as it was, also where slices have room.
func TestReceiversStay(t *testing.T) {
	for name, change := range map[string]func(Operation) Operation{
		"to":           func(o Operation) Operation { o, _ = o.To(Succeeded, "done", at(9)); return o },
		"changed task": func(o Operation) Operation { return o.WithTask(Task{ID: "custom-1", State: TaskSucceeded}, at(9)) },
		"new task":     func(o Operation) Operation { return o.WithTask(Task{ID: "custom-3", State: TaskRunning}, at(9)) },
		"wait":         func(o Operation) Operation { return o.WithWait(&Wait{Cause: "other"}, at(9)) },
		"line":         func(o Operation) Operation { return o.WithLine("more", at(9)) },
		"abort":        func(o Operation) Operation { o.State = Running; o, _ = o.AbortBy("user-3", at(9)); return o },
		"retry": func(o Operation) Operation {
			o.State = Running
			o, _ = o.RetryBy("user-3", nil, at(9))
			return o
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := full(t)
			before = before.WithTask(Task{ID: "custom-2", State: TaskFailed}, at(5))
			before.Tasks = slices.Grow(before.Tasks, 10)
			before.Log = slices.Grow(before.Log, 10)
			kept, err := json.Marshal(before)
			if err != nil {
				t.Fatal(err)
			}
			tasks, lines := before.Tasks[:cap(before.Tasks)], before.Log[:cap(before.Log)]
			after := change(before)
			if cmp.Equal(before, after) {
				t.Error("nothing changed")
			}
			if now, err := json.Marshal(before); err != nil || !bytes.Equal(kept, now) {
				t.Errorf("%v; was %s\nis  %s", err, kept, now)
			}
			if tasks[len(before.Tasks)] != (Task{}) || lines[len(before.Log)] != (Line{}) {
				t.Error("the room behind the receiver's slices was written to: two changes of one value would overwrite each other")
			}
		})
	}
}

func TestJSON(t *testing.T) {
	for name, o := range map[string]Operation{"full": full(t), "least": {ID: "op-bcdfghjk", Kind: "change", Subject: "a/b", State: Queued, Created: noon}} {
		t.Run(name, func(t *testing.T) {
			encoded, err := json.MarshalIndent(o, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			encoded = append(encoded, '\n')
			file := filepath.Join("testdata", name+".json")
			if *update {
				if err := os.WriteFile(file, encoded, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(encoded)); diff != "" {
				t.Error(diff)
			}
			var back Operation
			if err := json.Unmarshal(want, &back); err != nil {
				t.Fatal(err)
			}
			back.Params = compact(t, back.Params)
			if diff := cmp.Diff(o, back); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// compact takes away the spaces that the golden file has.
func compact(t *testing.T, text json.RawMessage) json.RawMessage {
	t.Helper()
	if text == nil {
		return nil
	}
	var b bytes.Buffer
	if err := json.Compact(&b, text); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestKey(t *testing.T) {
	if got := (Operation{ID: "op-1", Subject: "fleet-default/demo"}).Key(); got != "fleet-default/demo/op-1" {
		t.Error(got)
	}
}
