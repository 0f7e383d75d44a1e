// What an apply would do, without doing it: the same decisions that the engine takes,
// taken one after the other on what the host looks like now.

package apply

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/apply/hostfs"
)

// maxShown is how large a file may be whose old content a preview has.
const maxShown = 1 << 20

// Preview is what the apply of a delivery would do at once.
type Preview struct {
	Source, Checksum string
	// Files are the changes of files, in order.
	Files []FileChange
	// Instructions and Periodic are what would run; none of a plan that was applied already.
	Instructions, Periodic []CommandPreview
	// Probes are the names of the plan's probes, sorted.
	Probes []string
}

// Empty says that nothing would be changed or run at once.
func (p Preview) Empty() bool {
	return len(p.Files) == 0 && len(p.Instructions) == 0 && len(p.Periodic) == 0
}

// FileChange is one change of one entry on the host.
type FileChange struct {
	// Path is the plan's; Really is where its content is kept, another path for a file that
	// is redirected. Such a file has two changes, the second with the Action "link".
	Path, Really string
	// Action is create, replace, mode, owner, delete, mkdir or link. Where the content
	// changes, mode and owner may change too.
	Action string
	// Old and New are the contents of regular files. Old is nil for a file of more than 1 MiB.
	Old, New         []byte
	OldMode, NewMode fs.FileMode
	// OldOwner and NewOwner are "uid:gid"; empty where there is no entry.
	OldOwner, NewOwner string
	// Fault is why the change cannot be made; the apply would fail here.
	Fault string
}

// CommandPreview is an instruction that would run.
type CommandPreview struct {
	Name, Image string
	// Args begin with the command.
	Args []string
	// Env are the entries of the instruction's own.
	Env    []string
	Script string
}

// Look says what Apply of the delivery would do. It reads only: nothing is made and no lock
// is taken, so it can run beside an agent that works; LedgerDir, Root and Redirects have to
// be those of that agent. The errors are those of reading the ledger and the context's; what stands in the way of a file is part of the preview.
func Look(ctx context.Context, o Options, d Delivery) (Preview, error) {
	if d.Plan == nil {
		return Preview{}, errors.New("apply: the delivery has no plan")
	}
	e := &Engine{Options: o, host: hostfs.FS{Root: o.Root}}
	p := Preview{Source: d.Source, Checksum: d.Checksum, Probes: slices.Sorted(maps.Keys(d.Plan.Probes))}
	v := view{Engine: e, states: map[string]hostfs.State{}, fresh: map[string]bool{}}
	for _, f := range d.Plan.Files {
		if err := ctx.Err(); err != nil {
			return Preview{}, err
		}
		p.Files = append(p.Files, v.file(f)...)
	}
	done, mine, err := e.known(d)
	if err != nil || done {
		return p, err
	}
	for i, in := range d.Plan.Instructions {
		if mine == nil || mine.Instructions[i].Result == nil {
			p.Instructions = append(p.Instructions, previewOf(in.Instruction))
		}
	}
	for _, in := range named(d.Plan) {
		p.Periodic = append(p.Periodic, previewOf(in.Instruction))
	}
	return p, nil
}

// known says whether the plan was applied with success by any source, and finds the
// ledger of the delivery while it is on its way.
func (e *Engine) known(d Delivery) (done bool, mine *ledger, err error) {
	names, err := filepath.Glob(filepath.Join(e.LedgerDir, "*.json"))
	if err != nil {
		return false, nil, err
	}
	for _, name := range names {
		l, err := readLedger(name)
		var damaged *damagedError
		switch {
		case errors.Is(err, fs.ErrNotExist) || errors.As(err, &damaged):
		case err != nil:
			return false, nil, fmt.Errorf("find out what was applied already: %w", err)
		case l.Checksum == d.Checksum && l.Outcome != nil && l.Outcome.Succeeded:
			done = true
		case l.Source == d.Source && l.of(d) && l.Outcome == nil:
			mine = l
		}
	}
	return done, mine, nil
}

func previewOf(in plans.Instruction) CommandPreview {
	c := CommandPreview{Name: in.Name, Image: in.Image, Env: in.Env, Script: in.Script}
	switch {
	case in.Script != "":
		c.Args = append([]string{scriptFile}, in.Args...)
	case in.Command == "":
		c.Args = append([]string{defaultCommand}, in.Args...)
	default:
		c.Args = append([]string{in.Command}, in.Args...)
	}
	return c
}

// view is the host as it would be after the files so far.
type view struct {
	*Engine
	states map[string]hostfs.State // of the entries that were decided on, by path
	fresh  map[string]bool         // paths below which nothing of today's host is left
}

// file are the changes that a file of the plan means.
func (v *view) file(f plans.File) []FileChange {
	really, _ := v.redirect(f.Path)
	shown := FileChange{Path: f.Path, Really: really}
	entries, err := v.entries(f)
	if err != nil {
		shown.Fault = reason(err)
		return []FileChange{shown}
	}
	var changes []FileChange
	for _, entry := range entries {
		if v.linksToItself(entry) {
			continue
		}
		c, err := v.change(entry)
		if err == nil && c.Action == hostfs.None {
			continue
		}
		changes = append(changes, shown.of(c, err))
		if err != nil {
			break
		}
	}
	return changes
}

// change decides on one entry and remembers what comes of it.
func (v *view) change(want hostfs.Entry) (hostfs.Change, error) {
	name := v.host.OneOf(maps.Keys(v.states), path.Clean(want.Name))
	have, known := v.states[name]
	if !known && !v.anew(name) {
		var err error
		if have, err = v.host.Look(want, maxShown); err != nil {
			return hostfs.Change{Want: want}, err
		}
	}
	c, err := hostfs.Decide(have, want)
	if err != nil {
		return c, err
	}
	if c.Action == hostfs.Delete || c.Action == hostfs.Mkdir {
		maps.DeleteFunc(v.states, func(below string, _ hostfs.State) bool { return strings.HasPrefix(below, name+"/") })
		v.fresh[name] = true
	}
	v.states[name] = c.After()
	return c, nil
}

// anew says whether the path is below one that is removed or made before.
func (v *view) anew(name string) bool {
	for dir := path.Dir(name); dir != "/"; dir = path.Dir(dir) {
		if v.fresh[dir] {
			return true
		}
	}
	return false
}

// of fills in a decision, or why there is none.
func (f FileChange) of(c hostfs.Change, err error) FileChange {
	f.Action = string(c.Action)
	f.Old = c.Have.Content
	if c.Have.Kind != hostfs.Nothing {
		f.OldMode, f.OldOwner = c.Have.Mode, ownerText(c.Have.Owner)
	}
	if err != nil {
		f.Fault = reason(err)
		return f
	}
	if after := c.After(); after.Kind == hostfs.File || after.Kind == hostfs.Dir {
		f.New, f.NewMode, f.NewOwner = after.Content, after.Mode, ownerText(after.Owner)
	}
	return f
}

// ownerText is an owner as people write it; an id that was not set is the agent's own.
func ownerText(o hostfs.Owner) string { return fmt.Sprintf("%d:%d", max(o.UID, 0), max(o.GID, 0)) }
