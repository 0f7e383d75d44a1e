// Package outputstream keeps the newest output of instructions in memory, for people who look on
// while a plan is performed, here or through the tunnel. Every byte has an address: the
// try of an instruction that printed it, and its position in what that try printed. So
// a reader who lost his connection, or whose agent was restarted, goes on where he was
// and gets nothing twice; one who comes too late learns how much he missed.
//
// No writer waits for a reader: a reader asks, and what it does not fetch in time is gone.
package outputstream

import "time"

const (
	// maxTracks is how many tries of instructions are kept, maxTrack how much memory the output
	// of each may take, in bytes: two MiB in all.
	maxTracks = 8
	maxTrack  = 256 << 10
	// maxRuns and maxRun are the same for runs of periodic instructions.
	maxRuns = 8
	maxRun  = 32 << 10
	// maxPiece is the longest piece that is kept and handed out at once, pieceCost what keeping
	// one costs beside its bytes.
	maxPiece  = 4 << 10
	pieceCost = 64
	// silence is after which time without a record an empty line is sent, so that a reader who is gone is noticed.
	silence = 20 * time.Second
)

// Kinds of records.
const (
	Began    = "began"    // a try begins here; Name and Plan say what it is
	Output   = "output"   // Data, printed to Stream at Offset
	Progress = "progress" // a step of something that takes long, in Text
	Gone     = "gone"     // Bytes of output from Offset on are not kept
	Ended    = "ended"    // the try ended with ExitCode; Text is the reason of a failure
	Lost     = "lost"     // of the server: the way to the host was lost, by Text; it says nothing of the output
)

// Record is one thing that a reader gets. As JSON it is one line of GET /v1/output.
type Record struct {
	Kind string `json:"kind"`
	Key
	Name     string    `json:"name,omitempty"`
	Plan     string    `json:"plan,omitempty"` // its checksum
	Time     time.Time `json:"time,omitzero"`
	Stream   string    `json:"stream,omitempty"`
	Offset   int64     `json:"offset"`
	Data     []byte    `json:"data,omitempty"`
	Bytes    int64     `json:"bytes,omitempty"`
	Text     string    `json:"text,omitempty"`
	ExitCode int       `json:"exitCode,omitempty"`
}

// Place says where a reader begins. What is not set is open; the newest try that fits is
// taken, and when nothing is set the first one of the newest delivery. A place that is
// given whole and not there any more is over: the reader begins with what is kept.
type Place struct {
	Source, ID string
	// Instruction is the name of an instruction, instructions[i], or the index alone.
	Instruction string
	Attempt     int // below 0: open
	Offset      int64
	// Only has the reader end with that instruction.
	Only bool
	// Follow has the reader wait for what is still to come.
	Follow bool
	// Periodic has the reader get runs of periodic instructions too, of all sources, those
	// that are kept first: between the others, for they go on beside them. With Only it is those
	// of the Instruction.
	Periodic bool
}

// Key names a try of a one-time instruction, or a run of a periodic one.
type Key struct {
	Source      string `json:"source"`      // of the plan
	ID          string `json:"id"`          // of the delivery, or of the run
	Instruction int    `json:"instruction"` // index; -1 for a periodic one
	Attempt     int    `json:"attempt"`
}

// Periodic says whether it is a run of a periodic instruction.
func (k Key) Periodic() bool { return k.Instruction < 0 }
