package ui

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/drover-project/drover/test/skips"
)

func TestQuoted(t *testing.T) {
	for given, want := range map[string]string{
		"harbour": "harbour", "a b": "'a b'", "it's": `'it'\''s'`, "": "''", "$(reboot)": "'$(reboot)'", "k=v:NoSchedule": "k=v:NoSchedule", "two\nlines": "'two\nlines'", "hübsch": "'hübsch'",
		"x\x15reboot\r": `$'x\025reboot\015'`, "it's\t!": `$'it\047s\011\041'`, "\u202emr": `$'\U0000202emr'`, "\xff1": `$'\3771'`, "\u009b31m": `$'\U0000009b31m'`, "\u00e9\x1b": `$'é\033'`,
	} {
		if got := Quoted(given); got != want {
			t.Errorf("%q is quoted as %s, want %s", given, got, want)
		}
	}
}

func TestLine(t *testing.T) {
	for _, c := range []struct {
		args, flags []string
		want        string
	}{
		{[]string{"a b", "c"}, []string{"--yes", "", ShellFlag("--to", "x;y"), ShellFlag("--now", "")}, "drover do 'a b' c --yes --to 'x;y'"},
		{[]string{"a", "--server=https://evil.example"}, []string{"--yes"}, "drover do --yes -- a --server=https://evil.example"},
		{nil, nil, "drover do"},
	} {
		if got := ShellLine("drover do", c.args, c.flags...); got != c.want {
			t.Errorf("%q: %s, want %s", c.args, got, c.want)
		}
	}
}

// TestShellsReadWords: a shell takes what is quoted for the word that it was.
func TestShellsReadWords(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		skips.Skip(t, "there is no bash here")
	}
	for _, word := range []string{"", "-", "a'b\"c`id`$(id)${x}\\", "a;b|c&d>e<f#g*h?i[j]k{l}m~n!o", "two\nlines", "\x01\x15\x1b[2J\x7f\xff\u009b\u202e'\\0!7é"} {
		cmd := exec.CommandContext(t.Context(), bash, "-c", "printf %s "+Quoted(word))
		cmd.Env = []string{"LC_ALL=C.UTF-8"}
		if out, err := cmd.CombinedOutput(); err != nil || strings.TrimSuffix(string(out), "\x00") != word {
			t.Errorf("%q became %q, %v", word, out, err)
		}
	}
}
