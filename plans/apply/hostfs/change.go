// One decision for those who look and those who do: what is there and what is wanted give
// a change, as a value. Looking reads only, deciding is pure, doing performs the value.

package hostfs

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Kind is what an entry of a directory is.
type Kind int

// The kinds of entries. Other is never wanted.
const (
	Nothing Kind = iota
	File
	Dir
	Link
	Other
)

// Entry is what is wanted at a path.
type Entry struct {
	Name string // absolute
	// Kind is Nothing for an entry to be removed.
	Kind Kind
	// Tree has everything below a removed directory removed too.
	Tree    bool
	Content []byte // of a File
	Mode    fs.FileMode
	Owner   Owner
	Target  string // text of a Link
}

// State is what is at a path, as far as matters to what is wanted there.
type State struct {
	Kind  Kind
	Mode  fs.FileMode // permissions, setuid, setgid and sticky
	Owner Owner
	Size  int64
	// Content is that of a regular file that was small enough to be read, see Look.
	Content []byte
	Target  string // of a Link
	// Full says that a directory has entries; known only when it is to be removed.
	Full bool

	info fs.FileInfo
}

// Action is what kind of change has to be made.
type Action string

// The actions. A change of mode or owner may be one of both.
const (
	None        Action = ""
	Create      Action = "create"
	Replace     Action = "replace"
	ChangeMode  Action = "mode"
	ChangeOwner Action = "owner"
	Delete      Action = "delete"
	Mkdir       Action = "mkdir"
	MakeLink    Action = "link"
)

// Change is what brings an entry from what it is to what is wanted.
type Change struct {
	Action Action
	Have   State
	// Want has an owner without -1 where there is an entry whose owner stays.
	Want Entry
}

// errSpecial is what is at the path of a file, when a file there would break its users.
var errSpecial = errors.New("a device, pipe or socket is there, which is not replaced")

// errChanged says that an entry is not what it was when it was looked at.
var errChanged = errors.New("it changed while it was brought to its state")

// bringTries is how often an entry that another process changes is looked at anew.
const bringTries = 3

// Bring brings one entry to the wanted state and returns what had to be done. The errors name the entry: those of the file system, and that something
// else is in its place.
func (h FS) Bring(want Entry) (Change, error) { return h.bring(want, h.Do) }

// bring looks, decides and does.
func (h FS) bring(want Entry, do func(Change) error) (Change, error) {
	for try := 1; ; try++ {
		have, err := h.Look(want, -1)
		if err != nil {
			return Change{}, err
		}
		c, err := Decide(have, want)
		if err != nil {
			return Change{}, err
		}
		if err := do(c); err == nil || !errors.Is(err, errChanged) || try == bringTries {
			return c, err
		}
	}
}

// Holds says whether an entry is as wanted.
func (h FS) Holds(want Entry) bool {
	have, err := h.Look(want, -1)
	if err != nil {
		return false
	}
	c, err := Decide(have, want)
	return err == nil && c.Action == None
}

// Look says what is there in the place of what is wanted. A regular file is read when it has the
// wanted size or at most `most` bytes. A link is followed only where a directory is wanted. What is not there is no error; those of the file system
// are returned.
func (h FS) Look(want Entry, most int64) (State, error) {
	dir, base, err := h.parent(want.Name, false)
	if errors.Is(err, fs.ErrNotExist) || want.Kind == Nothing && errors.Is(err, syscall.ENOTDIR) {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	defer dir.Close()
	info, err := dir.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return State{}, nil
	}
	if err != nil {
		return State{}, err
	}
	if want.Kind == Dir && info.Mode()&fs.ModeSymlink != 0 {
		if dir, err = h.open(want.Name, false); err != nil {
			return State{}, err
		}
		defer dir.Close()
		base = "."
		if info, err = dir.Stat(base); err != nil {
			return State{}, err
		}
	}
	s := stateOf(info)
	switch {
	case s.Kind == Link:
		s.Target, err = dir.Readlink(base)
	case s.Kind == File && (s.Size <= most || want.Kind == File && s.Size == int64(len(want.Content))):
		s.Content, err = read(dir, base, info)
	case s.Kind == Dir && want.Kind == Nothing:
		s.Full, err = full(dir, base)
	}
	return s, err
}

