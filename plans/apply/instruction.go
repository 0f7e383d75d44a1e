// One-time instructions: each runs to its end exactly once for a delivery, except when
// it dies with the host; then it runs again and learns so by its attempt number.

package apply

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drover-project/drover/plans/apply/output"

	"github.com/drover-project/drover/plans/apply/supervise"
)

const (
	// maxLost is how often an instruction may vanish without a result, by a reboot or because
	// its supervisor was killed, before the plan fails: it may be what reboots the host.
	maxLost = 5
	// maxUnstarted is how often in a row a supervisor may fail to start.
	maxUnstarted = 3
)

// instructions runs those that the ledger does not hold a result of.
func (w *work) instructions(ctx context.Context) error {
	for i := range w.ledger.Instructions {
		in := &w.ledger.Instructions[i]
		if in.Result == nil && !in.Open && w.d.isSuperseded() {
			return w.instructionFailed(i, -1, supersededReason)
		}
		if in.Result == nil {
			err := w.instruction(ctx, i)
			if fault := w.faultBeforeBeginning(ctx, err); fault != nil {
				return fault
			}
			w.emitEnd(w.ledger, i, err)
			if err != nil {
				return err
			}
		}
		if !in.Result.Succeeded() {
			why := in.Result.Reason()
			if w.d.isSuperseded() {
				why += "; " + supersededReason
			}
			return w.instructionFailed(i, in.Result.ExitCode, why)
		}
	}
	return nil
}

// faultBeforeBeginning waits for the claim of a plan that turns out to be faulty before it is begun.
func (w *work) faultBeforeBeginning(ctx context.Context, err error) error {
	var fault *planError
	if !errors.As(err, &fault) {
		return nil
	}
	return w.mayBegin(ctx)
}

func (w *work) instructionFailed(i, code int, why string) error {
	return &planError{instruction: i, exitCode: code, reason: fmt.Sprintf("instruction %s: %s", label(i, w.ledger.Instructions[i].Name), why)}
}

