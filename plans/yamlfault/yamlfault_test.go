package yamlfault

import (
	"testing"

	"gopkg.in/yaml.v3"
)

func TestPlain(t *testing.T) {
	for text, want := range map[string]string{
		"a: 1\nb: [hunter2]\nc: 3": "line 2: a value of another type is expected",
		"a: x\nb: 2":               "line 1: a value of another type is expected",
		"a: 1\nb: 2\n  c: 3: 4":    "line 3: is not YAML",
		"{":                        "line 1: is not YAML",
		"a: *hunter2":              "line 1: is not YAML",
	} {
		var into map[string]int
		err := yaml.Unmarshal([]byte(text), &into)
		if err == nil {
			t.Errorf("%q is taken", text)
			continue
		}
		if got := Plain(err).Error(); got != want {
			t.Errorf("%q: %s, want %s (from %v)", text, got, want, err)
		}
	}
}
