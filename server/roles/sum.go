// A name for what a user may do.

package roles

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"maps"
	"slices"
)

// Sum is the same for grants of the same rules at the same places, in the same order, and different for all others.
func (g *Grants) Sum() [sha256.Size]byte {
	s := summer{sha256.New()}
	if g == nil {
		g = &Grants{}
	}
	s.rules(g.Global)
	for _, places := range []map[string][]Rule{g.Clusters, g.Projects} {
		s.size(len(places))
		for _, id := range slices.Sorted(maps.Keys(places)) {
			s.text(id)
			s.rules(places[id])
		}
	}
	return [sha256.Size]byte(s.Sum(nil))
}

// summer writes each thing with its size before it, so that nothing reads like something else.
type summer struct{ hash.Hash }

func (s summer) size(n int) {
	_, _ = s.Write(binary.BigEndian.AppendUint64(nil, uint64(n))) // #nosec G115 -- never negative; a hash takes everything
}

func (s summer) text(text string) {
	s.size(len(text))
	_, _ = s.Write([]byte(text)) // a hash takes everything
}

func (s summer) rules(all []Rule) {
	s.size(len(all))
	for _, r := range all {
		for _, list := range [][]string{r.APIGroups, r.Resources, r.Verbs, r.ResourceNames, r.NonResourceURLs} {
			s.size(len(list))
			for _, text := range list {
				s.text(text)
			}
		}
	}
}
