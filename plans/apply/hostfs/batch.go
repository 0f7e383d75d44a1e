// Bringing many entries to their wanted state at the price of few waits for the disk. The
// order that holds, for each regular file: its new content, mode and owner are written beside
// it, then made durable, then get the name, and only then is the name made durable. A batch
// does each of these steps for all of its files before it does the next.

package hostfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"

	"github.com/drover-project/drover/plans/durable"
)

const (
	// batchFiles and batchBytes are when a batch is full: its files are open and its contents
	// are on disk twice.
	batchFiles = 64
	batchBytes = 16 << 20
)

// Batch brings entries to their wanted state in their order. New contents of regular files
// wait until Flush; everything else is done at once, and durable after Flush. An entry that
// has to do with one that waits has that flushed first.
type Batch struct {
	fs      FS
	pending []*pending
	bytes   int
	done    int
	inPlace []string
}

// pending is a regular file whose new content has not got its name yet.
type pending struct {
	want Entry
	dir  *os.Root
	base string
	// file is the new content; nil after it could not be made durable: then it has to be
	// written anew, as the kernel may have forgotten what it could not write.
	file *os.File
}

// Batch begins a batch. Close has to be called.
func (h FS) Batch() *Batch {
	h.dirty = &dirtyDirs{}
	return &Batch{fs: h}
}

// Bring brings one entry to the wanted state, see Batch, and returns what has to be done. The errors are those of Bring, and of files of the batch
// that were written out for this one.
func (b *Batch) Bring(want Entry) (Change, error) {
	if b.full() || b.concerns(want) {
		if err := b.Flush(); err != nil {
			return Change{}, err
		}
	}
	return b.fs.bring(want, b.do)
}

// do performs a change, or the first half of it.
func (b *Batch) do(c Change) error {
	if c.Action == Create || c.Action == Replace {
		return b.write(c.Want)
	}
	if c.Action == Delete || c.Action == MakeLink {
		if err := b.Flush(); err != nil {
			return err
		}
	}
	return b.fs.Do(c)
}

func (b *Batch) full() bool { return len(b.pending) >= batchFiles || b.bytes >= batchBytes }

// concerns says whether a file that waits is, is above or is below the entry's path, or is the
// entry by another path: /lib may be a link to /usr/lib.
func (b *Batch) concerns(want Entry) bool {
	name := path.Clean(want.Name) + "/"
	for _, p := range b.pending {
		waits := path.Clean(p.want.Name) + "/"
		if strings.HasPrefix(name, waits) || strings.HasPrefix(waits, name) {
			return true
		}
		if path.Base(waits) == path.Base(name) && b.fs.SameEntry(waits, name) {
			return true
		}
	}
	return false
}

func (b *Batch) write(want Entry) error {
	dir, base, err := b.fs.parent(want.Name, true)
	if err != nil {
		return err
	}
	p := &pending{want: want, dir: dir, base: base}
	if err := p.write(); err != nil {
		return errors.Join(err, dir.Close())
	}
	b.pending = append(b.pending, p)
	b.bytes += len(want.Content)
	return nil
}

// Waiting is how many files wait for Flush.
func (b *Batch) Waiting() int { return len(b.pending) }

// Done is how many files have been flushed.
func (b *Batch) Done() int { return b.done }

// InPlace are the files, since the last call, that could not be replaced, as each is the place of a
// mount (/etc/hosts in a container), and whose content was written over the old one: a crash in
// the middle leaves a part of it, and programs that read the file meanwhile may see that.
func (b *Batch) InPlace() []string {
	names := b.inPlace
	b.inPlace = nil
	return names
}

// Dirty says whether names have changed that are not durable before Flush.
func (b *Batch) Dirty() bool { return len(b.fs.dirty.open) > 0 || b.fs.dirty.err != nil }

// Flush gives the contents that wait their names and makes everything durable. After an
// error the files before the first that could not be flushed are new and durable, it and
// those after it are old, and another Flush goes on with it.
func (b *Batch) Flush() error {
	var fault error
	ready := 0
	for _, p := range b.pending {
		if fault = p.write(); fault != nil {
			break
		}
		durable.Begin(p.file)
	}
	// In turn: the first waits for the disk and the file system's journal, and the others find most of it done. Several threads
	// at once were slower on two busy cores, and much slower beside a program that writes a lot.
	for _, p := range b.pending {
		if p.file == nil {
			break
		}
		if err := p.file.Sync(); err != nil {
			fault = errors.Join(err, p.drop())
			break
		}
		ready++
	}
	for _, p := range b.pending[:ready] {
		err := p.dir.Rename(temporary(p.base), p.base)
		if errors.Is(err, syscall.EBUSY) { // something is mounted on it
			if err = inPlace(p.dir, p.base, p.want); err == nil {
				b.inPlace = append(b.inPlace, p.want.Name)
				err = p.drop()
			}
		}
		if err != nil {
			fault = errors.Join(err, p.drop())
			break
		}
		b.fs.dirty.add(p.dir)
		b.done++
		b.bytes -= len(p.want.Content)
		fault = errors.Join(fault, p.close())
		b.pending = b.pending[1:]
	}
	return errors.Join(fault, b.fs.dirty.sync())
}

// Close gives up what still waits: those files stay as they are. The errors are those of removing what was begun.
func (b *Batch) Close() error {
	var err error
	for _, p := range b.pending {
		err = errors.Join(err, p.drop(), p.close())
	}
	b.pending = nil
	return errors.Join(err, b.fs.dirty.sync())
}

// write writes the new content beside the file, unless it is there.
func (p *pending) write() error {
	if p.file != nil {
		return nil
	}
	f, err := fill(p.dir, temporary(p.base), p.want)
	if errors.Is(err, fs.ErrExist) { // a crash left it
		if err := removeIfThere(p.dir, temporary(p.base)); err != nil {
			return err
		}
		f, err = fill(p.dir, temporary(p.base), p.want)
	}
	if err != nil {
		return errors.Join(err, removeIfThere(p.dir, temporary(p.base)))
	}
	p.file = f
	return nil
}

// drop removes the new content.
func (p *pending) drop() error {
	if p.file == nil {
		return nil
	}
	err := errors.Join(p.file.Close(), removeIfThere(p.dir, temporary(p.base)))
	p.file = nil
	return err
}

func (p *pending) close() error {
	var err error
	if p.file != nil {
		err = p.file.Close()
		p.file = nil
	}
	return errors.Join(err, p.dir.Close())
}

// dirtyDirs are directories whose names have changed and are not durable yet.
type dirtyDirs struct {
	open []*os.File
	seen map[dirID]bool
	err  error // why a directory cannot be synced
}

type dirID struct{ dev, ino uint64 }

// add notes a directory, of which the caller may close its own handle.
func (d *dirtyDirs) add(dir *os.Root) {
	info, err := dir.Stat(".")
	if err != nil {
		d.err = errors.Join(d.err, err)
		return
	}
	id, ok := idOf(info)
	if ok && d.seen[id] {
		return
	}
	f, err := dir.Open(".")
	if err != nil {
		d.err = errors.Join(d.err, err)
		return
	}
	if ok {
		if d.seen == nil {
			d.seen = map[dirID]bool{}
		}
		d.seen[id] = true
	}
	d.open = append(d.open, f)
}

// sync makes the names durable, in each directory once.
func (d *dirtyDirs) sync() error {
	err := d.err
	for _, f := range d.open {
		err = errors.Join(err, f.Sync(), f.Close())
	}
	*d = dirtyDirs{}
	return err
}
