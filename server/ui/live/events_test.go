package live

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		what, want string
		event      Event
	}{
		{"short", "event: hello\ndata: a b\n\n", Short("hello", "a b")},
		{"lines", "event: away\ndata: a\ndata: b\n\n", Short("away", "a\nb")},
		{"nothing", "event: beat\ndata: \n\n", Short("beat", "")},
		{"an id", "event: main\nid: 7f\ndata: <p>\ndata: </p>\n\n", Long("main", "7f", []byte("<p>\n</p>\n"))},
		{"carriage returns", "event: main\nid: 7f\ndata: a\ndata: event: over\ndata: data: x\ndata: b\n\n", Long("main", "7f", []byte("a\revent: over\rdata: x\r\nb"))},
		{"a name of two lines", "event: mainid: x\ndata: a\n\n", Short("main\nid: x", "a")},
	} {
		if string(c.event.Plain) != c.want {
			t.Errorf("%s: %q, want %q", c.what, c.event.Plain, c.want)
		}
	}
}

// TestPacked: each event can be read as soon as its bytes have come, whichever came before.
func TestPacked(t *testing.T) {
	page := Long("main", "1", []byte(strings.Repeat("<tr><td>host-17</td></tr>\n", 5000)))
	if len(page.Packed)*20 > len(page.Plain) {
		t.Errorf("%d bytes were packed into %d", len(page.Plain), len(page.Packed))
	}
	in, out := io.Pipe()
	got := make(chan []byte)
	events := []Event{Short("hello", "x"), page, Short("beat", ""), page, Long("main", "2", nil), Short("away", strings.Repeat("z", 200_000))}
	go func() {
		defer in.Close()
		z, err := gzip.NewReader(in)
		if err != nil {
			t.Error(err)
			return
		}
		for _, e := range events {
			text := make([]byte, len(e.Plain))
			if _, err := io.ReadFull(z, text); err != nil {
				t.Error(err)
				return
			}
			got <- text
		}
	}()
	if _, err := out.Write(Head()); err != nil {
		t.Fatal(err)
	}
	for i, e := range events {
		if _, err := out.Write(e.Packed); err != nil {
			t.Fatal(err)
		}
		if text := <-got; !bytes.Equal(text, e.Plain) { // before anything else is written
			t.Errorf("event %d is another one", i)
		}
	}
}
