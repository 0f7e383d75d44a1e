// How much memory the agent takes for itself.

package main

import "runtime/debug"

// saveMemory trades a little processor time for memory: the agent is idle for weeks and
// shares its host with what the host is for.
func saveMemory() {
	debug.SetGCPercent(50)
}
