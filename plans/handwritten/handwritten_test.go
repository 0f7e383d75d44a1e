package handwritten

import (
	"errors"
	"testing"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/strictyaml"
)

func FuzzParse(f *testing.F) {
	f.Add([]byte("files:\n- {path: /x, permissions: 0644, uid: -1, directory: true}\n"))
	f.Add([]byte("instructions:\n- &a {name: x, args: &b [a, b], saveOutput: yes}\n- *a\nprobes: {web: {httpGet: {url: u}}}\n"))
	f.Add([]byte("<<: &x {}\n--- !!map\n? [a]\n: *x\n"))
	f.Add([]byte("probes: &a {x: *a}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Parse("x.yaml", b)
		if err != nil {
			at, ok := errors.AsType[strictyaml.Error](err)
			if !ok || at.Line < 1 || at.File != "x.yaml" {
				t.Errorf("error %T %v", err, err)
			}
			return
		}
		once, err := p.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		again, err := plans.Parse(once)
		if err != nil || !plans.Equal(*p, *again) {
			t.Errorf("taken, but not taken back: %v", err)
		}
	})
}
