package strictyaml

import "testing"

func TestAsJSON(t *testing.T) {
	for _, tc := range []struct{ name, text, want string }{
		{"a mapping", "a: {b: [1, yes, 2.5, null]}\nc: x\n", `{"a":{"b":[1,"yes",2.5,null]},"c":"x"}`},
		{"JSON", `{"a":1}`, `{"a":1}`},
		{"a list", "- a\n", ""},
		{"a key twice", "a: 1\na: 2\n", ""},
		{"two documents", "a: 1\n---\nb: 2\n", ""},
	} {
		got, err := AsJSON([]byte(tc.text))
		if (err != nil) != (tc.want == "") || string(got) != tc.want {
			t.Errorf("%s: %s, %v", tc.name, got, err)
		}
	}
}
