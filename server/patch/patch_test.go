package patch

import (
	"errors"
	"strings"
	"testing"
)

func TestRead(t *testing.T) {
	const object = `{"a":{"b":"1","c":"2"},"l":["x"]}`
	many := "[" + strings.Repeat(`{"op":"remove","path":"/a"},`, maxOperations) + `{"op":"remove","path":"/a"}]`
	copies := `[` + strings.Repeat(`{"op":"copy","from":"","path":"/d"},`, 40) + `{"op":"copy","from":"","path":"/d"}]`
	for _, c := range []struct {
		name, kind, patch, want string
		err                     error
		says                    string
	}{
		{"merge", Merge, `{"a":{"b":null,"d":"3"}}`, `{"a":{"c":"2","d":"3"},"l":["x"]}`, nil, ""},
		{"JSON", JSON, `[{"op":"test","path":"/a/b","value":"1"},{"op":"replace","path":"/a/b","value":"9"},{"op":"add","path":"/l/-","value":"y"}]`, `{"a":{"b":"9","c":"2"},"l":["x","y"]}`, nil, ""},
		{"a test that fails", JSON, `[{"op":"test","path":"/a/b","value":"2"}]`, "", ErrTest, "test"},
		{"a path that is not there", JSON, `[{"op":"remove","path":"/z/y"}]`, "", nil, "cannot be applied"},
		{"not a patch", JSON, `{}`, "", nil, "cannot be read"},
		{"not JSON", Merge, `{`, "", nil, "cannot be applied"},
		{"too many operations", JSON, many, "", ErrSize, "10001 operations"},
		{"copies of copies", JSON, copies, "", nil, "cannot be applied"},
		{"another type", Strategic, `{}`, "", ErrType, Merge},
		{"no type", "", `{}`, "", ErrType, JSON},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []byte
			apply, err := Read(c.kind, []byte(c.patch), 1000)
			if err == nil {
				got, err = apply([]byte(object))
			}
			if string(got) != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
			if c.says == "" && err != nil || c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) || c.err != nil && !errors.Is(err, c.err) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func TestType(t *testing.T) {
	for header, want := range map[string]string{Merge: Merge, JSON + "; charset=utf-8": JSON, "": "", "a/b/c;;": "a/b/c;;"} {
		if got := Type(header); got != want {
			t.Errorf("%q: %q", header, got)
		}
	}
}
