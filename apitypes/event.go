// Events: changes of states; and the audit log.

package apitypes

import (
	"encoding/json"
	"time"
)

// Event is that a thing came from one state into another.
type Event struct {
	Type string `json:"type"` // event
	// ID sorts as events do.
	ID        string    `json:"id"`
	Revision  int64     `json:"revision"`
	At        time.Time `json:"at"`
	Cluster   string    `json:"clusterName"`
	ClusterID string    `json:"clusterId"`
	// Kind is cluster, machine, operation or rehearsal; Key is "<namespace>/<name>", of an operation its id behind that
	// of the cluster, of a rehearsal the cluster's, and Name what people call it: a machine's node or host, the snapshot of a rehearsal.
	Kind string `json:"kind"`
	Key  string `json:"key"`
	Name string `json:"name"`
	// From is absent for what is new.
	From  string `json:"from,omitempty"`
	To    string `json:"to"`
	Code  string `json:"code,omitempty"`
	Cause string `json:"cause,omitempty"`
}

// Audit is a part of the audit log of the server that was asked; others have logs of their own.
type Audit struct {
	// Server is its name, Level the setting audit-level.
	Server string `json:"server"`
	Level  int    `json:"level"`
	// Data are the newest entries that were wanted, oldest first, and More says that there are older ones.
	Data []AuditEntry `json:"data"`
	More bool         `json:"more,omitempty"`
	// Torn is how many lines were skipped that are no entry, as they were cut off when a server was killed.
	Torn int `json:"torn,omitempty"`
	// Lost is how many entries could not be written since the server started.
	Lost int64 `json:"lost,omitempty"`
}

// AuditEntry is one line of the log. docs/reference/audit-log.md has the meaning of each field, and a test holds
// that page to this type.
type AuditEntry struct {
	// ID is the request's; the begin and the end of a long one share it.
	ID string `json:"id"`
	// Time is when the request began, in UTC; of a sum and of a gap, when the first of those that are counted was.
	Time time.Time `json:"time"`
	// Server is the name of the server that wrote the line.
	Server string `json:"server"`
	// Stage is empty for a request that is over.
	Stage AuditStage `json:"stage,omitempty"`
	// User is the ID of the caller, Username the login name, Token the name of the token; all are empty of a caller who is not
	// known. The name of a token that was refused is there if such a token exists.
	User     string `json:"user,omitempty"`
	Username string `json:"username,omitempty"`
	Token    string `json:"token,omitempty"`
	// As is the user whom the caller acts as in a cluster, by kubectl --as.
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

// AuditStage says which part of a request, or of many, an entry is about.
type AuditStage string

// Stages.
const (
	// Begin and End are of requests that last: a watch, a shell, a connection to a host.
	AuditBegin AuditStage = "begin"
	AuditEnd   AuditStage = "end"
	// Sum counts requests that were refused like one shortly before.
	AuditSum AuditStage = "sum"
	// Gap counts entries that could not be written.
	AuditGap AuditStage = "gap"
)
