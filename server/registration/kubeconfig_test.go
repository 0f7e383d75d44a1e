package registration

import "testing"

// What is kept between two answers is only what they have in common.
func TestKubeConfigsDifferInTheirTokens(t *testing.T) {
	var k kubeconfigs
	for _, c := range [][3]string{
		{"https://a.lan:8443", "PEM", "drover-machine.ns.custom-1.bcd"}, {"https://a.lan:8443", "PEM", "drover-machine.ns.custom-2.fgh"},
		{"https://b.lan", "PEM", "drover-machine.ns.custom-2.fgh"}, {"https://b.lan", "", "drover-machine.ns.custom-2.fgh"},
	} {
		want, err := kubeconfigText(c[0], c[1], c[2])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := k.of(c[0], c[1], c[2]); err != nil || got != want {
			t.Errorf("%v: got %q, %v, want %q", c, got, err, want)
		}
	}
}
