//go:build race

package decide

// orders is how many orders of events the walks look at. A decision is pure, so that nothing in it can race, and the race detector
// takes seven times as long for it: with it each walk looks at one. `make test` runs them all without it.
func orders(uint64) uint64 { return 1 }
