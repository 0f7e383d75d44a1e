package ops

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"

	difference "github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// TestReadToken: what is kept is the password; what is wrong is said without it.
func TestReadToken(t *testing.T) {
	hash := strings.Repeat("0a", 32)
	for text, want := range map[string]string{
		"s3cret":                               "s3cret",
		"  s3cret\r\n":                         "s3cret",
		"K10" + hash + "::server:s3cret\n":     "s3cret",
		"K10::server:s3cret":                   "s3cret",
		"K10" + hash + "::server:s3:cret::x":   "s3:cret::x",
		"K10s3cret":                            "K10s3cret", // a password may begin so
		strings.Repeat("s", MaxToken):          strings.Repeat("s", MaxToken),
		"a#$%^&*()-_=+[]{}|;',.<>/?~`!@s3cret": "a#$%^&*()-_=+[]{}|;',.<>/?~`!@s3cret",
	} {
		if got, err := ReadToken(text); err != nil || got != want {
			t.Errorf("of %q: %q, %v", text, got, err)
		}
	}
	for text, want := range map[string]string{
		"":                                   "it is empty",
		"\n":                                 "it is empty",
		"K10" + hash + "::server:":           "it is empty",
		"K10" + hash + "::node:s3cret":       `it is a token of the user "node"`,
		"K10" + hash[1:] + "::server:s3cret": "it is cut or has another form",
		"K10" + hash + ":s3cret":             "it is cut or has another form",
		"s3cret s3cret":                      "it is more than one word",
		"s3cret\ns3cret":                     "it is more than one word",
		"server   s3cret\nagent    s3cret":   "it is more than one word",
		`s3"cret`:                            "it is more than one word",
		`s3\\cret`:                           "it is more than one word",
		"s3crét":                             "it is more than one word",
		"s3cret.s3cret0123456789"[:6] + ".0123456789abcdef": "it is a bootstrap token of agents",
		strings.Repeat("s3cret", 100):                       "it has more than 512 characters",
	} {
		got, err := ReadToken(text)
		if err == nil || !strings.Contains(err.Error(), want) || got != "" {
			t.Errorf("of %q: %q, %v, want %q", text, got, err, want)
		} else if strings.Contains(err.Error(), "s3cret") {
			t.Errorf("the error has the token: %v", err)
		}
	}
}

func hashes(tokens ...string) (all []string) {
	for _, token := range tokens {
		all = append(all, TokenHash(token))
	}
	return all
}

// TestBringing keeps each token once, the one that came first before the others, behind those that the cluster made itself.
func TestBringing(t *testing.T) {
	s := records.ClusterSecrets{ServerToken: "own", Other: []records.ServerToken{{Token: "rotated", Made: noon}}, Next: &records.ServerToken{Token: "next", Made: noon}}
	for _, token := range []string{"a", "b"} {
		next, known, err := Bringing(s, token)
		if err != nil || known {
			t.Fatal(known, err)
		}
		s = next
	}
	for _, token := range []string{"own", "rotated", "next", "a", "b"} {
		if next, known, err := Bringing(s, token); err != nil || !known || !difference.Equal(next, s) {
			t.Errorf("%s again: %v, %v, %+v", token, known, err, next)
		}
	}
	want := hashes("rotated", "next", "own", "a", "b")
	if got := TokenHashes(s); !slices.Equal(got, want) {
		t.Errorf("they are looked for in the order %q, want %q", got, want)
	}
	if !slices.Equal(s.Brought, want[3:]) || s.ServerToken != "own" {
		t.Errorf("%+v", s)
	}
	for i := len(s.Other); i < MaxTokens; i++ {
		s, _, _ = Bringing(s, fmt.Sprint("more-", i))
	}
	if next, known, err := Bringing(s, "one-more"); err == nil || known || !difference.Equal(next, s) || !strings.Contains(err.Error(), "33 server tokens") {
		t.Errorf("%v, %v", known, err)
	}
}

// TestARestoreWithABroughtToken looks for the token that the snapshot was listed with first, and has etcd written with the agent token of
// now before anything else starts.
func TestARestoreWithABroughtToken(t *testing.T) {
	for name, c := range map[string]struct {
		listed, found string
		likely        []string
		seals         operations.TaskState
	}{
		"not known":      {"", "old", []string{"word", "old", "older"}, operations.TaskSucceeded},
		"known":          {"older", "older", []string{"older", "word", "old"}, operations.TaskSucceeded},
		"an archive":     {"old", "", []string{"old", "word", "older"}, operations.TaskSucceeded},
		"its own":        {"", "word", []string{"word", "old", "older"}, operations.TaskSkipped},
		"gone meanwhile": {"none", "word", []string{"word", "old", "older"}, operations.TaskSkipped},
	} {
		t.Run(name, func(t *testing.T) {
			r := Request{Snapshot: "/root/one", Target: "m0"}
			if c.listed != "" {
				r.TokenHash = TokenHash(c.listed)
			}
			b := newBed(t, KindRestore, r, "ecw", "ec", "w")
			for _, token := range []string{"old", "older"} {
				b.in.Secrets, _, _ = Bringing(b.in.Secrets, token)
			}
			if got := r.likely(b.in.Secrets); !slices.Equal(got, hashes(c.likely...)) {
				t.Errorf("the host looks for %q", got)
			}
			b.does = func(m *Machine, task operations.Task) {
				if verbOf(task) == "check" && c.found != "" {
					m.Output = fmt.Appendf(nil, `{"file": "/root/one", "size": 7, "sha256": "x", "tokenHash": "%s"}`, TokenHash(c.found))
				}
			}
			steps := b.run()
			seal, _ := b.in.Operation.Task("seal m0")
			if b.in.Operation.State != operations.Succeeded || seal.State != c.seals {
				t.Errorf("it is %s: %s; %+v", b.in.Operation.State, b.in.Operation.Reason, seal)
			}
			if i := slices.Index(steps, "seal m0"); i >= 0 && (steps[i-1] != "start m0" || steps[i+1] != "forget m0") {
				t.Errorf("the steps are %q", steps)
			}
			if want := hashes(cmp.Or(c.found, c.listed))[0]; TokenHash(b.in.Secrets.ServerToken) != want {
				t.Errorf("the cluster has the token %s", b.in.Secrets.ServerToken)
			}
		})
	}
}
