package output

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/drover-project/drover/plans"
)

// TestWriter: however a text is cut into pieces, the terminal gets the same.
func TestWriter(t *testing.T) {
	const text, want = "ok 中\tx\r\nevil\x1b[2J\u009b1A\u202e\xff\r.\n\x07中", "ok 中\tx\nevil·[2J·1A···.\n·中"
	for size := 1; size <= len(text); size++ {
		var out bytes.Buffer
		w := newSafeWriter(&out, "\x1b[31m")
		for rest := text; rest != ""; {
			n := min(size, len(rest))
			if wrote, err := w.Write([]byte(rest[:n])); err != nil || wrote != n {
				t.Fatal(wrote, err)
			}
			rest = rest[n:]
		}
		if out.String() != want {
			t.Errorf("in pieces of %d: %q, want %q", size, out.String(), want)
		}
	}
	var out bytes.Buffer
	if _, err := newSafeWriter(&out, "\x1b[31m", "\x1b[0m").Write([]byte("\x1b[31mred\x1b[0m\x1b[32m")); err != nil || out.String() != "\x1b[31mred\x1b[0m·[32m" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestWriterSaysWhatFails(t *testing.T) {
	if _, err := newSafeWriter(broken{}).Write([]byte("x")); err == nil {
		t.Error("nothing failed")
	}
}

// FuzzWriter: nothing but what is safe comes out, in pieces as in one.
func FuzzWriter(f *testing.F) {
	f.Add("a\x1b[31m\u202e中\xff\r\n", 3)
	f.Fuzz(func(t *testing.T, text string, cut int) {
		var whole, pieces bytes.Buffer
		_, _ = newSafeWriter(&whole).Write([]byte(text))
		at := max(0, min(cut, len(text)))
		w := newSafeWriter(&pieces)
		_, _ = w.Write([]byte(text[:at]))
		_, _ = w.Write([]byte(text[at:]))
		if whole.String() != pieces.String() {
			t.Errorf("%q and %q", whole.String(), pieces.String())
		}
		if !utf8.Valid(whole.Bytes()) || !plans.SafeText(strings.NewReplacer("\n", "", "\t", "").Replace(whole.String())) {
			t.Errorf("%q", whole.String())
		}
	})
}
