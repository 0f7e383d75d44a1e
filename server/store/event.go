package store

// This file holds events: what observers get of a change. None is kept: thousands of
// documents that change at once would otherwise be held as they were before.

import "fmt"

// EventType is what happened to a document.
type EventType int

const (
	// Put says that the document was created or replaced.
	Put EventType = iota + 1
	// Deleted says that it was removed.
	Deleted
)

// String is "put" or "deleted".
func (t EventType) String() string {
	switch t {
	case Put:
		return "put"
	case Deleted:
		return "deleted"
	default:
		return fmt.Sprintf("event type %d", int(t))
	}
}

// Event is one change of a document. Values are shared: never change them.
type Event[T any] struct {
	Type EventType
	Key  string
	// Revision is the revision of the change; for Deleted that of the deletion.
	Revision int64
	// Value is the new value, for Deleted the last one.
	Value T
	// Old is the value before, nil when the document was created.
	Old *T
}
