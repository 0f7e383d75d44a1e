package randomid

import (
	"regexp"
	"strings"
	"testing"
)

func TestTexts(t *testing.T) {
	for _, c := range []struct {
		name string
		make func() string
		form string
	}{
		{"id of five", func() string { return ID(5) }, `^[bcdfghjklmnpqrstvwxz2456789]{5}$`},
		{"id of none", func() string { return ID(0) }, `^$`},
		{"id of less than none", func() string { return ID(-1) }, `^$`},
		{"secret", Secret, `^[bcdfghjklmnpqrstvwxz2456789]{54}$`},
		{"uid", UID, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`},
	} {
		t.Run(c.name, func(t *testing.T) {
			form := regexp.MustCompile(c.form)
			seen := make(map[string]bool)
			for range 1000 {
				text := c.make()
				if !form.MatchString(text) {
					t.Fatalf("%q is not of the form %s", text, c.form)
				}
				seen[text] = true
			}
			if want := 990; len(seen) < want && c.form != `^$` {
				t.Errorf("1000 texts held %d different ones, want at least %d", len(seen), want)
			}
		})
	}
}

// Each character is equally likely: a plain remainder of a byte would make the first
// 13 of the alphabet about 11 % more frequent than the others.
func TestIDIsEven(t *testing.T) {
	const n = 270_000
	text := ID(n)
	for _, character := range alphabet {
		count := strings.Count(text, string(character))
		if count < 9_500 || count > 10_500 { // the mean is 10,000, five standard deviations are 490
			t.Errorf("%q appears %d times in %d characters, want about %d", character, count, n, n/len(alphabet))
		}
	}
}

func TestHash(t *testing.T) {
	const want = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" // FIPS 180-2, appendix B.1
	if got := Hash("abc"); got != want {
		t.Errorf("Hash(abc) = %s, want %s", got, want)
	}
}
