package store

import (
	"testing"
	"time"
)

type note struct {
	Text string            `json:"text"`
	Tags map[string]string `json:"tags,omitempty"`
}

func TestFirst(t *testing.T) {
	start := time.Now()
	notes := NewCollection[note]("notes", true)
	s, err := Open(t.Context(), Options{DataDir: t.TempDir()}, notes)
	if err != nil {
		t.Fatal(err)
	}
	t.Log("open", time.Since(start))
	d, err := notes.Create(t.Context(), "a", note{Text: "x"})
	if err != nil {
		t.Fatal(err)
	}
	start = time.Now()
	for range 100 {
		d, err = notes.Modify(t.Context(), "a", func(n note) (note, error) { n.Text += "y"; return n, nil })
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Log("100 writes", time.Since(start), d.Revision)
	start = time.Now()
	l, err := s.Campaign(t.Context(), "x", "me")
	t.Log("campaign", time.Since(start), err)
	start = time.Now()
	if err := l.Resign(t.Context()); err != nil {
		t.Error(err)
	}
	t.Log("resign", time.Since(start), err)
	start = time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	t.Log("close", time.Since(start))
}
