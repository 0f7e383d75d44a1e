// The machines of a cluster, a tile each.

package ui

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
)

// tier is the machines of a cluster that change together.
type tier struct {
	Title string
	Tiles []tile
	// Total is how many machines there are, and Rest says of those that have no tile how many are in each state.
	Total int
	Rest  string
	// Small tiles have no text: there are many.
	Small bool
}

// tile is a machine.
type tile struct {
	ID, Name, State, Text string
}

// Bounds of a picture: with more machines tiles are small, and with many more the rest is a number.
const (
	largeTiles = 48
	mostTiles  = 600
)

// Tiers are the machines of a cluster, those that are not well first.
func Tiers(machines []apitypes.Machine) []tier {
	machines = slices.Clone(machines)
	slices.SortStableFunc(machines, func(a, b apitypes.Machine) int {
		return cmp.Or(compareStates(string(a.State), string(b.State)), strings.Compare(Host(a), Host(b)))
	})
	tiers := make([]tier, len(apitypes.Tiers))
	rest := make([]map[string]int, len(apitypes.Tiers))
	for i, title := range apitypes.Tiers {
		tiers[i].Title, rest[i] = title, map[string]int{}
	}
	for _, m := range machines {
		i := apitypes.TierOf(m.Init, m.Roles)
		t := &tiers[i]
		if t.Total++; len(t.Tiles) >= mostTiles {
			rest[i][string(m.State)]++
			continue
		}
		t.Tiles = append(t.Tiles, tile{ID: m.ID, Name: Host(m), State: string(m.State), Text: cmp.Or(m.WaitingFor, m.Cause)})
	}
	for i := range tiers {
		tiers[i].Small, tiers[i].Rest = len(tiers[i].Tiles) > largeTiles, counted(rest[i])
	}
	return slices.DeleteFunc(tiers, func(t tier) bool { return t.Total == 0 })
}

// counted is how many there are in each state, those that are not well first.
func counted(states map[string]int) string {
	names := make([]string, 0, len(states))
	for name := range states {
		names = append(names, name)
	}
	slices.SortFunc(names, compareStates)
	for i, name := range names {
		names[i] = fmt.Sprintf("%d %s", states[name], cmp.Or(name, "not known"))
	}
	return strings.Join(names, ", ")
}
