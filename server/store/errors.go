package store

// This file holds the errors that callers act on.

import (
	"errors"
	"fmt"
)

var (
	// ErrUnchanged is what a change function of Modify returns to write nothing.
	ErrUnchanged = errors.New("unchanged")
	// ErrClosed says that the store is closed.
	ErrClosed = errors.New("the store is closed")
)

// ExistsError says that a document was to be created under a key that has one.
type ExistsError struct{ Collection, Key string }

func (e *ExistsError) Error() string {
	return fmt.Sprintf("create %s/%s: it exists already", e.Collection, e.Key)
}

// NotFoundError says that a document is not there.
type NotFoundError struct{ Collection, Key string }

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("%s/%s does not exist", e.Collection, e.Key)
}

// ConflictError says that a document was changed since it was read: its revision is
// Current where the writer knew Wanted. Read it again and apply the change to that.
type ConflictError struct {
	Collection, Key string
	Wanted, Current int64
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("write %s/%s: it was changed since it was read (revision %d, now %d): read it again",
		e.Collection, e.Key, e.Wanted, e.Current)
}

// DeposedError says that a fenced write was refused since its leadership is gone.
type DeposedError struct{ Name, Identity string }

func (e *DeposedError) Error() string {
	return fmt.Sprintf("%s is no longer the leader %q: nothing was written", e.Identity, e.Name)
}

// TooLargeError says that a transaction is larger than etcd takes: nothing was written.
type TooLargeError struct{ error }

// Unwrap is what says what was to be written.
func (e *TooLargeError) Unwrap() error { return e.error }

// Retry does what reads documents and then writes by them once more when another write got in its way, and returns the error of the
// last of five tries, which may be a *ConflictError.
func Retry(do func() error) error {
	_, err := RetryFor(func() (struct{}, error) { return struct{}{}, do() })
	return err
}

// RetryFor is Retry of what has a result. Its errors are those of Retry.
func RetryFor[T any](do func() (T, error)) (T, error) {
	const tries = 5
	for try := 1; ; try++ {
		t, err := do()
		if _, conflict := errors.AsType[*ConflictError](err); !conflict || try == tries {
			return t, err
		}
	}
}

// RetryNew is Retry that begins again, too, when a document that it makes was made meanwhile. Its errors are those of Retry.
func RetryNew(do func() error) error {
	const tries = 5
	for try := 1; ; try++ {
		err := Retry(do)
		if _, exists := errors.AsType[*ExistsError](err); !exists || try == tries {
			return err
		}
	}
}
