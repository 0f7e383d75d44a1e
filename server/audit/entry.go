// Package audit keeps the audit log of one server: who did what to which object, from where,
// with which result. An entry is a line of JSON in a file below the data directory; a new file
// begins when one is large or a day old, and old ones go (files.go). Refused logins and tokens
// are counted for each source, so that a flood of them is a few lines (sums.go). What could not
// be written is counted, reported, and has a line of its own once there is room again.
//
// The package knows nothing of routes and users: whoever serves requests makes the entries.
package audit

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"
)

// Entry is one line of the log. docs/audit.md has the meaning of each field, and a test holds
// that page to this type.
type Entry struct {
	// ID is the request's; the begin and the end of a long one share it.
	ID string `json:"id"`
	// Time is when the request began, in UTC; of a sum and of a gap, when the first of those that are counted was.
	Time time.Time `json:"time"`
	// Server is the name of the server that wrote the line.
	Server string `json:"server"`
	// Stage is empty for a request that is over.
	Stage Stage `json:"stage,omitempty"`
	// User is the id of who asked, Username their login name, Token the name of their token; all
	// are empty where nobody is known. Of a token that was refused the name is there if there is one of it.
	User     string `json:"user,omitempty"`
	Username string `json:"username,omitempty"`
	Token    string `json:"token,omitempty"`
	// As is whom somebody acts as in a cluster, as kubectl --as has it.
	As string `json:"as,omitempty"`
	// Source is the address of the client, as the server sees it through proxies that it trusts;
	// of a sum the IPv4 address or the /64 of an IPv6 one that was counted.
	Source string `json:"source,omitempty"`
	// Verb, Kind and Object are what was done to what, in the words of the table of routes.
	Verb   string `json:"verb,omitempty"`
	Kind   string `json:"kind,omitempty"`
	Object string `json:"object,omitempty"`
	Method string `json:"method,omitempty"`
	Path   string `json:"path,omitempty"`
	// Query are those parameters of the request that cannot hold a secret.
	Query map[string]string `json:"query,omitempty"`
	// Status is the HTTP status, 0 at the begin of a long request; Code is the error's.
	Status int    `json:"status,omitempty"`
	Code   string `json:"code,omitempty"`
	// Millis is how long the request took, in milliseconds.
	Millis int64 `json:"durationMs,omitempty"`
	// BytesIn and BytesOut are what was carried from and to the client, where that is counted.
	BytesIn  int64 `json:"bytesIn,omitempty"`
	BytesOut int64 `json:"bytesOut,omitempty"`
	// Body is the body of the request with all but harmless values masked; level 3 alone.
	Body json.RawMessage `json:"body,omitempty"`
	// Count is how many requests a sum counts, or entries a gap.
	Count int `json:"count,omitempty"`
	// Until is when the last of those was.
	Until *time.Time `json:"until,omitempty"`
}

// Stage says which part of a request, or of many, an entry is about.
type Stage string

// Stages.
const (
	// Begin and End are of requests that last: a watch, a shell, a connection to a host.
	Begin Stage = "begin"
	End   Stage = "end"
	// Sum counts requests that were refused like one shortly before.
	Sum Stage = "sum"
	// Gap counts entries that could not be written.
	Gap Stage = "gap"
)

// Class is what sort of a request an entry is about; levels are made of them.
type Class int

// Classes. A request that is refused for want of rights is recorded from level 1 on, whatever its class is.
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
// who asked or how often, and all of nobody that is known.
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

// codeDenied is the code of a request that somebody has no right to.
const codeDenied = "PermissionDenied"
