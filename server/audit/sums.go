// Requests that are refused or of no known user, counted: the first of a source is recorded as it is,
// those like it within a minute become one line with their number. Who floods the server fills no disk.

package audit

import (
	"cmp"
	"slices"
	"time"

	"github.com/drover-project/drover/server/clientip"
)

const (
	sumEvery = time.Minute
	// maxSums bounds how many kinds of refusals are told apart within a minute; all further ones are counted as one.
	maxSums = 256
)

// likeness is what refusals have in common that are counted together. The zero likeness is that of
// all that are too many to be told apart.
type likeness struct {
	source, user, token, verb, kind, object, code string
	status                                        int
}

// sum is how many refusals of a likeness came after the first.
type sum struct {
	began, first, last time.Time
	count              int
}

// sums are the refusals of the last minute. The zero value is ready; it is not safe for
// concurrent use.
type sums struct{ of map[likeness]*sum }

// add says whether a refusal is recorded as it is; otherwise it is counted.
func (s *sums) add(e Entry, now time.Time) (asItIs bool) {
	if s.of == nil {
		s.of = map[likeness]*sum{}
	}
	key := likeness{clientip.Of(e.Source).String(), e.User, e.Token, e.Verb, e.Kind, e.Object, e.Code, e.Status}
	if e.User != "" {
		key.source = "" // a known user has as many addresses as they like
	}
	one, known := s.of[key]
	if !known && len(s.of) >= maxSums {
		key = likeness{}
		one, known = s.of[key]
	}
	if !known {
		one = &sum{began: now}
		s.of[key] = one
		if key != (likeness{}) {
			return true
		}
	}
	if one.count == 0 {
		one.first = e.Time
	}
	one.count++
	one.last = e.Time
	return false
}

// due are the lines of the sums whose minute is over; with all set, of all of them.
func (s *sums) due(now time.Time, all bool) []Entry {
	var lines []Entry
	for key, one := range s.of {
		if !all && now.Sub(one.began) < sumEvery && !now.Before(one.began) {
			continue
		}
		delete(s.of, key)
		if one.count == 0 {
			continue
		}
		until := one.last
		lines = append(lines, Entry{
			Time: one.first, Until: &until, Stage: Sum, Count: one.count, Source: addressOf(key.source), User: key.user, Token: key.token,
			Verb: key.verb, Kind: key.kind, Object: key.object, Status: key.status, Code: key.code,
		})
	}
	slices.SortFunc(lines, func(a, b Entry) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Source, b.Source), cmp.Compare(a.User, b.User), cmp.Compare(a.Token, b.Token),
			cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Verb, b.Verb), cmp.Compare(a.Object, b.Object), cmp.Compare(a.Status, b.Status))
	})
	return lines
}

// addressOf is a source as people write it: an address for itself without its /32.
func addressOf(prefix string) string {
	if len(prefix) > 3 && prefix[len(prefix)-3:] == "/32" {
		return prefix[:len(prefix)-3]
	}
	if prefix == "invalid Prefix" {
		return ""
	}
	return prefix
}
