package output_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/apply/output"
)

func TestFollowerOfDamagedOutput(t *testing.T) {
	header := "drvout1\n" + strings.Repeat("\x00", 8)
	tests := []struct {
		name, segment string
		want          string // output, or the end of the error with "!" in front
	}{
		{"empty", "", ""},
		{"half a header", "drvout", ""},
		{"another kind of file", "something else entirely", "!is not an output segment"},
		{"half a record", header + "\x01\x00\x00\x00\x05ab", ""},
		{"a whole and a half record", header + "\x02\x00\x00\x00\x01a\x01\x00", "a"},
		{"unknown stream", header + "\x07\x00\x00\x00\x01a", "!is damaged at byte 16"},
		{"absurd length", header + "\x01\xff\xff\xff\xffa", "!is damaged at byte 16"},
		{"no length", header + "\x01\x00\x00\x00\x00", "!is damaged at byte 16"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "output.000000"), []byte(test.segment), 0o600); err != nil {
				t.Fatal(err)
			}
			var got strings.Builder
			err := output.NewFollower(dir).Next(func(c output.Chunk) { got.Write(c.Data) })
			if message, fails := strings.CutPrefix(test.want, "!"); fails {
				if err == nil || !strings.HasSuffix(err.Error(), message) {
					t.Errorf("error %v, want %s", err, message)
				}
			} else if err != nil || got.String() != test.want {
				t.Errorf("%q, %v", got.String(), err)
			}
		})
	}
}

func TestFollowerGoesOnWhereItStopped(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "output.000000")
	segment := "drvout1\n" + strings.Repeat("\x00", 8) + "\x01\x00\x00\x00\x03one" + "\x02\x00\x00\x00\x03two"
	f := output.NewFollower(dir)
	var got strings.Builder
	// The file grows a byte at a time, as the slowest writer's would.
	for n := range len(segment) + 1 {
		if err := os.WriteFile(path, []byte(segment[:n]), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.Next(func(c output.Chunk) { got.WriteString(c.Stream.String() + ":" + string(c.Data) + " ") }); err != nil {
			t.Fatal(err)
		}
	}
	if got.String() != "stdout:one stderr:two " {
		t.Errorf("%q", got.String())
	}
}

func TestBounded(t *testing.T) {
	tests := []struct {
		name   string
		writes []string
		want   string
		cut    int64
	}{
		{"nothing", nil, "", 0},
		{"within", []string{"abcd", "efgh"}, "abcdefgh", 0},
		{"one more", []string{"abcdefghi"}, "abcd\n[1 bytes cut]\nfghi", 1},
		{"byte by byte", strings.Split("abcdefghijklmnopqrstuvwxyz", ""), "abcd\n[18 bytes cut]\nwxyz", 18},
		{"long after short", []string{"ab", "c", "defghijklmnopqrstuvwxyz"}, "abcd\n[18 bytes cut]\nwxyz", 18},
		{"long after full", []string{"abcdefgh", "ijklmnopqrstuvwxyz"}, "abcd\n[18 bytes cut]\nwxyz", 18},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			b := output.NewBounded(8)
			for _, w := range test.writes {
				if n, err := b.Write([]byte(w)); n != len(w) || err != nil {
					t.Fatal(n, err)
				}
			}
			if b.Cut() != test.cut || string(b.Bytes()) != test.want {
				t.Errorf("cut %d, %q", b.Cut(), b.Bytes())
			}
		})
	}
}
