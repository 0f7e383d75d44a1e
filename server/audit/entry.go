// Package audit keeps the audit log of one server: who did what to which object, from where,
// with which result. An entry is a line of JSON in a file below the data directory; a new file
// begins when one is large or a day old, and old ones go (files.go). Refused logins and tokens
// are counted for each source, so that a flood of them is a few lines (sums.go). What could not
// be written is counted, reported, and has a line of its own once there is room again.
//
// The package knows nothing of routes and users: the code that serves requests makes the entries.
package audit

import (
	"slices"
	"strconv"

	"github.com/drover-project/drover/apitypes"
)

// Entry is one line of the log. docs/reference/audit-log.md has the meaning of each field, and a test holds
// that page to this type.
type Entry = apitypes.AuditEntry

// Stage says which part of a request, or of many, an entry is about.
type Stage = apitypes.AuditStage

// Stages.
const (
	Begin = apitypes.AuditBegin
	End   = apitypes.AuditEnd
	Sum   = apitypes.AuditSum
	Gap   = apitypes.AuditGap
)

// Class is what sort of a request an entry is about; levels are made of them.
type Class int

// Classes. A request that is refused for want of rights is recorded from level 1 on, in any class.
const (
	// Change changes something, WayIn is the use of a way into a host or a cluster: from level 1 on.
	Change Class = iota
	WayIn
	// Read is of people, Agent anything of an agent or another server: from level 2 on.
	Read
	Agent
)

// Level is how much is recorded.
type Level int

// Levels, as the setting audit-level has them.
const (
	Off Level = iota
	Changes
	Reads
	Bodies
)

// LevelOf reads the setting; what is none is Changes, so that a mistake records more and not less.
func LevelOf(text string) Level {
	if n, err := strconv.Atoi(text); err == nil && n >= int(Off) && n <= int(Bodies) {
		return Level(n)
	}
	return Changes
}

// Takes says whether a level records a class.
func (l Level) Takes(c Class) bool {
	switch c {
	case Change, WayIn:
		return l >= Changes
	case Read, Agent:
	}
	return l >= Reads
}

// counted says whether requests like this one are counted when they come often: those that were refused for
// who asked or how often, and all of users that are not known.
func counted(c Class, e Entry) bool {
	if refused(e) {
		return true
	}
	return e.User == "" && (c != Agent || e.Status >= 400)
}

// refused says whether a request was refused for who asked, or how often. What is hidden from them is answered
// as if it did not exist.
func refused(e Entry) bool {
	return slices.Contains([]int{401, 403, 429}, e.Status) || e.Code == codeDenied
}

// codeDenied is the code of a request that the caller has no right to.
const codeDenied = "PermissionDenied"
