// Which objects of a bucket have had their time.

package bucket

import (
	"cmp"
	"slices"
)

// Expired are the objects of a series that are beyond the newest so many of it, newest first; keep of 0 keeps all.
// Counted, and not by age: where new ones fail to come, the old ones are all there is.
func Expired(all []Object, series func(name string) bool, keep int) []Object {
	of := slices.DeleteFunc(slices.Clone(all), func(o Object) bool { return !series(o.Name) })
	if keep <= 0 || len(of) <= keep {
		return nil
	}
	// Of one second, the later name is the newer one: names have a time in them, or a number.
	slices.SortFunc(of, func(a, b Object) int { return cmp.Or(b.Changed.Compare(a.Changed), cmp.Compare(b.Name, a.Name)) })
	return of[keep:]
}
