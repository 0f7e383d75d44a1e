package keyring

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A key file from outside is refused or gives keys that seal and open.
func FuzzParseKeys(f *testing.F) {
	line := testKey(f, 1).line()
	f.Add([]byte(line))
	f.Add([]byte("# comment\n\n" + line + testKey(f, 2).line()))
	f.Add([]byte("drover-key 00 AAAA"))
	f.Fuzz(func(t *testing.T, text []byte) {
		ring, err := parse(text)
		if err != nil {
			return
		}
		sealed := must(ring.Seal("/a", text))(t)
		if got := must(ring.Open("/a", sealed))(t); !bytes.Equal(got, text) {
			t.Error("the keys do not open what they sealed")
		}
	})
}

func TestParse(t *testing.T) {
	t.Parallel()
	one, two := testKey(t, 1), testKey(t, 2)
	for _, c := range []struct{ name, text, want string }{
		{"none", "# nothing\n", "it holds no key"},
		{"twice", one.line() + two.line() + one.line(), "line 3: key " + one.id.String() + " appears twice"},
		{"no id", "drover-key AAAA\n", `line 1: expected "drover-key", an id and a secret`},
		{"other word", "# x\n\n" + strings.Replace(one.line(), "drover", "other", 1), "line 3: expected"},
		{"short secret", "drover-key 0102030405060708 AAAA\n", "line 1: the secret is not 32 bytes in base64"},
		{"other id", strings.Replace(one.line(), one.id.String(), two.id.String(), 1), "line 1: id and secret do not belong together"},
		{"long line", strings.Repeat("x", 70_000), "too long"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parse([]byte(c.text))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
			if secret := strings.Fields(one.line())[2]; err != nil && strings.Contains(err.Error(), secret) {
				t.Error("the error shows a key")
			}
		})
	}
	ring := must(parse([]byte("\n# a\n" + two.line() + "  " + one.line())))(t)
	if ring.first.id != two.id || len(ring.all) != 2 {
		t.Errorf("first key %s of %d, want %s of 2", ring.first.id, len(ring.all), two.id)
	}
	line := must(makeKey())(t).line()
	if ring := must(parse([]byte(line)))(t); ring.first.line() != line {
		t.Error("a new key does not read back")
	}
}

// TestReadsACredential: the key file of a unit's credentials is readable by an access control list, and belongs to root.
func TestReadsACredential(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "drover.encryption-key")
	if err := os.WriteFile(path, []byte(testKey(t, 1).line()), 0o440); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), "others can read the keys") {
		t.Errorf("a file that is none: %v", err)
	}
	t.Setenv("CREDENTIALS_DIRECTORY", dir)
	if _, err := Read(path); err != nil {
		t.Error(err)
	}
}
