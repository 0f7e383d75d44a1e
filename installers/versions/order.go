// Version texts and their order.

package versions

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// form is that of a release: v1.34.4+k3s1, v1.34.4+rke2r1.
var form = regexp.MustCompile(`^v([0-9]{1,4})\.([0-9]{1,4})\.([0-9]{1,4})\+(?:k3s|rke2r)([0-9]{1,4})$`)

// RuntimeOf returns the distribution of a version: one that contains "k3s" is k3s, anything else RKE2.
func RuntimeOf(version string) Runtime {
	if strings.Contains(version, string(K3s)) {
		return K3s
	}
	return RKE2
}

// WellFormed says whether a text has the form of a release, known or not.
func WellFormed(version string) bool {
	_, ok := parse(version)
	return ok
}

// Compare orders two versions; texts that are not versions come first.
func Compare(a, b string) int {
	x, _ := parse(a)
	y, _ := parse(b)
	return x.compare(y)
}

// SkipsMinor says whether the way up from one version to another leaves out a minor line, which
// Kubernetes does not support. A text that is not a version skips nothing.
func SkipsMinor(from, to string) bool {
	x, ok := parse(from)
	y, both := parse(to)
	return ok && both && x.skipsMinor(y)
}

// Minor is the minor line of a version: v1.34 of v1.34.4+k3s1; "" of a text that is not a version.
func Minor(version string) string {
	n, ok := parse(version)
	if !ok {
		return ""
	}
	return "v" + strconv.Itoa(n[0]) + "." + strconv.Itoa(n[1])
}

// number is v1.34.4+k3s1 as 1, 34, 4, 1.
type number [4]int

func (n number) compare(m number) int { return slices.Compare(n[:], m[:]) }

// skipsMinor says whether the way up to m leaves out a minor line.
func (n number) skipsMinor(m number) bool { return m[0] > n[0] || m[0] == n[0] && m[1] > n[1]+1 }

func parse(version string) (n number, ok bool) {
	found := form.FindStringSubmatch(version)
	if found == nil {
		return n, false
	}
	for i, digits := range found[1:] {
		n[i], _ = strconv.Atoi(digits) // at most four digits
	}
	return n, true
}
