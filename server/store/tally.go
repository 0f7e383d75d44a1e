package store

// This file holds tallies, which count documents and their bytes for each owner, and what is asked before a write: both are for quotas.

// leastBytes is what a document counts as at least: that much is held for a small one, too.
const leastBytes = 1 << 10

// Sum is how many documents there are, and the bytes of their JSON, before compression; each counts as 1 KiB at least.
type Sum struct {
	Documents int
	Bytes     int64
}

// Tally sums up the documents of a collection, together and for each owner, as its view has them.
type Tally[T any] struct {
	collection *Collection[T]
	owner      func(*T) (owner string, counts bool)
	sums       map[string]Sum
	all        Sum
}

// NewTally makes a tally of a collection. The function says who owns a value, and whether it counts at all; it must depend on
// nothing but the value.
func NewTally[T any](c *Collection[T], owner func(*T) (owner string, counts bool)) *Tally[T] {
	t := &Tally[T]{collection: c, owner: owner, sums: make(map[string]Sum)}
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, d := range c.documents {
		t.replace(nil, d, 0, c.sizes[key])
	}
	c.indexes = append(c.indexes, t)
	return t
}

// Of is what an owner has.
func (t *Tally[T]) Of(owner string) Sum { return t.read(func() Sum { return t.sums[owner] }) }

// All is what all have together.
func (t *Tally[T]) All() Sum { return t.read(func() Sum { return t.all }) }

func (t *Tally[T]) read(sum func() Sum) Sum {
	t.collection.mu.RLock()
	defer t.collection.mu.RUnlock()
	return sum()
}

func (t *Tally[T]) replace(before, after *Document[T], had, has int) {
	t.add(before, -1, had)
	t.add(after, 1, has)
}

func (t *Tally[T]) add(d *Document[T], sign, size int) {
	if d == nil {
		return
	}
	owner, counts := t.owner(&d.Value)
	if !counts {
		return
	}
	more := Sum{Documents: sign, Bytes: int64(sign) * weight(size)}
	t.all = t.all.plus(more)
	if sum := t.sums[owner].plus(more); sum.Documents > 0 {
		t.sums[owner] = sum
	} else {
		delete(t.sums, owner)
	}
}

func (s Sum) plus(o Sum) Sum { return Sum{s.Documents + o.Documents, s.Bytes + o.Bytes} }

func weight(size int) int64 { return int64(max(size, leastBytes)) }

// Write is a document that a Commit creates or updates.
type Write struct {
	// Of is its collection, and Value what is written, of the collection's type.
	Of    Bindable
	Value any
	// New says that there is none of its key, and Grows by how many bytes its JSON becomes larger, counted as in a Sum.
	New   bool
	Grows int64
}

// write is what an op is to Options.Check, whose JSON has that many bytes.
func (op Op) write(bytes int) Write {
	w := Write{Of: op.collection, Value: op.value, New: true, Grows: weight(bytes)}
	if is, ok := op.collection.size(op.key); ok {
		w.New, w.Grows = false, w.Grows-weight(is)
	}
	return w
}
