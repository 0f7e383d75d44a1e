// Keeping what is reported small enough for the Secret that carries it.

package apply

import "github.com/drover-project/drover/plans/apply/supervise"

const (
	// failureTail is how much of a failing instruction's output goes into Failure.
	failureTail = 8 << 10
	// outputShare times the limit of one instruction is the limit of all of a plan's outputs
	// together: half a MiB by default, as a Secret ends at one.
	outputShare = 2
)

// fit shortens the longest outputs until all together have at most limit bytes. The names are not counted.
func fit(outputs map[string][]byte, limit int) {
	most := limit
	for total(outputs, most) > limit {
		// The short ones leave their part to the long ones.
		long, room := 0, limit
		for _, out := range outputs {
			if len(out) >= most {
				long++
			} else {
				room -= len(out)
			}
		}
		if next := room / max(long, 1); next < most {
			most = next
		} else {
			most--
		}
	}
	for name, out := range outputs {
		if len(out) > most {
			short := supervise.NewBounded(most)
			short.Write(out)
			outputs[name] = short.Bytes()
		}
	}
}

func total(outputs map[string][]byte, most int) int {
	n := 0
	for _, out := range outputs {
		n += min(len(out), most)
	}
	return n
}

// end is the last n bytes.
func end(b []byte, n int) []byte { return b[max(len(b)-n, 0):] }
