// The ledger: what is left to do of a source's newest delivery, on disk before the host
// is touched. Its file has the newest two (durable.Rewrite), so that a crash leaves the
// state before a step or after it.

package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"time"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/supervise"
	"github.com/drover-project/drover/plans/durable"
)

const (
	ledgerSchema  = 1
	maxLedgerSize = 64 << 20
)

// ledger is the file's content.
type ledger struct {
	Schema   int       `json:"schema"`
	Source   string    `json:"source"`
	ID       string    `json:"id"`
	Checksum string    `json:"checksum"`
	Begun    time.Time `json:"begun"`
	// Attempt is that of the delivery. Agents before did not write it; only what is reported of a
	// plan that ended counts on it.
	Attempt int `json:"attempt,omitempty"`
	// Run is the directory below the work directory.
	Run string `json:"run"`
	// Files are the paths not yet brought to their state, in the plan's order. Doing one again
	// is harmless, so they are struck off on disk in batches.
	Files        []string `json:"files"`
	Instructions []item   `json:"instructions"`
	Outcome      *outcome `json:"outcome,omitempty"`
	// Changed are the paths of files that the plan's own instructions changed, noted with the
	// outcome. Agents before did not write it; nil is not known.
	Changed []string `json:"changed"`

	raw []byte // its JSON, of one that was read
}

// item is one one-time instruction.
type item struct {
	Name string `json:"name"`
	// Tries counts the directories that were prepared for it, Runs how often it was started or
	// was about to be, Lost how often it was gone without a result.
	Tries int `json:"tries"`
	Runs  int `json:"runs"`
	Lost  int `json:"lost,omitempty"`
	// Open says that the last try may have started and its end is not known yet.
	Open bool `json:"open,omitempty"`
	// Boot is the boot of the host in which the last try was made.
	Boot string `json:"boot,omitempty"`
	// Supervisor is who runs the last try, once it is known; see also runner.
	Supervisor supervise.Identity `json:"supervisor,omitzero"`
	// Result is how it ended.
	Result *supervise.Result `json:"result,omitempty"`
}

// outcome is how the whole delivery ended.
type outcome struct {
	Succeeded bool      `json:"succeeded"`
	Ended     time.Time `json:"ended"`
	// Instruction is the index of the one that failed, or -1.
	Instruction int    `json:"instruction"`
	Reason      string `json:"reason,omitempty"`
	ExitCode    int    `json:"exitCode,omitempty"`
}

func newLedger(d Delivery, now time.Time) *ledger {
	l := &ledger{
		Schema: ledgerSchema, Source: d.Source, ID: d.ID, Checksum: d.Checksum, Begun: now.UTC(), Attempt: d.Attempt,
		Files: []string{}, Instructions: []item{},
	}
	for _, f := range d.Plan.Files {
		l.Files = append(l.Files, f.Path)
	}
	for _, in := range d.Plan.Instructions {
		l.Instructions = append(l.Instructions, item{Name: in.Name})
	}
	return l
}

// of says whether the ledger is about this delivery.
func (l *ledger) of(d Delivery) bool {
	return l.ID == d.ID && l.Checksum == d.Checksum &&
		len(l.Files) <= len(d.Plan.Files) && len(l.Instructions) == len(d.Plan.Instructions)
}

// remaining is the work that is left.
func (l *ledger) remaining() []Task {
	if l.Outcome != nil {
		return nil
	}
	var left []Task
	for _, f := range l.Files {
		left = append(left, Task{Kind: FileTask, Name: f})
	}
	for i, in := range l.Instructions {
		if in.Result == nil {
			left = append(left, Task{Kind: InstructionTask, Name: label(i, in.Name), Starts: in.Runs})
		}
	}
	return left
}

// label is how an instruction is called in messages.
func label(i int, name string) string {
	if name == "" {
		return fmt.Sprintf("instructions[%d]", i)
	}
	return name
}

