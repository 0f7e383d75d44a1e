// Package kubectl runs one line of kubectl for a user who types it into the web page. kubectl is a process of its own:
// the server's program, started under another name, so that what a line costs or breaks is not the server's. It gets no
// file, no environment, no credential and no network; it reaches one cluster, over connections to the server's own handler,
// which get the credential of the person who typed the line. Their rights, the audit log and the way into the cluster are
// those of any other client.
package kubectl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os/exec"
	"sync"
	"time"

	"k8s.io/kubectl/pkg/util/i18n"
)

// The words of kubectl's commands stay as they are: it would unpack its translations whenever this program starts, for a quarter of
// the memory that a start takes.
func init() { i18n.SetLoadTranslationsFunc(func() error { return nil }) }

// Program is the name under which the server's program is kubectl: main and the tests' main ask for it in os.Args[0], and
// call commands.Main.
const Program = "drover-kubectl"

// How many lines run at once, of one user and on one server.
const (
	mostOfUser   = 4
	mostOfServer = 16
)

// memory is what the process is told to stay below; see commands for what ends it.
const memory = "256MiB"

// Runner runs lines.
type Runner struct {
	// Handler is the server's own, which serves /k8s/clusters/ID/… .
	Handler http.Handler
	// Logger hears what the host does not permit; nil is silence.
	Logger *slog.Logger

	mu      sync.Mutex
	running map[string]int
	all     int
	// confined is the confinement that works here.
	confined int
}

// Line is what is run.
type Line struct {
	// Words are those that Words found.
	Words []string
	// Cluster is the management id of the cluster.
	Cluster string
	// Asked is the request that the line came in: those to the cluster have its credential and its source.
	Asked *http.Request
	// Time is how long it may take, and Output how much it may print, in bytes.
	Time   time.Duration
	Output int64
}

// BusyError says that as many lines run already as may run at once.
type BusyError struct {
	// OfUser says that they are the caller's own.
	OfUser bool
}

func (e *BusyError) Error() string {
	if e.OfUser {
		return fmt.Sprintf("%d of your commands run already: wait for one of them, or stop it", mostOfUser)
	}
	return fmt.Sprintf("%d commands run on this server already: try again in a moment", mostOfServer)
}

// Begin takes a place for a line of a user, until done is called. The error is a BusyError.
func (r *Runner) Begin(user string) (done func(), err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.running[user] >= mostOfUser:
		return nil, &BusyError{OfUser: true}
	case r.all >= mostOfServer:
		return nil, &BusyError{}
	case r.running == nil:
		r.running = map[string]int{}
	}
	r.running[user]++
	r.all++
	return sync.OnceFunc(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.all--
		if r.running[user]--; r.running[user] == 0 {
			delete(r.running, user)
		}
	}), nil
}

// Why a line ended that would have gone on.
var (
	errTime   = errors.New("the time is over")
	errOutput = errors.New("the output is too long")
)

// Input is what the process reads from its standard input: nothing of it is in the arguments, which everybody on the host
// can read.
type Input struct {
	Words []string
}

// Run runs a line until it is over, the context ends, or it is too much. All that it prints goes to out, as text without
// control characters; a sentence at the end says why there is no more. The error says that it could not be started.
func (r *Runner) Run(ctx context.Context, line Line, out io.Writer) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	ctx, cancel := context.WithTimeoutCause(ctx, line.Time, errTime)
	defer cancel()
	gate, err := open(ctx, r.Handler, line)
	if err != nil {
		return err
	}
	defer gate.close()
	input, err := json.Marshal(Input{Words: line.Words})
	if err != nil {
		return fmt.Errorf("tell kubectl what to do: %w", err)
	}
	text := &plain{to: out, left: line.Output, over: func(why error) { stop(why) }}
	err = r.process(ctx, input, gate.theirs, text)
	return ending(ctx, err, line, out)
}

// ending says why there is no more output, where kubectl does not say it itself.
func ending(ctx context.Context, err error, line Line, out io.Writer) error {
	why := ""
	exit, exited := errors.AsType[*exec.ExitError](err)
	switch cause := context.Cause(ctx); {
	case err == nil:
		return nil
	case errors.Is(cause, errTime):
		why = fmt.Sprintf("it was stopped after %s, as long as a command may take", line.Time)
	case errors.Is(cause, errOutput):
		why = fmt.Sprintf("the output is longer than %d KiB: the rest is left out. Ask for less, as with -l, --tail or -o name", line.Output>>10)
	case cause != nil:
		why = "it was stopped: your session, or your right to the cluster, is over"
	case !exited:
		return fmt.Errorf("run kubectl: %w", err)
	case exit.ExitCode() >= 0:
		return nil // it has said what is wrong
	default:
		why = fmt.Sprintf("kubectl has died: %s. What it was asked for may need more than %s of memory", exit.ProcessState, memory)
	}
	_, _ = io.WriteString(out, "\ndrover: "+why+"\n") // who does not read any more has gone
	return nil
}
