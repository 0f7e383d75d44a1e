// What an apply costs on the real agent: files and instructions a second, and whether its
// memory grows with the number of plans it applied. The plans come from its directory, so
// that no server is in the measure.

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/drover-project/drover/plans"
)

const (
	filesAtOnce        = 1000
	instructionsAtOnce = 100
	// firstLook is after how many applies the memory is looked at first.
	firstLook = 100
	// settled is when an agent has given back what it does not need.
	settled = 20 * time.Second
	// maxGrowth is how much more memory many applies may leave than few, in MiB.
	maxGrowth = 1
)

// applies measures one agent.
func (b *bench) applies(ctx context.Context) (err error) {
	dir := filepath.Join(b.dir, "applies")
	s, m, err := b.oneMachine(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx)) }()
	a, err := b.startAgent(ctx, s, m, filepath.Join(dir, "agent"), true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.stop(ctx)) }()
	if err := b.throughput(ctx, a); err != nil {
		return fmt.Errorf("%w; the end of the agent's log:\n%s", err, tail(filepath.Join(a.dir, "agent.log")))
	}
	return b.growth(ctx, a)
}

// throughput times one plan of many small parts each.
func (b *bench) throughput(ctx context.Context, a *agent) error {
	var files, instructions plans.Plan
	for i := range filesAtOnce {
		files.Files = append(files.Files, plans.File{
			Path: filepath.Join(a.dir, "files", fmt.Sprint(i%10), fmt.Sprint(i)), Content: plans.EncodeContent(fmt.Appendf(nil, "file %d", i)),
		})
	}
	for i := range instructionsAtOnce {
		instructions.Instructions = append(instructions.Instructions, plans.OneTimeInstruction{Instruction: plans.Instruction{Name: fmt.Sprint(i), Command: "/bin/true"}})
	}
	for _, one := range []struct {
		what string
		plan plans.Plan
		n    int
	}{
		{"apply: small files, new", files, filesAtOnce},
		{"apply: small files, unchanged", files, filesAtOnce},
		{"apply: instructions", instructions, instructionsAtOnce},
	} {
		b.say("%s: %d in one plan", one.what, one.n)
		one.plan.Error = one.what // which the agent ignores: the same files in a plan of its own
		took, err := a.apply(ctx, one.plan)
		if err != nil {
			return err
		}
		b.table.note(one.what, fmt.Sprintf("%.0f a second", float64(one.n)/took.Seconds()))
	}
	return nil
}

// growth applies many plans and compares the agent's memory after them with that after few.
func (b *bench) growth(ctx context.Context, a *agent) error {
	if b.count <= firstLook {
		return nil
	}
	b.say("%d plans, one after the other", b.count)
	var before memory
	for i := range b.count {
		if i == firstLook {
			var err error
			if before, err = a.settledMemory(ctx); err != nil {
				return err
			}
		}
		content := plans.EncodeContent(fmt.Append(nil, i))
		if _, err := a.apply(ctx, plans.Plan{Files: []plans.File{{Path: filepath.Join(a.dir, "one"), Content: content}}}); err != nil {
			return fmt.Errorf("plan %d: %w", i, err)
		}
	}
	after, err := a.settledMemory(ctx)
	if err != nil {
		return err
	}
	b.table.bytes(fmt.Sprintf("agent: resident memory after %d applies", firstLook), before.resident, maxResident)
	b.table.bytes(fmt.Sprintf("agent: resident memory after %d applies", b.count), after.resident, maxResident)
	b.table.bytes("agent: growth of its anonymous memory between them", after.anonymous-before.anonymous, maxGrowth)
	return nil
}

// settledMemory is the memory once nothing happens any more.
func (a *agent) settledMemory(ctx context.Context) (memory, error) {
	if err := rest(ctx, settled); err != nil {
		return memory{}, err
	}
	return memoryOf(a.process.PID())
}

// apply drops a plan and returns how long it took until it was noted as applied.
func (a *agent) apply(ctx context.Context, p plans.Plan) (time.Duration, error) {
	plan, err := p.Marshal()
	if err != nil {
		return 0, err
	}
	written := filepath.Join(a.dir, "next")
	if err := os.WriteFile(written, plan, 0o600); err != nil {
		return 0, err
	}
	dropped := time.Now()
	if err := os.Rename(written, filepath.Join(a.plans(), "bench.plan")); err != nil {
		return 0, err
	}
	done := fmt.Appendf(nil, `"appliedChecksum":%q`, plans.Checksum(plan))
	err = lookUntil(ctx, 5*time.Minute, time.Millisecond, "the plan to be applied", func() (bool, error) {
		position, err := os.ReadFile(filepath.Join(a.plans(), "bench.pos"))
		if errors.Is(err, os.ErrNotExist) {
			return false, nil
		}
		return bytes.Contains(position, done), err
	})
	return time.Since(dropped), err
}
