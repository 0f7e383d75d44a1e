// Keeping what is reported small enough for the Secret that carries it.

package apply

import (
	"math"
	"slices"

	"github.com/drover-project/drover/plans/apply/output"
)

const (
	// failureTail is how much of a failing instruction's output goes into Failure.
	failureTail = 8 << 10
	// outputShare times the limit of one instruction is the limit of all of a plan's outputs
	// together: 2 MiB by default. What of them fits into a Secret, compressed, its source finds out.
	outputShare = 2
)

// fit shortens the longest outputs until all together have at most limit bytes. The names
// and the lines that report the cuts are not counted.
func fit(outputs map[string][]byte, limit int) {
	most := share(outputs, limit)
	for name, out := range outputs {
		if len(out) > most {
			short := output.NewBounded(most)
			short.Write(out)
			outputs[name] = short.Bytes()
		}
	}
}

// share is how long each output may be: the short ones leave their room to the long ones.
func share(outputs map[string][]byte, room int) int {
	var lengths []int
	for _, out := range outputs {
		lengths = append(lengths, len(out))
	}
	slices.Sort(lengths)
	for i, n := range lengths {
		if each := room / (len(lengths) - i); n > each {
			return each
		}
		room -= n
	}
	return math.MaxInt
}

// end is the last n bytes.
func end(b []byte, n int) []byte { return b[max(len(b)-n, 0):] }
