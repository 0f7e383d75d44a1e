package dropcap

import "testing"

func TestBoundingSet(t *testing.T) {
	tests := []struct {
		name   string
		status string
		set    uint64
		errs   bool
	}{
		{"a full one", "Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t000001ffffffffff\nCapAmb:\t0\n", 0x1ffffffffff, false},
		{"without CAP_SYS_RESOURCE", "CapBnd:\t000001fffeffffff\n", 0x1fffeffffff, false},
		{"no such line", "Name:\tx\n", 0, true},
		{"not a number", "CapBnd:\tall\n", 0, true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			set, err := boundingSet([]byte(test.status))
			if set != test.set || (err != nil) != test.errs {
				t.Errorf("got %#x, %v", set, err)
			}
		})
	}
}