const modeBits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky

func stateOf(info fs.FileInfo) State {
	s := State{Kind: Other, Mode: info.Mode() & modeBits, Owner: ownerOf(info), Size: info.Size(), info: info}
	switch info.Mode() & fs.ModeType {
	case 0:
		s.Kind = File
	case fs.ModeDir:
		s.Kind = Dir
	case fs.ModeSymlink:
		s.Kind = Link
	}
	return s
}

// read is the content of a file; nil when the name has become something else meanwhile.
func read(dir *os.Root, base string, info fs.FileInfo) ([]byte, error) {
	f, err := dir.OpenFile(base, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	opened, err := f.Stat()
	if err != nil || !os.SameFile(info, opened) {
		return nil, err
	}
	return io.ReadAll(io.LimitReader(f, info.Size()+1))
}

func full(dir *os.Root, base string) (bool, error) {
	d, err := dir.Open(base)
	if err != nil {
		return false, err
	}
	defer d.Close()
	_, err = d.Readdirnames(1)
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// Decide says what has to be done. The error is that it cannot be.
func Decide(have State, want Entry) (Change, error) {
	want.Owner = want.Owner.or(have)
	c := Change{Have: have, Want: want}
	switch {
	case want.Kind == Nothing:
		return c.removal()
	case have.Kind == Dir && want.Kind != Dir:
		return c, fmt.Errorf("%s is a directory: %w", want.Name, syscall.EISDIR)
	case have.Kind == Other && want.Kind != Dir:
		return c, errSpecial
	case want.Kind == Link && !(have.Kind == Link && have.Target == want.Target):
		c.Action = MakeLink
	case want.Kind == Link:
	case have.Kind == Nothing && want.Kind == Dir:
		c.Action = Mkdir
	case have.Kind == Nothing:
		c.Action = Create
	case want.Kind == Dir && have.Kind != Dir:
		return c, fmt.Errorf("%s: %w", want.Name, syscall.ENOTDIR)
	case want.Kind == File && !have.holds(want.Content):
		c.Action = Replace
	case have.Owner != want.Owner:
		c.Action = ChangeOwner
	case have.Mode != want.Mode&modeBits:
		c.Action = ChangeMode
	}
	return c, nil
}

func (c Change) removal() (Change, error) {
	switch {
	case c.Have.Kind == Nothing:
		return c, nil
	case c.Have.Full && !c.Want.Tree:
		return c, fmt.Errorf("%s: %w", c.Want.Name, syscall.ENOTEMPTY)
	}
	c.Action = Delete
	return c, nil
}

// holds says whether the state is a regular file with this content.
func (s State) holds(content []byte) bool {
	return s.Kind == File && s.Size == int64(len(content)) && bytes.Equal(s.Content, content)
}

// After is the state once the change is made.
func (c Change) After() State {
	switch {
	case c.Action == None:
		return c.Have
	case c.Want.Kind == Nothing:
		return State{}
	}
	return State{
		Kind: c.Want.Kind, Mode: c.Want.Mode & modeBits, Owner: c.Want.Owner,
		Size: int64(len(c.Want.Content)), Content: c.Want.Content, Target: c.Want.Target,
	}
}

// Do performs the change: wholly or, after an error, not at all; only of a tree that is to
// be removed a part may be gone. Missing parents are made.
func (h FS) Do(c Change) error {
	switch c.Action {
	case None:
		return nil
	case Create, Replace:
		b := h.Batch()
		return errors.Join(b.write(c.Want), b.Flush(), b.Close())
	}
	dir, base, err := h.parent(c.Want.Name, c.Action != Delete)
	if err != nil {
		return err
	}
	defer dir.Close()
	switch c.Action {
	case MakeLink:
		return h.link(dir, base, c.Want.Target)
	case Mkdir:
		return h.mkdir(dir, base, c)
	case Delete:
		return h.remove(dir, base, c.Want.Tree)
	}
	if c.Want.Kind == Dir {
		return h.setDir(c)
	}
	return setFile(dir, base, c)
}
