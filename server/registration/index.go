// Which machines call themselves what, so that a registration need not look at all of them.

package registration

import (
	"slices"
	"sync"

	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// machineIndex finds machines by machine id. It is only a hint where to look: what it
// finds is read again from the store's view.
type machineIndex struct {
	machines *store.Collection[records.Machine]
	mu       sync.Mutex
	keys     map[string][]string // by machine id
}

func newMachineIndex(machines *store.Collection[records.Machine]) *machineIndex {
	x := &machineIndex{machines: machines, keys: map[string][]string{}}
	machines.Observe(func(e store.Event[records.Machine]) {
		if e.Type == store.Deleted {
			x.remove(e.Value.MachineID, e.Key)
			return
		}
		x.add(e.Value.MachineID, e.Key)
	})
	for _, d := range machines.List() {
		x.add(d.Value.MachineID, d.Key)
	}
	return x
}

func (x *machineIndex) add(machineID, key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !slices.Contains(x.keys[machineID], key) {
		x.keys[machineID] = append(x.keys[machineID], key)
	}
}

func (x *machineIndex) remove(machineID, key string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	rest := slices.DeleteFunc(x.keys[machineID], func(k string) bool { return k == key })
	if len(rest) == 0 {
		delete(x.keys, machineID)
		return
	}
	x.keys[machineID] = rest
}

// with is the machines of that machine id.
func (x *machineIndex) with(machineID string) []records.Machine {
	x.mu.Lock()
	keys := slices.Clone(x.keys[machineID])
	x.mu.Unlock()
	var all []records.Machine
	for _, key := range keys {
		if d, ok := x.machines.Get(key); ok && d.Value.MachineID == machineID {
			all = append(all, d.Value)
		}
	}
	return all
}
