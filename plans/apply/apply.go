// Package apply performs a plan on this host: files, one-time instructions,
// periodic instructions and probes.
//
// It never loses work and never repeats it. What is about to be done is written to a
// ledger before the host is touched and struck off after, so that an agent that was
// killed, restarted or rebooted goes on where it stopped. One-time instructions run
// below a supervisor process of their own that outlives the agent; a restarted agent
// attaches to it again instead of starting the instruction twice.
package apply

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/drover-project/drover/plans"
)

// ErrCancelled as the cause of a cancelled context (context.WithCancelCause) takes a plan
// back: the running instruction is killed and the plan fails with that reason. A context
// that ends for any other reason leaves the instruction running for the agent's next life.
var ErrCancelled = errors.New("the plan was cancelled")

// ErrUnclaimed says that a delivery was not claimed, so that nothing of it was begun; see
// Delivery.Claimed. The ledger is what it was.
var ErrUnclaimed = errors.New("the plan was not claimed")

// Stager unpacks the image ref into the directory dir, which exists and is empty. progress is
// called with a short line now and then; it may be nil.
type Stager interface {
	Stage(ctx context.Context, ref, dir string, progress func(line string)) error
}

// Redirect keeps regular files that a plan wants below Prefix really below Dir, and makes
// the plan's path a symbolic link to them. Both are absolute paths on the host.
type Redirect struct {
	Prefix string // for example /etc/rancher/k3s
	Dir    string // for example /var/lib/rancher/system-agent/etc/k3s
}

// Options are what an Engine is made of. WorkDir, LedgerDir and Supervisor are required.
type Options struct {
	// Root is put before every path on the host that a plan names; symbolic links below it do
	// not lead out of it. Empty, as in production, is the host itself. The other directories
	// of these options are real paths and not below Root.
	Root string
	// WorkDir holds the working directories of instructions, <WorkDir>/<unique name>/<checksum>_<i>.
	// Only directories that the engine made are ever removed.
	WorkDir string
	// PreserveWorkDir keeps all of them; otherwise the newest few stay for inspection.
	PreserveWorkDir bool
	// LedgerDir holds one ledger a source; made 0700.
	LedgerDir string
	// InterlockDir is shared with the installer (contract of restart-pending and
	// applyinator-active); empty means no interlocks.
	InterlockDir string
	Redirects    []Redirect
	// Images stages instruction images; a plan that needs one fails without it.
	Images Stager
	// Units says what state a systemd unit is in, for probes. Without it they fail.
	Units func(ctx context.Context, unit string) (activeState, subState string, err error)
	// Supervisor is the argv of the process that runs one instruction; the instruction's
	// directory is added as the last argument. It must call supervise.Supervise.
	Supervisor []string
	// Ready keeps a supervisor waiting for the next instruction, so that its start is not
	// waited for. It is a process that does nothing and ends with the agent.
	Ready bool
	// Env is the environment that instructions start from; default BaseEnv of the agent's own.
	Env func() []string
	// Path is the agent's PATH, in which commands are looked up; default $PATH.
	Path string
	Limits
	// OutputLevel is the level at which lines of output are logged: slog.LevelInfo, the default, or slog.LevelDebug.
	OutputLevel slog.Level
	// Waiting is called with what the engine waits for, and with an empty For once that is over. It
	// must return quickly. Default: it is only logged.
	Waiting func(Wait)
	// Observe is called with everything that happens, by several goroutines; it must return
	// quickly. Default: it is not called.
	Observe func(Event)
	// AppliedDir keeps a history of applied plans, the newest of each source; made 0700. Empty
	// means none.
	AppliedDir string
	Logger     *slog.Logger     // default slog.Default()
	Now        func() time.Time // default time.Now
}

// Limits bound what instructions do.
type Limits struct {
	// Timeout ends an instruction, periodic ones included, that runs longer; 0 means never.
	Timeout time.Duration
	// Quiet is how long an instruction must have printed nothing before a newer plan ends it; default two minutes.
	Quiet time.Duration
	// PeriodicPatience is how long Periodic waits for the instructions that it started; default
	// 5 seconds.
	PeriodicPatience time.Duration
	// OutputLimit is how many bytes of an instruction's output are kept, half of them from its
	// beginning and half from its end; default 1 MiB.
	OutputLimit int
}

// Wait is something that stands between the engine and its work.
type Wait struct {
	Source string    // whose plan waits
	For    string    // the object waited for, for example a file's path; empty: no longer waiting
	Cause  string    // for example "no space left on device"
	Since  time.Time // when the wait began
	Next   string    // what will happen, for example "tried again until it can be written"
}

// Delivery is one plan handed to the host once.
type Delivery struct {
	// Source names where the plan came from: "remote", or a dropped file's name.
	Source string
	// ID names this delivery among all of the source: the same bytes delivered anew have a new
	// ID and run anew. Work already done under the ID is not repeated.
	ID string
	// Checksum is plans.Checksum of the received bytes.
	Checksum string
	// Plan is what plans.Parse made of those bytes.
	Plan *plans.Plan
	// Attempt is CATTLE_AGENT_ATTEMPT_NUMBER of the instructions' first run below this ID; a
	// run that has to be repeated because it died with the host counts on from there.
	Attempt int
	// Superseded is closed when a newer plan waits for the end of this one: no further instruction is started, and the
	// running one is killed once it has printed nothing for Options.Quiet. Nil: that does not happen.
	Superseded <-chan struct{}
	// Claimed has an entry once it is known whether the delivery is really to be applied: its
	// source asks while the host makes ready for it. Nothing is begun before. After false, when
	// it takes too long, or when the context ends with ErrUnclaimed as its cause, nothing is, and
	// Apply returns ErrUnclaimed. Nil: it is.
	Claimed <-chan bool
	// Ended is called with the result as soon as it is known. It is written down on this host
	// when the channel that Ended returns is closed, or a moment later: a report that becomes
	// durable elsewhere does not wait for this disk, nor for a server that shares it. Nil: it is
	// written down at once.
	Ended func(Result) (reported <-chan struct{})
}

// Result is how an apply ended.
type Result struct {
	Succeeded bool
	// Outputs are the saved outputs of the instructions that ran, by name, the failing one's
	// included whether it asked or not; none of an earlier plan, so that the last is the one
	// that failed. After a failure plans.FailureOutput is the reason.
	Outputs map[string][]byte
	// Failure is nil exactly when Succeeded.
	Failure *Failure
}

// Failure says why a plan could not be applied.
type Failure struct {
	Instruction string // name or "instructions[i]"; empty when no instruction is to blame
	Reason      string // a sentence, free of secrets
	Output      []byte // the end of the instruction's output
	ExitCode    int    // of the instruction; -1 when it was killed or did not start
}

// Pending is what a ledger holds of a source's newest delivery.
type Pending struct {
	ID       string
	Checksum string
	Started  time.Time
	// Finished says that Apply with this ID returns at once with the result, doing nothing.
	Finished bool
	// Reported says that Engine.Reported was called for it.
	Reported bool
	// Remaining is the work left, in order; nil when Finished.
	Remaining []Task
}
