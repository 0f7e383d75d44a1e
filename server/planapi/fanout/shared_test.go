package fanout

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// since opens a stream that goes on from a revision, and is what it sends at once.
func (f *fixture) since(t *testing.T, scope Scope, revision int64) []string {
	t.Helper()
	sink := newGatedSink()
	for range 100 {
		sink.gate <- struct{}{}
	}
	s := &stream{hub: f.Hub, scope: &scope, sink: sink, until: time.Now().Add(time.Hour), done: make(chan struct{})}
	if !f.attach(s, Start{Since: revision, Mark: true}) {
		t.Fatal("the hub is closed")
	}
	defer func() {
		s.abort()
		<-s.done
		f.running.Done()
	}()
	var events []string
	for {
		event := <-sink.entered
		if strings.HasPrefix(event, bookmark) {
			return events
		}
		kind, _, _ := strings.Cut(event, " ")
		events = append(events, kind+" "+value(t, event))
	}
}

// TestSecretsThatChangeTogether: writes that come at once share a revision. A watch of several
// Secrets that was cut between the events of one, and goes on from it, gets all of them.
func TestSecretsThatChangeTogether(t *testing.T) {
	f := setUp(t)
	f.create(t, "ns/a")
	f.create(t, "ns/b")
	f.create(t, "ns/c")
	var ops []store.Op
	for _, key := range []string{"ns/a", "ns/b"} {
		d, _ := f.state.PlanSecrets.Get(key)
		d.Value.Data = map[string][]byte{"v": []byte("together")}
		ops = append(ops, f.state.PlanSecrets.Updating(d))
	}
	together, err := f.state.Store.Commit(t.Context(), ops...)
	if err != nil {
		t.Fatal(err)
	}
	wide, narrow := Scope{Prefix: "ns/"}, Scope{Key: "ns/a"}
	if got := f.since(t, wide, together); strings.Join(got, ", ") != "MODIFIED together, MODIFIED together" {
		t.Errorf("a watch of all goes on with %q", got)
	}
	if got := f.since(t, narrow, together); len(got) > 0 {
		t.Errorf("a watch of one goes on with %q", got)
	}
	d, err := f.state.PlanSecrets.Modify(t.Context(), "ns/c", func(s records.PlanSecret) (records.PlanSecret, error) {
		s.Data = map[string][]byte{"v": []byte("alone")}
		return s, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := f.since(t, wide, d.Revision); len(got) > 0 {
		t.Errorf("behind a change that came alone it goes on with %q", got)
	}
}
