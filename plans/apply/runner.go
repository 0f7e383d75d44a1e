// Who runs an instruction, noted beside the ledger for the case that the work directory, where
// the supervisor says so itself, is removed under a running instruction. It is not synced: it
// has to outlive the agent, not the host, with which the supervisor dies too.

package apply

import (
	"encoding/json"
	"os"
	"strings"

	"github.com/drover-project/drover/plans/apply/supervise"
	"github.com/drover-project/drover/plans/durable"
)

// maxRunner bounds the file, in bytes.
const maxRunner = 4 << 10

// runner is the file's content.
type runner struct {
	// Run, Instruction and Try name the try; a note of another one does not count.
	Run         string             `json:"run"`
	Instruction int                `json:"instruction"`
	Try         int                `json:"try"`
	Supervisor  supervise.Identity `json:"supervisor"`
}

func runnerPath(ledger string) string { return strings.TrimSuffix(ledger, ".json") + ".supervisor" }

// noteSupervisor notes who runs the last try of an instruction.
func (w *work) noteSupervisor(i int) error {
	in := w.ledger.Instructions[i]
	b, err := json.Marshal(runner{Run: w.ledger.Run, Instruction: i, Try: in.Tries, Supervisor: in.Supervisor})
	if err != nil {
		return err
	}
	path := runnerPath(w.ledgerPath(w.d.Source))
	if err := os.WriteFile(path+".tmp", b, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".tmp", path)
}

// recallSupervisor fills in who runs the try that the ledger has as open, if that is noted.
func (l *ledger) recallSupervisor(path string) {
	b, err := durable.ReadFile(runnerPath(path), maxRunner)
	var r runner
	if err != nil || json.Unmarshal(b, &r) != nil || r.Run != l.Run || r.Instruction < 0 || r.Instruction >= len(l.Instructions) {
		return // none, or what a crash of the host left of it
	}
	if in := &l.Instructions[r.Instruction]; in.Open && in.Tries == r.Try && in.Supervisor.PID == 0 {
		in.Supervisor = r.Supervisor
	}
}
