// What a run of the RKE1 engine reports is written into its operation's record: tasks are its phases, and its
// lines are the log. Lines come by the hundred, so that what came within a second is written together. What the engine advises is said as it is done here.

package rke1

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/rke1/advice"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/rke/desired"
	"github.com/drover-project/drover/server/store"
)

// writeEvery is how long lines are gathered.
const writeEvery = time.Second

// progressReport is the run.Report of one run.
type progressReport struct {
	reportOptions

	mu      sync.Mutex
	pending []func(operations.Operation) operations.Operation
	phase   string // the task that runs

	due    chan struct{}
	end    chan struct{}
	closed sync.WaitGroup
}

// reportOptions are what a Report needs.
type reportOptions struct {
	Operations *store.Collection[operations.Operation]
	// Key is that of the operation.
	Key string
	// Steps are the parts of the run, as far as they are known before.
	Steps []run.Step
	// Words say what can be done about a warning.
	Words  advice.Words
	Now    func() time.Time
	Logger *slog.Logger
}

// newReport is a report that writes nothing before Start.
func newReport(o reportOptions) *progressReport {
	return &progressReport{reportOptions: o, due: make(chan struct{}, 1), end: make(chan struct{})}
}

// Start writes that a try begins, with all its tasks, and writes from now on what is reported, until Finish. The error is that of the store.
func (p *progressReport) Start(ctx context.Context, params desired.Params, generation int64) error {
	_, err := p.Operations.Modify(ctx, p.Key, func(o operations.Operation) (operations.Operation, error) {
		now := p.Now().UTC()
		for _, s := range p.Steps {
			t, known := o.Task(s.ID)
			if !known {
				t = operations.Task{ID: s.ID}
			}
			t.Title, t.State, t.Progress, t.Message = s.Title, operations.TaskPending, "", ""
			o = o.WithTask(t, now)
		}
		o.Generation = generation
		return params.With(o.WithWait(nil, now))
	})
	if err != nil {
		return err
	}
	p.closed.Go(func() {
		for {
			select {
			case <-p.end:
				p.write(ctx)
				return
			case <-ctx.Done():
				return
			case <-p.due:
				p.write(ctx)
			}
			select {
			case <-p.end:
			case <-ctx.Done():
			case <-time.After(writeEvery):
			}
		}
	})
	return nil
}

// Finish writes what is left.
func (p *progressReport) Finish() {
	close(p.end)
	p.closed.Wait()
}

func (p *progressReport) add(f func(operations.Operation) operations.Operation) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = append(p.pending, f)
	select {
	case p.due <- struct{}{}:
	default:
	}
}

// write writes what was gathered. What cannot be written now is written with what comes next.
func (p *progressReport) write(ctx context.Context) {
	p.mu.Lock()
	all := slices.Clone(p.pending)
	p.mu.Unlock()
	if len(all) == 0 {
		return
	}
	_, err := p.Operations.Modify(ctx, p.Key, func(o operations.Operation) (operations.Operation, error) {
		if o.State.Ended() {
			return o, store.ErrUnchanged
		}
		for _, f := range all {
			o = f(o)
		}
		return o, nil
	})
	if err != nil && !errors.Is(err, store.ErrUnchanged) {
		if ctx.Err() == nil {
			p.Logger.Warn("the progress of an operation could not be written", "operation", p.Key, "error", err)
		}
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pending = p.pending[len(all):]
}

// Phase implements run.Report.
func (p *progressReport) Phase(id, title string) {
	now := p.Now().UTC()
	p.mu.Lock()
	last := p.phase
	p.phase = id
	p.mu.Unlock()
	p.add(func(o operations.Operation) operations.Operation {
		if t, ok := o.Task(last); ok && t.State == operations.TaskRunning {
			t.State, t.Progress = operations.TaskSucceeded, ""
			o = o.WithTask(t, now)
		}
		t, _ := o.Task(id)
		t.ID, t.Title, t.State, t.Attempts = id, title, operations.TaskRunning, t.Attempts+1
		return o.WithTask(t, now)
	})
}

// Line implements run.Report.
func (p *progressReport) Line(text string) {
	now := p.Now().UTC()
	p.mu.Lock()
	phase := p.phase
	p.mu.Unlock()
	p.add(func(o operations.Operation) operations.Operation {
		if t, ok := o.Task(phase); ok && t.State == operations.TaskRunning {
			t.Progress = text
			o = o.WithTask(t, now)
		}
		return o.WithLine(text, now)
	})
}

// Warn implements run.Report.
func (p *progressReport) Warn(text string, steps ...advice.Step) {
	p.Line(advice.Sentence("warning: "+text, steps, p.Words))
}

// Succeed marks the task that runs as done.
func (p *progressReport) Succeed() {
	now := p.Now().UTC()
	p.add(func(o operations.Operation) operations.Operation {
		for _, t := range o.Tasks {
			if t.State == operations.TaskRunning {
				t.State, t.Progress = operations.TaskSucceeded, ""
				o = o.WithTask(t, now)
			}
		}
		return o
	})
}

// wordsOf say a step for a cluster.
func wordsOf(cluster string) advice.Words {
	return func(s advice.Step) string {
		switch s.Kind {
		case advice.BringUp:
			return "wait until it is provisioned"
		case advice.ResumeRestore:
			return "`drover snapshots restore " + cluster + " " + s.Snapshot + "` comes first, which goes on with it"
		case advice.ResumeCA:
			return "`drover clusters rotate certificates " + cluster + " --ca` comes first, which goes on with it"
		case advice.ResumeCertificates:
			return "`" + strings.Join(append([]string{"drover clusters rotate certificates " + cluster}, s.Services...), " --service ") + "` comes first, which goes on with it"
		case advice.ResumeKey:
			return "`drover clusters rotate encryption-keys " + cluster + "` goes on with it"
		case advice.DropLostHosts:
			return "hosts that are lost are removed with `drover machines rm NAME --force`"
		case advice.OtherName:
			return "take it under another name"
		case advice.KeepState:
			return "with --keep-state the one that the server has is used"
		case advice.SnapshotsState:
			return "without --keep-state the one in the snapshot is taken"
		case advice.Encrypt:
			return "set services.kube-api.secrets_encryption_config.enabled: true in the document, and apply it"
		case advice.EncryptMeanwhile:
			return "set enabled: true there for the restore, and take it out afterwards"
		case advice.TakeSnapshot:
			return "`drover snapshots create " + cluster + "` takes one at once"
		case advice.RenewCertificates:
			return "`drover clusters rotate certificates " + cluster + "` issues new ones"
		}
		return "" // the others are of flags that a server does not have
	}
}