// instruction runs one to its end and puts the result into the ledger, not yet on disk: the
// supervisor's own file has it too, soon.
func (w *work) instruction(ctx context.Context, i int) error {
	in := &w.ledger.Instructions[i]
	log := w.logOf(w.ledger, i)
	for unstarted := 0; ; {
		mine := !in.Open
		result, err := w.try(ctx, i)
		switch {
		case err == nil:
			in.Result, in.Open, w.disk.dirty = &result, false, true
			w.at("ended")
			log = log.With("exitCode", result.ExitCode, "took", result.Ended.Sub(result.Started))
			if why := result.Reason(); why != "" {
				log.Warn("instruction failed", "reason", why)
			} else {
				log.Info("instruction ended")
			}
			return nil
		case errors.Is(err, supervise.ErrLost):
			w.killLeftovers(w.ledger, i)
			in.Open, w.disk.dirty = false, true
			if in.Lost++; in.Lost >= maxLost {
				return w.instructionFailed(i, -1, fmt.Sprintf("was started %d times and died with the host or its supervisor each time", in.Runs))
			}
			log.Warn("instruction was interrupted, it runs again", "times", in.Lost)
			w.emitProgress(i, "was interrupted with the host or its supervisor, it runs again")
		case errors.Is(err, supervise.ErrNeverStarted):
			in.Open, w.disk.dirty = false, true
			in.Runs--
			if !mine {
				continue // an earlier life died between writing it down and starting it
			}
			if unstarted++; unstarted >= maxUnstarted {
				return w.instructionFailed(i, -1, err.Error())
			}
			log.Warn("supervisor did not start, tried again", "error", err)
			if err := waitToRetry(ctx, unstarted); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// try waits for the end of the try that an earlier life left open, or makes a new one.
func (w *work) try(ctx context.Context, i int) (supervise.Result, error) {
	in := &w.ledger.Instructions[i]
	log := w.logOf(w.ledger, i)
	var running *supervise.Running
	if in.Open {
		r, result, err := w.attach(i)
		if !errors.Is(err, supervise.ErrNeverStarted) {
			w.emit(w.eventOf(InstructionAttached, w.ledger, i))
		}
		if running = r; r == nil {
			return w.endedAlone(i, result, err)
		}
		log.Info("instruction still runs, attached to it", "supervisor", r.Identity.PID)
	} else {
		r, err := w.start(ctx, i)
		if err != nil {
			return supervise.Result{}, err
		}
		log.Info("instruction begins", "attempt", w.attemptOf(w.ledger, i), "supervisor", r.Identity.PID)
		w.emit(w.eventOf(InstructionBegan, w.ledger, i))
		running = r
	}
	return w.await(ctx, running, w.reporter(w.ledger, i, log), w.d.Superseded)
}

// attach finds out what became of the try that an earlier life left open, as supervise.Attach does.
func (w *work) attach(i int) (*supervise.Running, *supervise.Result, error) {
	in, dir := w.ledger.Instructions[i], w.tryDir(w.ledger, i)
	r, result, err := supervise.Attach(dir, in.Supervisor)
	switch {
	case errors.Is(err, supervise.ErrNeverStarted) && in.Boot != w.boot:
		// What says otherwise may not have reached the disk before the host went down.
		err = supervise.ErrLost
	case errors.Is(err, supervise.ErrLost) && in.Boot == w.boot && !exists(dir) && exists(filepath.Dir(dir)):
		err = supervise.ErrNeverStarted // the agent died before the directory was made: a user who clears up removes the run's, too
	}
	return r, result, err
}

// endedAlone is what became of a try that no agent saw the end of.
func (w *work) endedAlone(i int, result *supervise.Result, err error) (supervise.Result, error) {
	if !errors.Is(err, supervise.ErrNeverStarted) {
		w.emitLeft(w.ledger, i)
	}
	if err != nil {
		return supervise.Result{}, err
	}
	return *result, nil
}

// await follows a running instruction to its end, or to the end of the context. When superseded is closed, the
// instruction is killed as soon as it waits.
func (w *work) await(ctx context.Context, running *supervise.Running, t *reporter, superseded <-chan struct{}) (supervise.Result, error) {
	defer w.linger(running)
	q := &quiet{now: w.Now, limit: w.Quiet}
	end := q.watch(superseded, running, func(err error) {
		w.log.Warn("instruction is ended: a newer plan came, and it has printed nothing for a while", "quiet", w.Quiet, "error", err)
	})
	defer end()
	result, err := running.Wait(ctx, func(c output.Chunk) {
		q.say()
		t.chunk(c)
	})
	t.close(err == nil || ctx.Err() == nil)
	return result, err
}

// attemptOf is the number of an instruction's last try in the terms of the contract.
func (w *work) attemptOf(l *ledger, i int) int { return w.d.Attempt + max(l.Instructions[i].Runs-1, 0) }

// start stages the instruction, writes down that it starts, and starts it.
func (w *work) start(ctx context.Context, i int) (*supervise.Running, error) {
	in := &w.ledger.Instructions[i]
	if err := w.stage(ctx, i); err != nil {
		return nil, err
	}
	w.opened(in, w.ready())
	dir := w.tryDir(w.ledger, i)
	command, script, err := w.command(i, dir)
	if err != nil {
		return nil, w.instructionFailed(i, -1, err.Error())
	}
	spare := w.expecting(dir)
	err = w.withRoom(ctx, dir, func() error { return stow(dir, command, script) })
	if err != nil {
		err = fmt.Errorf("prepare the instruction in %s: %w", dir, err)
	}
	var running *supervise.Running
	if err == nil {
		running, err = w.begin(ctx, i, dir, spare)
	}
	if running == nil && spare != nil {
		spare.Close()
	}
	if err != nil {
		return nil, err
	}
	w.at("started")
	w.supervisedBy(i, running.Identity)
	if w.disk.hasFiles() {
		w.disk.soon(ctx, w.ledger)
	}
	return running, nil
}

// opened is what the ledger says of an instruction when another try of it starts, below spare
// if that is not nil.
func (w *work) opened(in *item, spare *supervise.Spare) {
	in.Tries++
	in.Runs++
	in.Open, in.Boot, in.Supervisor = true, w.boot, supervise.Identity{}
	if spare != nil {
		in.Supervisor = spare.Identity()
	}
}

// supervisedBy notes who runs the last try of an instruction, unless the ledger on disk says so.
func (w *work) supervisedBy(i int, who supervise.Identity) {
	in := &w.ledger.Instructions[i]
	if in.Supervisor == who {
		return
	}
	in.Supervisor, w.disk.dirty = who, true
	if err := w.noteSupervisor(i); err != nil {
		w.log.Warn("supervisor is not noted beside the ledger", "error", err)
	}
}

// begin writes down that the instruction written in dir starts, and has it started.
func (w *work) begin(ctx context.Context, i int, dir string, spare *supervise.Spare) (*supervise.Running, error) {
	if err := w.disk.open(ctx, w.ledger, i); err != nil {
		return nil, err
	}
	if err := w.mayBegin(ctx); err != nil {
		return nil, err
	}
	if err := w.withRoom(ctx, dir, func() error { return supervise.Offer(dir) }); err != nil {
		return nil, fmt.Errorf("offer the instruction in %s: %w", dir, err)
	}
	w.at("prepared")
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	running, err := w.supervisor(dir, spare, i+1 < len(w.ledger.Instructions))
	if err != nil {
		return nil, w.unstarted(dir, err)
	}
	return running, nil
}

// unstarted makes sure that a supervisor which seems not to have started does not start later.
func (w *work) unstarted(dir string, cause error) error {
	_, _, err := supervise.Attach(dir, supervise.Identity{})
	if errors.Is(err, supervise.ErrNeverStarted) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return cause
}

// stow puts the command and its script into dir, which it makes.
func stow(dir string, c supervise.Command, script string) error {
	if script != "" {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, scriptFile), []byte(script), 0o700); err != nil { // #nosec G306 -- a program
			return err
		}
	}
	return supervise.Write(dir, c)
}

// stage makes the sandbox anew and unpacks the image into it.
func (w *work) stage(ctx context.Context, i int) error {
	image := w.d.Plan.Instructions[i].Image
	if image != "" { // fetching may take minutes, and is the first trace on the host
		if err := w.mayBegin(ctx); err != nil {
			return err
		}
	}
	if image != "" && w.disk.dirty {
		if err := w.save(ctx); err != nil {
			return err
		}
	}
	dir := w.sandbox(w.ledger, i)
	progress := func(line string) { w.emitProgress(i, line) }
	err := w.withRoom(ctx, dir, func() error { return w.fill(ctx, dir, image, progress) })
	switch {
	case err == nil:
		w.at("staged")
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case image == "":
		return w.instructionFailed(i, -1, fmt.Sprintf("make its directory: %v", err))
	}
	return w.instructionFailed(i, -1, fmt.Sprintf("fetch image %s: %v", image, err))
}

// fill makes dir, empty but for the image; progress may be nil.
func (e *Engine) fill(ctx context.Context, dir, image string, progress func(line string)) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	// The run's own directory is there unless a user removed it.
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	if err := os.Chmod(dir, 0o755); err != nil { // #nosec G302 -- a directory, with any umask
		return err
	}
	if image == "" {
		return nil
	}
	if e.Images == nil {
		return errors.New("this agent cannot fetch images")
	}
	return e.Images.Stage(ctx, image, dir, progress)
}

// killLeftovers ends what a lost try left running, before anything else of the plan runs.
func (w *work) killLeftovers(l *ledger, i int) {
	mark := envSandbox + "=" + w.sandbox(l, i)
	if n := supervise.KillLeftovers(w.tryDir(l, i), l.Instructions[i].Supervisor, mark); n > 0 {
		w.log.Warn("processes of an interrupted instruction killed", "instruction", label(i, l.Instructions[i].Name), "processes", n)
	}
}

// command is what the supervisor runs, and the text of the script if that is one.
func (w *work) command(i int, dir string) (supervise.Command, string, error) {
	in := w.d.Plan.Instructions[i].Instruction
	c, err := w.commandOf(in, w.sandbox(w.ledger, i), filepath.Join(dir, scriptFile), w.attemptOf(w.ledger, i))
	if err != nil {
		return supervise.Command{}, "", err
	}
	return supervise.Command{
		Path: c.path, Args: c.args, Env: c.env, Dir: w.sandbox(w.ledger, i),
		OutputLimit: w.OutputLimit, Timeout: w.Timeout,
	}, in.Script, nil
}
