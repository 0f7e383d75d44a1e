// Version texts in numbers, their order, and ranges of them.

package versions

import (
	"cmp"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Version is a text such as v1.30.5-rancher1-1, v3.5.12 or 20.10 in numbers.
type Version struct {
	Major, Minor, Patch int
	// Rest is what follows the first dash: rancher1-1.
	Rest string
}

var form = regexp.MustCompile(`^v?([0-9]{1,9})\.([0-9]{1,9})(?:\.([0-9]{1,9}))?(?:[-+~](.*))?$`)

// Parse reads a version; false is a text of another form.
func Parse(text string) (v Version, ok bool) {
	found := form.FindStringSubmatch(text)
	if found == nil {
		return v, false
	}
	for i, into := range []*int{&v.Major, &v.Minor, &v.Patch} {
		*into, _ = strconv.Atoi(found[i+1]) // at most nine digits, or none
	}
	v.Rest = found[4]
	return v, true
}

// Line is the minor line: 1.30.
func (v Version) Line() string { return strconv.Itoa(v.Major) + "." + strconv.Itoa(v.Minor) }

// AtLeast says whether v is of a minor line or of a later one.
func (v Version) AtLeast(major, minor int) bool {
	return v.Major > major || v.Major == major && v.Minor >= minor
}

// Compare orders versions as semver does, with one difference: numbers within Rest are compared as
// numbers, so that rancher1-10 follows rancher1-9.
func (v Version) Compare(w Version) int {
	return cmp.Or(cmp.Compare(v.Major, w.Major), cmp.Compare(v.Minor, w.Minor), cmp.Compare(v.Patch, w.Patch), rest(v.Rest, w.Rest))
}

var digits = regexp.MustCompile(`[0-9]+|[^0-9]+`)

func rest(a, b string) int {
	if a == "" || b == "" { // a release follows what leads to it
		return cmp.Compare(b, a)
	}
	return slices.CompareFunc(digits.FindAllString(a, -1), digits.FindAllString(b, -1), func(x, y string) int {
		n, errN := strconv.Atoi(x)
		m, errM := strconv.Atoi(y)
		if errN == nil && errM == nil {
			return cmp.Compare(n, m)
		}
		return strings.Compare(x, y)
	})
}

var comparison = regexp.MustCompile(`^(>=|<=|>|<|=|==|!=)?(.*)$`)

// inRange says whether a version is in a range such as ">=1.8.0-rancher0 <1.15.0-rancher0 || =1.16.1-rancher1-1". A range
// of another form has no version in it.
//
// Wire source: blang/semver ParseRange, as far as KDM uses it.
func inRange(r string, v Version) bool {
	for alternative := range strings.SplitSeq(r, "||") {
		all := strings.Fields(alternative)
		if len(all) > 0 && !slices.ContainsFunc(all, func(c string) bool { return !holds(c, v) }) {
			return true
		}
	}
	return false
}

func holds(condition string, v Version) bool {
	found := comparison.FindStringSubmatch(condition)
	bound, ok := Parse(found[2])
	if !ok {
		return false
	}
	c := v.Compare(bound)
	switch found[1] {
	case ">=":
		return c >= 0
	case "<=":
		return c <= 0
	case ">":
		return c > 0
	case "<":
		return c < 0
	case "!=":
		return c != 0
	}
	return c == 0
}
