// The work of a delivery, piece by piece, as values for the code that shows it to people.

package apply

import "fmt"

// TaskKind is what kind of work a task is.
type TaskKind string

// The kinds of tasks.
const (
	FileTask        TaskKind = "file"
	InstructionTask TaskKind = "instruction"
)

// Task is one piece of a delivery's work.
type Task struct {
	Kind TaskKind
	// Name is the path of a file, or the label of a one-time instruction.
	Name string
	// Starts is how often an instruction was started already.
	Starts int
}

// String is the task in a few words, for example "instruction install (started once)".
func (t Task) String() string {
	switch {
	case t.Starts == 1:
		return fmt.Sprintf("%s %s (started once)", t.Kind, t.Name)
	case t.Starts > 1:
		return fmt.Sprintf("%s %s (started %d times)", t.Kind, t.Name, t.Starts)
	}
	return fmt.Sprintf("%s %s", t.Kind, t.Name)
}
