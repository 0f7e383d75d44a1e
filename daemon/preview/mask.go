// Masking: a preview is read over shoulders and pasted into tickets, and the files of a
// plan hold tokens and keys. What looks like a secret is shown as a tag that differs for
// different values, so that a change still shows; the tag cannot be checked against a
// guess, because its key is thrown away with the preview.

package preview

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"regexp"
	"strings"
	"unicode/utf8"
)

// word is in the names of things whose values are secrets. A key is one only as a part of
// its own: "key", "tls-key", "apiKey", not "keyboard".
const word = `(?:[\w.\-]*(?i:token|passw|passphrase|secret|credential|bearer)[\w.\-]*|(?:[\w.\-]*[\-_.])?(?i:key|auth|pwd)(?:[\-_.][\w.\-]*)?|[\w.\-]*[a-z](?:Key|Auth)(?:[A-Z\-_.][\w.\-]*)?|[A-Z0-9_]*(?:KEY|AUTH)[A-Z0-9_]*)`

// value is a quoted text, or what ends at a blank or at the end of a list.
const value = `"(?:[^"\\\n]|\\.)*"|'(?:[^'\n])*'|[^\s,\]}"'|>][^\s,\]}]*`

var (
	// pair is a name and its value, as YAML, JSON, env files, units and command lines have them.
	pair = regexp.MustCompile(`(^|[\s{,\["'(\-?&;])(` + word + `)(["']?[ \t]*[:=][ \t]*|[ \t]+)(` + value + `)`)
	// whole is a line of YAML or of an env file that begins with such a name: its value is the
	// rest of the line, blanks included.
	whole = regexp.MustCompile(`^(\s*(?:- +)?(?:export +)?["']?` + word + `["']?[ \t]*(?::[ \t]+|=[ \t]*))([^"'{\[|>\s#][^\n]*)$`)
	// above is a line of YAML whose value is on the lines below it.
	above = regexp.MustCompile(`^(\s*)(?:- +)?["']?` + word + `["']?[ \t]*:[ \t]*([|>][0-9+\-]*)?[ \t]*(?:#.*)?$`)
	item  = regexp.MustCompile(`^(\s*)- +([^\s].*)$`)
	// scheme is what comes before credentials in headers, login the password in a URL.
	scheme = regexp.MustCompile(`(?i)\b(bearer|basic)([ \t]+)([A-Za-z0-9._~+/=\-]{6,})`)
	login  = regexp.MustCompile(`(://[^/\s:@"']*:)([^@/\s"']+)(@)`)
	// begin and end are the edges of a private key.
	begin = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----`)
	end   = regexp.MustCompile(`-----END [A-Z0-9 ]*PRIVATE KEY-----`)
	// flag is an argument whose value is the next one.
	flag = regexp.MustCompile(`^--?` + word + `$`)
)

// masker masks with one key.
type masker struct{ key []byte }

// tag stands for a secret.
func (m masker) tag(secret string) string {
	mac := hmac.New(sha256.New, m.key)
	mac.Write([]byte(secret))
	return "<masked:" + hex.EncodeToString(mac.Sum(nil)[:4]) + ">"
}

// value masks a value within its quotes.
func (m masker) value(v string) string {
	if strings.HasPrefix(v, "<masked:") || v == "" {
		return v
	}
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		if len(v) == 2 {
			return v
		}
		return v[:1] + m.tag(v[1:len(v)-1]) + v[:1]
	}
	return m.tag(v)
}

// text masks what looks like a secret in a file, a script or an argument.
func (m masker) text(s string) string {
	lines := strings.Split(m.privateKeys(s), "\n")
	var block below
	for i, line := range lines {
		if covered, ok := block.line(m, line); ok {
			lines[i] = covered
			continue
		}
		lines[i] = m.line(line)
		block = blockBelow(line)
	}
	return strings.Join(lines, "\n")
}

func (m masker) line(line string) string {
	line = scheme.ReplaceAllStringFunc(line, func(s string) string {
		p := scheme.FindStringSubmatch(s)
		return p[1] + p[2] + m.tag(p[3])
	})
	line = login.ReplaceAllStringFunc(line, func(s string) string {
		p := login.FindStringSubmatch(s)
		return p[1] + m.tag(p[2]) + p[3]
	})
	if p := whole.FindStringSubmatch(line); p != nil && !strings.Contains(p[2], "<masked:") {
		return p[1] + m.tag(p[2])
	}
	return pair.ReplaceAllStringFunc(line, func(s string) string {
		p := pair.FindStringSubmatch(s)
		if strings.TrimLeft(p[3], " \t") == "" && p[1] != "-" && p[2][0] != '-' {
			return s // two words beside one another, which only mean something after a flag's dash
		}
		return p[1] + p[2] + p[3] + m.value(p[4])
	})
}

// privateKeys masks what is between the edges of private keys, also where the key has no
// end or stands on one line with escaped line ends.
func (m masker) privateKeys(s string) string {
	var b strings.Builder
	for {
		from := begin.FindStringIndex(s)
		if from == nil {
			b.WriteString(s)
			return b.String()
		}
		b.WriteString(s[:from[1]])
		s = s[from[1]:]
		to := end.FindStringIndex(s)
		if to == nil {
			b.WriteString(m.tag(s))
			return b.String()
		}
		b.WriteString(" " + m.tag(s[:to[0]]) + " " + s[to[0]:to[1]])
		s = s[to[1]:]
	}
}

// below is a place in YAML where the value of a secret's name goes on over lines.
type below struct {
	on     bool
	indent int
	scalar bool // a block of text, not a list
}

func blockBelow(line string) below {
	p := above.FindStringSubmatch(line)
	if p == nil {
		return below{}
	}
	return below{on: true, indent: len(p[1]), scalar: p[2] != ""}
}

// line masks a line that belongs to the value; ok is false behind its end.
func (b *below) line(m masker, line string) (masked string, ok bool) {
	if !b.on {
		return line, false
	}
	text := strings.TrimLeft(line, " \t")
	indent := len(line) - len(text)
	switch {
	case text == "" && b.scalar:
		return line, true
	case b.scalar && indent > b.indent:
		return line[:indent] + m.tag(text), true
	case !b.scalar && indent >= b.indent:
		if p := item.FindStringSubmatch(line); p != nil && !strings.Contains(p[2], ": ") && !strings.HasSuffix(p[2], ":") {
			return p[1] + "- " + m.value(p[2]), true
		}
	}
	b.on = false
	return line, false
}

// args masks a command line.
func (m masker) args(args []string) []string {
	masked := make([]string, len(args))
	for i, a := range args {
		if i > 0 && flag.MatchString(args[i-1]) /* #nosec G602 -- i > 0 */ && !strings.HasPrefix(a, "-") {
			masked[i] = m.tag(a)
			continue
		}
		masked[i] = m.text(a)
	}
	return masked
}

// env masks entries of an environment.
func (m masker) env(env []string) []string {
	masked := make([]string, len(env))
	for i, e := range env {
		masked[i] = m.text(e)
	}
	return masked
}

// isText says whether content can be shown as lines.
func isText(b []byte) bool { return utf8.Valid(b) && !bytes.ContainsRune(b, 0) }
