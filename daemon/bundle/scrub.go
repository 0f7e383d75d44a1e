package bundle

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// leftOut stands in the place of a secret.
const leftOut = "[left-out]"

// secret is a kind of secret, by how its text looks. Group 1, where there is one, stays.
type secret struct {
	kind string
	form *regexp.Regexp
	// words are what a text has at least one of, in lower case, where it has such a secret: to look for them is much quicker.
	words []string
}

// secrets are looked for in this order. None of them is to find all: text that carries secrets by design, such as what instructions print, gets
// into no bundle.
var secrets = []secret{
	{"output of an instruction", regexp.MustCompile(`(?m)^(.*\[(?:stdout|stderr)\]: ).*$`), []string{"[stdout]", "[stderr]"}},
	// The cause of a machine ends with the last line that the instruction printed.
	{"output of an instruction", regexp.MustCompile(`(instruction "[^"\n]*" of plan [0-9a-f]+ failed on [^:\n]*: )[^\n]*`), []string{" failed on "}},
	{"a private key", regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|\z)`), []string{"private key"}},
	{"an age key", regexp.MustCompile(`AGE-SECRET-KEY-1[0-9A-Z]+`), []string{"age-secret-key"}},
	{"a token of a cluster", regexp.MustCompile(`K10[0-9a-f]{16,}::[^\s"']+`), []string{"k10"}},
	{"a token", regexp.MustCompile(`\b((?:token|kubeconfig|ext|u|c|m|agent)-[a-z0-9.-]+):[a-zA-Z0-9]{20,}`), []string{"-"}},
	{"a token", regexp.MustCompile(`\b([a-z0-9][a-z0-9.-]*):[a-z0-9]{40,}\b`), []string{":"}},
	{"a web token", regexp.MustCompile(`\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*`), []string{"eyj"}},
	{"an authorization", regexp.MustCompile(`(?i)((?:authorization|cookie|x-api-[a-z-]*|r_sess)["']?\s*[:=]\s*)[^\n]+`), []string{"authorization", "cookie", "x-api", "r_sess"}},
	{"an authorization", regexp.MustCompile(`(?i)\b((?:bearer|basic)\s+)[A-Za-z0-9+/=_.:~-]{6,}`), []string{"bearer", "basic"}},
	{"a password in an address", regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)[^\s/@"']+@`), []string{"://"}},
	{"a parameter of an address", regexp.MustCompile(`([?&][^=&\s"']{1,40}=)[^&\s"']+`), []string{"?", "&"}},
	{"a value by its name", regexp.MustCompile(`(?i)((?:(?:passw(?:or)?d|passphrase|secret|token|credential|private[_-]?key|api[_-]?key|access[_-]?key|secret[_-]?key|encryption[_-]?key|session)[a-z0-9_.-]*)["']?\s*(?:[:=]\s*|\s+is\s+)["']?)[^\s"',;}]+`), []string{"passw", "passphrase", "secret", "token", "credential", "key", "session"}},
	{"a value by its flag", regexp.MustCompile(`(?i)(--(?:[a-z0-9-]*(?:password|passphrase|secret|token|key)[a-z0-9-]*)\s+)[^\s-][^\s"']*`), []string{"--"}},
	{"a key of AWS", regexp.MustCompile(`\b(?:AKIA|ASIA)[A-Z0-9]{16}\b`), []string{"akia", "asia"}},
	{"a key of GitHub", regexp.MustCompile(`\bgh[pousr]_[A-Za-z0-9]{20,}|\bgithub_pat_[A-Za-z0-9_]{20,}`), []string{"gh", "github_pat"}},
	{"a hash of a password", regexp.MustCompile(`\$(?:2[aby]|5|6|argon2id?|y)\$[^\s"':]+`), []string{"$"}},
}

// maxRun is how long a run of letters, digits and what base64 has may be before it is taken for a secret.
const maxRun = 48

// checksum is what a long run may be: the hexadecimal form of SHA-256 or SHA-1, by which plans and files are named, or a path.
var checksum = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?:[0-9a-f]{64}|[0-9a-f]{40}|[/a-z0-9_.-]*/[/a-z0-9_.-]*)$`)
})

// Scrub replaces what looks like a secret, and counts by kind what it has replaced.
func Scrub(text string) (string, map[string]int) {
	found := map[string]int{}
	lower := strings.ToLower(text)
	for _, s := range secrets {
		if !slices.ContainsFunc(s.words, func(word string) bool { return strings.Contains(lower, word) }) {
			continue
		}
		text = s.form.ReplaceAllStringFunc(text, func(match string) string {
			if strings.HasSuffix(match, leftOut) {
				return match
			}
			found[s.kind]++
			groups := s.form.FindStringSubmatch(match)
			switch {
			case len(groups) < 2:
				return leftOut
			case s.kind == "a password in an address":
				return groups[1] + leftOut + "@"
			case s.kind == "a token":
				return groups[1] + ":" + leftOut
			}
			return groups[1] + leftOut
		})
	}
	return runs(text, found), found
}

// runs replaces long values without words.
func runs(text string, found map[string]int) string {
	var b strings.Builder
	begin, kept := 0, 0
	end := func(at int) {
		if run := text[begin:at]; len(run) >= maxRun && !checksum().MatchString(run) {
			b.WriteString(text[kept:begin])
			b.WriteString(leftOut)
			kept = at
			found["a long value without words"]++
		}
		begin = at + 1
	}
	for i := range len(text) {
		if !inRun(text[i]) {
			end(i)
		}
	}
	end(len(text))
	if kept == 0 {
		return text
	}
	b.WriteString(text[kept:])
	return b.String()
}

func inRun(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '+' || c == '/' || c == '_' || c == '-' || c == '=' || c == '.'
}
