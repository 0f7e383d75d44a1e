package plans_test

import (
	"fmt"
	"testing"

	"github.com/drover-project/drover/plans"
)

// TestPlacesThatNoFileIsPutInto: what the kernel shows as files is neither written nor removed.
func TestPlacesThatNoFileIsPutInto(t *testing.T) {
	for _, test := range []struct {
		path    string
		refused bool
	}{
		{"/proc", true},
		{"/proc/sys/net/ipv4/ip_forward", true},
		{"/sys/kernel/mm/x", true},
		{"/dev/null", true},
		{"/dev", true},
		{"//proc/1/mem", true},
		{"/etc/../sys/x", true},
		{"/./dev/../dev/sda", true},
		{"/process", false},
		{"/devices/x", false},
		{"/etc/proc/x", false},
		{"/proc/../etc/x", false},
	} {
		for _, rest := range []string{"", `,"directory":true`, `,"action":"delete","directory":true`} {
			_, err := plans.Parse(fmt.Appendf(nil, `{"files":[{"path":"/ok"},{"path":%q%s}]}`, test.path, rest))
			want := fmt.Sprintf("plan field files[1].path: %q is below /proc, /sys or /dev, where the kernel keeps its own; an instruction can change what is there", test.path)
			switch {
			case test.refused && (err == nil || err.Error() != want):
				t.Errorf("%s%s: %v", test.path, rest, err)
			case !test.refused && err != nil:
				t.Errorf("%s%s: %v", test.path, rest, err)
			}
		}
	}
}
