// The name that a user meant who mistyped it.

package usageerr

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// most is how many names are shown at most.
const most = 8

// Suggest are those of known that are most like a name, the likest first: at most three, with one mistake for each three letters,
// or that begin as it does.
func Suggest(name string, known []string) []string {
	type candidate struct {
		name string
		off  int
	}
	var all []candidate
	lower := strings.ToLower(name)
	for _, one := range known {
		off := distance(lower, strings.ToLower(one))
		if len(name) >= 3 && strings.HasPrefix(strings.ToLower(one), lower) {
			off = min(off, 1)
		}
		if off <= max(1, len([]rune(name))/3) {
			all = append(all, candidate{one, off})
		}
	}
	slices.SortFunc(all, func(a, b candidate) int { return cmp.Or(cmp.Compare(a.off, b.off), cmp.Compare(a.name, b.name)) })
	var found []string
	for _, one := range all {
		if !slices.Contains(found, one.name) {
			found = append(found, one.name)
		}
	}
	return found[:min(3, len(found))]
}

// Hint is what to say of a name that nothing has: what may have been meant, or which names there are, or with which command to see
// them when they are many. It is "" when there is none at all.
func Hint(name string, known []string, command string) string {
	if like := Suggest(name, known); len(like) > 0 {
		return "did you mean " + strings.Join(like, " or ") + "?"
	}
	switch {
	case len(known) == 0:
		return ""
	case len(known) > most:
		return fmt.Sprintf("`%s` shows the %d there are", command, len(known))
	}
	return "there are: " + strings.Join(known, ", ")
}

// distance is how many letters are to be added, dropped, replaced, or swapped with the next, to make one text of the other.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	rows := make([][]int, len(from)+1)
	for i := range rows {
		rows[i] = make([]int, len(to)+1)
		rows[i][0] = i
		for j := range to {
			switch {
			case i == 0:
				rows[i][j+1] = j + 1
				continue
			case from[i-1] == to[j]:
				rows[i][j+1] = rows[i-1][j]
			default:
				rows[i][j+1] = 1 + min(rows[i-1][j], rows[i-1][j+1], rows[i][j])
			}
			if i > 1 && j > 0 && from[i-1] == to[j-1] && from[i-2] == to[j] {
				rows[i][j+1] = min(rows[i][j+1], rows[i-2][j-1]+1)
			}
		}
	}
	return rows[len(from)][len(to)]
}
