package kubectl

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWords(t *testing.T) {
	for line, want := range map[string][]string{
		"get pods -A":          {"get", "pods", "-A"},
		"  kubectl get\tpods ": {"get", "pods"},
		`get pods -o jsonpath='{.items[?(@.a=="$x|y")]}'`: {"get", "pods", `-o`, `jsonpath={.items[?(@.a=="$x|y")]}`},
		`annotate pod a note="two words"`:                 {"annotate", "pod", "a", "note=two words"},
		`annotate pod a note=two\ words`:                  {"annotate", "pod", "a", "note=two words"},
		`annotate pod a note="a \"b\" \c"`:                {"annotate", "pod", "a", `note=a "b" \c`},
		`annotate pod a note=''`:                          {"annotate", "pod", "a", "note="},
		`get pod ''`:                                      {"get", "pod", ""},
		`exec a -- sh -c 'ls | wc; echo $(id)'`:           {"exec", "a", "--", "sh", "-c", "ls | wc; echo $(id)"},
		"help get":                                        {"help", "get"},
		"--help":                                          {"help"},
		"get pods -l ünï=cödé":                            {"get", "pods", "-l", "ünï=cödé"},
		"get pods -o custom-columns=N:.a,M:.b":            {"get", "pods", "-o", "custom-columns=N:.a,M:.b"},
		`get pods -o jsonpath={.items[0].name}`:           {"get", "pods", "-o", "jsonpath={.items[0].name}"},
		`get pods -l 'a in (b,c)' --watch=false`:          {"get", "pods", "-l", "a in (b,c)", "--watch=false"},
	} {
		got, err := Words(line)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v\n%s", line, err, diff)
		}
	}
}

func TestLinesThatAreRefused(t *testing.T) {
	for line, want := range map[string]string{
		"":                          "type a command",
		"kubectl":                   "type a command",
		"get pods | grep a":         "no shell",
		"get pods; id":              "no shell",
		"get pods && id":            "no shell",
		"get pods > /etc/passwd":    "no shell",
		"get pods < /etc/passwd":    "no shell",
		"get $(id)":                 "no shell",
		"get `id`":                  "no shell",
		`get "$(id)"`:               "no shell",
		"get 'pods":                 "a quote ' has no end",
		`get pods \`:                "backslash",
		"get pods\nget nodes":       "one line at a time",
		"get \x1b[31m":              "control characters",
		"edit pod a":                "nothing can be typed",
		"cp a:/b c":                 "the machine that you sit at",
		"apply -f x":                "documents are not taken",
		"port-forward a 80":         "the machine that you sit at",
		"whoami":                    "a line begins with one of: annotate, api-resources",
		"-n kube-system get pods":   "a line begins with",
		"__complete get po":         "a line begins with",
		"completion bash":           "a line begins with",
		strings.Repeat("x", 5000):   "longer than 4 KiB",
		"top pods":                  "a line begins with",
		"'get pods'":                "a line begins with",
		"hunter2-as-a-first-word x": "a line begins with",
	} {
		words, err := Words(line)
		if refusal, ok := errors.AsType[*RefusedError](err); !ok || !strings.Contains(refusal.Reason, want) {
			t.Errorf("%q: %q, %v", line, words, err)
		}
	}
}

// TestNames: the audit log gets no word that could be a secret.
func TestNames(t *testing.T) {
	for line, want := range map[string]string{
		"get secret hunter2": "get", "exec pod -- login hunter2": "exec", "rollout status deployment/a": "rollout status", "rollout hunter2": "rollout",
		"auth can-i get pods": "auth can-i", "auth --as=hunter2 can-i get pods": "auth", "label node a b=hunter2": "label", "help hunter2": "help",
	} {
		words, err := Words(line)
		if got := Name(words); err != nil || got != want {
			t.Errorf("%s: %q, %v", line, got, err)
		}
	}
}

func TestPlain(t *testing.T) {
	for given, want := range map[string]string{
		"a\tb\r\nc\n":                              "a\tb\nc\n",
		"\x1b[31mred\x1b[0m and \x1b[1;32mgo":      "red and go",
		"\x1b]0;title\x07text":                     "text",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"\x1bPdevice\x1b\\after":                   "after",
		"\x1b(Bplain\x1bcreset":                    "plainreset",
		"\x9b31m":                                  "\x9b31m", // no character at all; a browser shows a mark for it
		"\u009b31mx\u0085y é ü §":                  "31mxy é ü §",
		"beep\a\b\x00\x7fend":                      "beepend",
		"<b>&amp;</b>":                             "<b>&amp;</b>",
		"日本 😀":                                     "日本 😀",
		"\x1b[3\x1b[31mx":                          "x",
	} {
		for _, size := range []int{1, 2, 1000} {
			var out strings.Builder
			p := &plain{to: &out, left: 1 << 20, over: func(err error) { t.Error(err) }}
			for chunk := range slices.Chunk([]byte(given), size) {
				if _, err := p.Write(chunk); err != nil {
					t.Error(err)
				}
			}
			if out.String() != want {
				t.Errorf("%q in parts of %d: %q, want %q", given, size, out.String(), want)
			}
		}
	}
}

func TestPlaces(t *testing.T) {
	r := &Runner{}
	var ends []func()
	begin := func(user string) error {
		done, err := r.Begin(user)
		if err == nil {
			ends = append(ends, done)
		}
		return err
	}
	for range mostOfUser {
		if err := begin("bob"); err != nil {
			t.Fatal(err)
		}
	}
	if busy, ok := errors.AsType[*BusyError](begin("bob")); !ok || !busy.OfUser {
		t.Errorf("one more of the same user: %+v", busy)
	}
	for i := mostOfUser; i < mostOfServer; i++ {
		if err := begin(string(rune('a' + i))); err != nil {
			t.Fatal(err)
		}
	}
	if busy, ok := errors.AsType[*BusyError](begin("eve")); !ok || busy.OfUser {
		t.Errorf("one more of the server: %+v", busy)
	}
	ends[0]()
	ends[0]() // no second place
	if err := begin("bob"); err != nil {
		t.Error(err)
	}
	if err := begin("bob"); err == nil {
		t.Error("a place was given twice")
	}
}
