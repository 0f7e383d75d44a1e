// Limits that an operator sets to an apply: it is refused when it would do more.

package clusters

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/records"
)

// Limits bound what an apply may bring about; the zero value bounds nothing.
type Limits struct {
	// Machines is on how many machines something may be done at most; nil is any number.
	Machines *int
	// NoRestart and NoDrain allow no restart and no drain of any machine.
	NoRestart, NoDrain bool
}

// check compares what would be done with the limits. It returns *records.LimitError.
func (l Limits) check(key records.ClusterKey, p apitypes.Preview) error {
	var changed, restarted, drained []string
	for _, m := range p.Machines {
		name := m.NodeName
		if name == "" {
			name = string(records.MachineKey(m.ID).Name())
		}
		changed = append(changed, name)
		if m.Restart != "" {
			restarted = append(restarted, name)
		}
		if m.Drain {
			drained = append(drained, name)
		}
	}
	var excess []string
	if l.Machines != nil && len(changed) > *l.Machines {
		excess = append(excess, fmt.Sprintf("it would change %d machines, and --max-machines allows %d: %s", len(changed), *l.Machines, some(changed)))
	}
	if l.NoRestart && len(restarted) > 0 {
		excess = append(excess, fmt.Sprintf("it would restart %d machines, and --no-restart allows none: %s", len(restarted), some(restarted)))
	}
	if l.NoDrain && len(drained) > 0 {
		excess = append(excess, fmt.Sprintf("it would drain %d machines, and --no-drain allows none: %s", len(drained), some(drained)))
	}
	if len(excess) > 0 {
		return &records.LimitError{Cluster: key, Excess: excess}
	}
	return nil
}

// some are the first names of a list.
func some(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
