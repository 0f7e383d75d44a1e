// Package status is what the agent says of itself to people on its host: a value with
// everything that it does and waits for, a socket that only root can ask, and the words
// in which a terminal shows it.
package status

import "time"

// Status is how an agent stands. As JSON it is the answer of GET /v1/status. Times are the host's, in UTC.
type Status struct {
	Version string `json:"version"`
	PID     int    `json:"pid"`
	// Config is the configuration file, Ledgers the directory of the ledgers, which no two agents may share.
	Config  string    `json:"config"`
	Ledgers string    `json:"ledgers"`
	Started time.Time `json:"started"`
	Now     time.Time `json:"now"`
	// Doing is the plan that is being applied; nil when none is.
	Doing *Work `json:"doing,omitempty"`
	// Last is the plan whose apply ended last; nil when none is known.
	Last *Applied `json:"last,omitempty"`
	// Waiting is what stands between the agent and its work.
	Waiting []Wait `json:"waiting"`
	// Faults are parts of the agent that ended and are started again.
	Faults      []Fault      `json:"faults"`
	Connections []Connection `json:"connections"`
	Sources     []Source     `json:"sources"`
	Probes      []Probe      `json:"probes"`
	Periodic    []Periodic   `json:"periodic"`
	// PutBack are files that had been changed and that are as their plan wants them again, newest last.
	PutBack []File `json:"putBack"`
	// Failures are the last, newest last, those of earlier lives of the agent too.
	Failures []Failure `json:"failures"`
}

// Work is a plan on its way.
type Work struct {
	Source string    `json:"source"`
	Plan   string    `json:"plan"` // its checksum
	Began  time.Time `json:"began"`
	// Resumed says that an earlier life of the agent began it.
	Resumed bool `json:"resumed,omitempty"`
	// Step is what is done now, for example "instruction install", and Since when.
	Step  string    `json:"step"`
	Since time.Time `json:"since"`
	// Attempt is that of the instruction.
	Attempt int `json:"attempt,omitempty"`
	// Progress is the last that was heard of a step that takes long.
	Progress string `json:"progress,omitempty"`
	// Remaining is the work left, one line each, in order, with what is done now.
	Remaining []string `json:"remaining"`
}

// Applied is a plan whose apply ended.
type Applied struct {
	Source    string    `json:"source"`
	Plan      string    `json:"plan"` // its checksum
	Ended     time.Time `json:"ended"`
	Succeeded bool      `json:"succeeded"`
	// Reason and ExitCode say why it failed.
	Reason   string `json:"reason,omitempty"`
	ExitCode int    `json:"exitCode,omitempty"`
	// BeforeStart says that it ended in an earlier life of the agent.
	BeforeStart bool `json:"beforeStart,omitempty"`
}

// Wait is something that stands in the way.
type Wait struct {
	Source string    `json:"source"`
	For    string    `json:"for"`
	Cause  string    `json:"cause"`
	Since  time.Time `json:"since"`
	Next   string    `json:"next"`
}

// Fault is a part of the agent that does not work.
type Fault struct {
	Part  string    `json:"part"`
	Error string    `json:"error"`
	Since time.Time `json:"since"`
}

// Connection is a way to the server.
type Connection struct {
	Name      string    `json:"name"` // "plan Secret" or "tunnel"
	Server    string    `json:"server"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Error     string    `json:"error,omitempty"`
	Next      time.Time `json:"next,omitzero"` // attempt
}

// Source is where plans come from: the server, or one dropped file.
type Source struct {
	Name     string    `json:"name"`
	Plan     string    `json:"plan,omitempty"` // its checksum
	State    string    `json:"state"`
	Reason   string    `json:"reason,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Failures int       `json:"failures,omitempty"` // in a row
	Next     time.Time `json:"next,omitzero"`      // try
}

// Probe is what was found of one probe.
type Probe struct {
	Source  string `json:"source"`
	Name    string `json:"name"`
	Healthy bool   `json:"healthy"`
	// Reason is why the last question failed; empty when it succeeded or was not asked yet.
	Reason string `json:"reason,omitempty"`
	// Since is when Healthy became so, as far as this life of the agent knows.
	Since time.Time `json:"since"`
}

// Periodic is one periodic instruction.
type Periodic struct {
	Source      string    `json:"source"`
	Name        string    `json:"name"`
	LastSuccess time.Time `json:"lastSuccess,omitzero"`
	LastFailure time.Time `json:"lastFailure,omitzero"`
	ExitCode    int       `json:"exitCode,omitempty"` // of the last run
	Failures    int       `json:"failures,omitempty"` // in a row
	Next        time.Time `json:"next,omitzero"`
}

// File is a file and when something happened to it.
type File struct {
	Source string    `json:"source"`
	Path   string    `json:"path"`
	Time   time.Time `json:"time"`
}

// Failure is a plan or a periodic instruction that failed.
type Failure struct {
	Source      string    `json:"source"`
	Plan        string    `json:"plan,omitempty"` // its checksum
	Time        time.Time `json:"time"`
	Instruction string    `json:"instruction,omitempty"`
	Reason      string    `json:"reason"`
	ExitCode    int       `json:"exitCode"`
	Output      string    `json:"output,omitempty"` // its end
	// Times is how often it failed this way one after another, the last time at Time; 0 is once.
	Times int `json:"times,omitempty"`
	// BeforeStart says that it was in an earlier life of the agent.
	BeforeStart bool `json:"beforeStart,omitempty"`
}
