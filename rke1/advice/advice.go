// Package advice is what people can do about an error or a warning of the engine, as values. Who shows it has the words: the command
// line its commands over SSH, a server those that go to it.
package advice

import (
	"slices"
	"strings"
)

// Kind is a sort of step.
type Kind int

// The steps that there are. Steps that go on finish what was interrupted.
const (
	// BringUp brings the cluster to its config first.
	BringUp Kind = iota + 1
	// ResumeRestore goes on with the restore of Snapshot, ResumeCA with the rotation of the CA, ResumeCertificates with that of the certificates
	// of Services, all when there are none, and ResumeKey with that of the encryption key.
	ResumeRestore
	ResumeCA
	ResumeCertificates
	ResumeKey
	// DropLostHosts takes hosts that are lost out of the cluster.
	DropLostHosts
	// OtherName gives a snapshot another name.
	OtherName
	// KeepState restores with the state that is here, SnapshotsState with that of the snapshot.
	KeepState
	SnapshotsState
	// Encrypt turns encryption of Secrets on, and EncryptMeanwhile for as long as a restore takes.
	Encrypt
	EncryptMeanwhile
	// AllHosts works on all hosts and not on the workers alone.
	AllHosts
	// TakeSnapshot takes a snapshot at once.
	TakeSnapshot
	// RenewCertificates issues certificates again that end.
	RenewCertificates
)

// Step is something that a person can do.
type Step struct {
	Kind Kind
	// Snapshot is the name of one, and Services are those whose certificates are renewed, where the kind says so.
	Snapshot string
	Services []string
}

// Words say a step, in a clause.
type Words func(Step) string

// advised is an error with a step.
type advised struct {
	error
	step Step
}

func (a *advised) Unwrap() error { return a.error }

// With is an error with what can be done about it, which is not in its text.
func With(err error, s Step) error { return &advised{err, s} }

// Of are the steps of an error and of those that it wraps, the outermost first, each once.
func Of(err error) []Step {
	var all []Step
	if a, ok := err.(*advised); ok { //nolint:errorlint // each layer is looked at by itself
		all = append(all, a.step)
	}
	switch w := err.(type) { //nolint:errorlint // unwraps
	case interface{ Unwrap() error }:
		all = append(all, Of(w.Unwrap())...)
	case interface{ Unwrap() []error }:
		for _, e := range w.Unwrap() {
			all = append(all, Of(e)...)
		}
	}
	var once []Step
	for _, s := range all {
		if !slices.ContainsFunc(once, s.same) {
			once = append(once, s)
		}
	}
	return once
}

func (s Step) same(other Step) bool {
	return s.Kind == other.Kind && s.Snapshot == other.Snapshot && slices.Equal(s.Services, other.Services)
}

// Sentence is a text with its steps in the words of a program. Steps without words are left out.
func Sentence(text string, steps []Step, words Words) string {
	var said []string
	for _, s := range steps {
		if clause := words(s); clause != "" {
			said = append(said, clause)
		}
	}
	if len(said) == 0 {
		return text
	}
	return text + ": " + strings.Join(said, "; ")
}

// worded is an error in the words of a program.
type worded struct {
	error
	text string
}

func (w *worded) Error() string { return w.text }
func (w *worded) Unwrap() error { return w.error }

// Error is an error whose text has its steps in the words of a program; one without steps is returned as it is.
func Error(err error, words Words) error {
	if err == nil {
		return nil
	}
	text := Sentence(err.Error(), Of(err), words)
	if text == err.Error() {
		return err
	}
	return &worded{err, text}
}
