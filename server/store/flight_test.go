package store

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOwnWritesAreShared holds that what is written here comes back as it is, and what
// another server writes is decoded.
func TestOwnWritesAreShared(t *testing.T) {
	t.Parallel()
	s, plain, sensitive := openNotes(t, t.TempDir())
	for name, c := range map[string]*Collection[note]{"plain": plain, "sensitive": sensitive} {
		t.Run(name, func(t *testing.T) {
			value := note{Text: "one", Tags: map[string]string{"a": "b"}, Body: []byte{0, 255}}
			created := must(c.Create(t.Context(), "ns/a", value))(t)
			got, _ := c.Get("ns/a")
			if &got.Value.Body[0] != &value.Body[0] {
				t.Error("the value was decoded")
			}

			// The same bytes, from outside.
			key := documentKey(c.name, "ns/a")
			stored := must(s.client.Get(t.Context(), key))(t)
			put := must(s.client.Put(t.Context(), key, string(stored.Kvs[0].Value)))(t)
			if err := s.await(t.Context(), put.Header.Revision); err != nil {
				t.Fatal(err)
			}
			again, _ := c.Get("ns/a")
			if again.Revision <= created.Revision || &again.Value.Body[0] == &value.Body[0] {
				t.Errorf("a write from outside at revision %d was taken for the one of revision %d", again.Revision, created.Revision)
			}
			if diff := cmp.Diff(got.Value, again.Value); diff != "" {
				t.Errorf("shared and decoded values differ: %s", diff)
			}
		})
	}
	s.flights.mu.Lock()
	defer s.flights.mu.Unlock()
	if len(s.flights.byKey) != 0 {
		t.Errorf("%d writes are still under way", len(s.flights.byKey))
	}
}

// TestTwoWritesOfOneKey holds that a write that loses does not lend its value to the winner.
func TestTwoWritesOfOneKey(t *testing.T) {
	t.Parallel()
	s, plain, _ := openNotes(t, t.TempDir())
	created := must(plain.Create(t.Context(), "ns/a", note{Text: "zero"}))(t)
	landed := s.flights.begin([]*flight{{key: documentKey(plain.name, "ns/a"), encoded: []byte(`{"text":"loser"}`), value: note{Text: "loser"}}})
	created.Value.Text = "winner"
	must(plain.Update(t.Context(), created))(t)
	if got, _ := plain.Get("ns/a"); got.Value.Text != "winner" {
		t.Errorf("the document is %q", got.Value.Text)
	}
	landed()

	// An ended context leaves nothing behind either.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := plain.Create(ctx, "ns/b", note{}); err == nil {
		t.Error("a write below an ended context succeeded")
	}
	if len(s.flights.byKey) != 0 {
		t.Errorf("%d writes are still under way", len(s.flights.byKey))
	}
}
