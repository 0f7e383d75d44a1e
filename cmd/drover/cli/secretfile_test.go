package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadSecret: what others can read is refused, and the sentence never has what is in the file.
func TestReadSecret(t *testing.T) {
	for name, c := range map[string]struct {
		text, in   string
		mode       os.FileMode
		want, says string
	}{
		"of its owner":   {text: "word\n", mode: 0o600, want: "word\n"},
		"read-only":      {text: "word", mode: 0o400, want: "word"},
		"standard input": {in: "word", want: "word"},
		"of the group":   {text: "word", mode: 0o640, says: "so others can read it: chmod 600 "},
		"of everybody":   {text: "word", mode: 0o604, says: "mode 0604"},
		"a long one":     {text: strings.Repeat("w", maxSecret+1), mode: 0o600, says: "more than 4096 bytes"},
		"a long input":   {in: strings.Repeat("w", maxSecret+1), says: "standard input has more than 4096 bytes"},
		"none":           {mode: 0o600, says: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			file := "-"
			if c.mode != 0 {
				file = filepath.Join(t.TempDir(), "secret")
			}
			if c.text != "" {
				if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
					t.Fatal(err)
				}
			}
			got, err := readSecret(strings.NewReader(c.in), file)
			if got != c.want || (err == nil) != (c.says == "") {
				t.Fatalf("%q, %v", got, err)
			}
			if err != nil && (!strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "word")) {
				t.Errorf("it says %v, want %q", err, c.says)
			}
		})
	}
}
