// What the engine reports while it works, for the code that shows it to people.

package apply

import (
	"time"

	"github.com/drover-project/drover/plans/apply/output"
)

// EventKind is what kind of thing happened.
type EventKind int

const (
	// ApplyBegan is the first event of a delivery; Remaining has its work.
	ApplyBegan EventKind = iota + 1
	// ApplyResumed is the first event in a later life of the agent; Remaining has what is left.
	ApplyResumed
	// FileChanged is a file that was not as wanted and is now.
	FileChanged
	// FilePutBack is a file that had been changed since the apply and that is as wanted again.
	FilePutBack
	// InstructionBegan is a one-time instruction that was started, with its Attempt.
	InstructionBegan
	// InstructionAttached is one that an earlier life started and that is followed again.
	InstructionAttached
	// InstructionOutput is a piece of its output.
	InstructionOutput
	// Progress is a step of something that takes long, in Text.
	Progress
	// InstructionEnded is the end of a one-time instruction; Text is the reason of a failure.
	InstructionEnded
	// PeriodicBegan is a run of a periodic instruction that was started, with its Attempt.
	PeriodicBegan
	// PeriodicOutput is a piece of its output.
	PeriodicOutput
	// PeriodicEnded is the end of one run of a periodic instruction; Text is the reason of a failure.
	PeriodicEnded
	// ApplyEnded has the Result of the delivery.
	ApplyEnded
)

// String is the kind in a word.
func (k EventKind) String() string {
	names := [...]string{
		ApplyBegan: "apply-began", ApplyResumed: "apply-resumed", FileChanged: "file-changed", FilePutBack: "file-put-back",
		InstructionBegan: "instruction-began", InstructionAttached: "instruction-attached", InstructionOutput: "instruction-output",
		Progress: "progress", InstructionEnded: "instruction-ended",
		PeriodicBegan: "periodic-began", PeriodicOutput: "periodic-output", PeriodicEnded: "periodic-ended", ApplyEnded: "apply-ended",
	}
	if k < ApplyBegan || int(k) >= len(names) {
		return "unknown"
	}
	return names[k]
}

// Event is one thing that happened while a plan was performed.
type Event struct {
	Kind EventKind
	Time time.Time
	// Source, ID and Checksum are those of the Delivery. ID and Checksum are empty for a file
	// that is put back, which belongs to no delivery, and so does a periodic instruction: its
	// source and checksum are those of its Standing, its ID names the run.
	Source, ID, Checksum string
	// Instruction is the index of the one-time instruction, -1 otherwise.
	Instruction int
	// Name is the label of the instruction, the name of the periodic one, or the path of the file.
	Name string
	// Attempt is CATTLE_AGENT_ATTEMPT_NUMBER of the instruction.
	Attempt int

	// Stream, Offset and Data are of InstructionOutput and PeriodicOutput, Reported of the former.
	Stream output.Stream
	// Offset is the position of Data's first byte in all that this try of the instruction
	// printed, both streams in the order they came; bytes that were not kept count.
	Offset int64
	// Data is valid during the call only. PeriodicEnded has the end of what one that failed
	// printed in it, first its output, then its errors.
	Data []byte
	// Reported says that an earlier life of the agent had reported this piece already.
	Reported bool

	// Text is a short line of Progress, and the reason of a failure when something ended.
	Text string
	// ExitCode is that of an instruction that ended.
	ExitCode int
	// Remaining is the work left, in order.
	Remaining []Task
	// Result is how the delivery ended.
	Result *Result
}
