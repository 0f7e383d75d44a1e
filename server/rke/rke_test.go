package rke

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/records"
)

// A state of ordinary size is kept as it is, a larger one compressed, and one that a transaction of the store cannot take
// is refused with the bound and the way out.
func TestLargeStates(t *testing.T) {
	repeated := func(n int) []byte { return []byte(`"` + strings.Repeat("certificate ", n/12+1)[:n-2] + `"`) }
	noise := make([]byte, maxPacked+1)
	if _, err := rand.Read(noise); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text           []byte
		packed, refuse bool
	}{
		"the largest that is kept as it is": {repeated(maxPlain), false, false},
		"one byte more":                     {repeated(maxPlain + 1), true, false},
		"of thousands of hosts":             {repeated(60 << 20), true, false},
		"more than the store takes":         {noise, true, true},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := with(records.RKEState{State: json.RawMessage("old"), Packed: []byte("old")}, c.text)
			if too, is := errors.AsType[*TooLargeError](err); c.refuse {
				if !is || too.Limit != maxPacked || !strings.Contains(err.Error(), "fewer hosts") {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil || (r.State == nil) != c.packed || (r.Packed != nil) != c.packed {
				t.Fatalf("%v: %d bytes plain, %d packed", err, len(r.State), len(r.Packed))
			}
			if back, err := Text(r); err != nil || !bytes.Equal(back, c.text) {
				t.Errorf("%v: %d of %d bytes", err, len(back), len(c.text))
			}
		})
	}
	if _, err := State(&records.RKEState{Packed: []byte("not packed")}); err == nil {
		t.Error("a damaged state is read as none")
	}
}
