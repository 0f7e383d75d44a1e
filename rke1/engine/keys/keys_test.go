package keys

import "testing"

func TestStoredAs(t *testing.T) {
	const prefix = "k8s:enc:aescbc:v1:k-2:"
	for value, want := range map[string][2]bool{ // with the prefix, in plain text
		prefix + "\x00\x01":          {true, false},
		"k8s:enc:aescbc:v1:k-1:\x00": {false, false},
		"k8s\x00\n\x0c\n\x02v1":      {false, true},
		"":                           {false, true},
	} {
		if is := [2]bool{storedAs(value, prefix), storedAs(value, "")}; is != want {
			t.Errorf("%q: %v", value, is)
		}
	}
}