// plainSource are sources whose name can be a file's.
var plainSource = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,63}$`) })

// fileKey is a source as a part of a file's name.
func fileKey(source string) string {
	if plainSource().MatchString(source) {
		return source
	}
	sum := sha256.Sum256([]byte(source))
	return "_" + hex.EncodeToString(sum[:16])
}

// ledgerPath is where the ledger of a source is.
func (e *Engine) ledgerPath(source string) string {
	return filepath.Join(e.LedgerDir, fileKey(source)+".json")
}

// load reads the ledger of a source; nil when there is none. A ledger that cannot be read as
// JSON is put aside: what it knew is lost, but the host must not stand still for it.
func (e *Engine) load(source string) (*ledger, error) {
	path := e.ledgerPath(source)
	l, err := readLedger(path)
	var damaged *damagedError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.As(err, &damaged):
		e.Logger.Error("ledger is damaged and put aside, its plan begins anew", "ledger", path, "kept", path+".damaged", "error", err)
		return nil, os.Rename(path, path+".damaged")
	case err != nil:
		return nil, err
	}
	return l, nil
}

// damagedError is a ledger whose content is not one.
type damagedError struct{ error }

// readLedger reads a ledger, also beside an agent that writes it.
func readLedger(path string) (*ledger, error) {
	b, err := durable.ReadRewritten(path, maxLedgerSize)
	if errors.Is(err, durable.ErrNoSlot) {
		return nil, &damagedError{err}
	}
	if err != nil {
		return nil, err
	}
	var version struct{ Schema int }
	if err := json.Unmarshal(b, &version); err != nil {
		return nil, &damagedError{err}
	}
	if version.Schema > ledgerSchema {
		return nil, fmt.Errorf("ledger %s was written by a newer agent (schema %d, this one knows %d): install that version again, or remove the file to have its plan begin anew",
			path, version.Schema, ledgerSchema)
	}
	var l ledger
	if err := json.Unmarshal(b, &l); err != nil {
		return nil, &damagedError{err}
	}
	if l.Schema < 1 || !runName.MatchString(l.Run) {
		return nil, &damagedError{fmt.Errorf("schema %d, run %q", l.Schema, l.Run)}
	}
	if o := l.Outcome; o != nil && (o.Instruction < -1 || o.Instruction >= len(l.Instructions)) {
		return nil, &damagedError{fmt.Errorf("outcome of instruction %d of %d", o.Instruction, len(l.Instructions))}
	}
	l.raw = b
	l.recallSupervisor(path)
	return &l, nil
}

// Pending says what the ledger of a source holds; ok is false when there is none. A ledger that cannot be read is an error.
func (e *Engine) Pending(source string) (p Pending, ok bool, err error) {
	l, err := e.load(source)
	if err != nil || l == nil {
		return Pending{}, false, err
	}
	return Pending{ID: l.ID, Checksum: l.Checksum, Started: l.Begun, Finished: l.Outcome != nil, Reported: e.isReported(source, l.ID), Remaining: l.remaining()}, true, nil
}

// Forget removes the ledger of a source that will not deliver again. A ledger that is not there is no error.
func (e *Engine) Forget(source string) error {
	e.long.forget(source)
	path := e.ledgerPath(source)
	for _, name := range []string{path, path + ".tmp", runnerPath(path), reportedPath(path)} {
		if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove the ledger of %s: %w", source, err)
		}
	}
	return nil
}

// result is what an ended ledger says to the source of the plan.
func (e *Engine) result(d Delivery, l *ledger) Result {
	r := Result{Succeeded: l.Outcome.Succeeded, Outputs: map[string][]byte{}}
	failed := l.Outcome.Instruction
	for i, in := range d.Plan.Instructions {
		if l.Instructions[i].Result == nil || (!in.SaveOutput && i != failed) {
			continue
		}
		out := e.output(l, i)
		if in.Name != "" {
			r.Outputs[in.Name] = out
		}
		if i == failed {
			r.Failure = &Failure{Output: end(out, failureTail)}
		}
	}
	fit(r.Outputs, e.OutputLimit*outputShare)
	if l.Outcome.Succeeded {
		return r
	}
	if r.Failure == nil {
		r.Failure = &Failure{}
	}
	r.Failure.Reason, r.Failure.ExitCode = l.Outcome.Reason, l.Outcome.ExitCode
	said := []byte(l.Outcome.Reason + "\n")
	if failed >= 0 {
		name := d.Plan.Instructions[failed].Name
		r.Failure.Instruction = label(failed, name)
		if name == "" {
			said = append(said, r.Failure.Output...)
		}
	}
	r.Outputs[plans.FailureOutput] = said
	return r
}

// output is what the last run of an instruction printed. Its loss is stated in its place: an
// operator who removed the work directory must not make a plan fail that ended well.
func (e *Engine) output(l *ledger, i int) []byte {
	out, err := output.Read(e.tryDir(l, i), e.OutputLimit, l.Instructions[i].Result.Written)
	if err != nil {
		return fmt.Appendf(out, "\n[the output cannot be read: %v]\n", reason(err))
	}
	return out
}
