// Servers: tunnels, workers, backups.

package apitypes

import "time"

// Tunnel is one open tunnel of a host.
type Tunnel struct {
	Subject     string    `json:"subject"`
	Kind        string    `json:"kind"`
	Machine     string    `json:"machine"` // <namespace>/<name>
	Host        string    `json:"host"`
	Cluster     string    `json:"cluster"`
	Server      string    `json:"server"` // URL of the server that it ends at
	Remote      string    `json:"remote"`
	Agent       string    `json:"agent,omitempty"` // release of drover; absent when it is not known
	Protocol    string    `json:"protocol"`
	Since       time.Time `json:"since"`
	LastHeard   time.Time `json:"lastHeard"`
	Healthy     bool      `json:"healthy"`
	Connections int       `json:"connections"`
	Paused      int       `json:"paused"`
	Dials       int64     `json:"dials"`
	Failures    int64     `json:"failures"`
	BytesIn     int64     `json:"bytesIn"`
	BytesOut    int64     `json:"bytesOut"`
}

// Tunnels is the answer with all tunnels; Silent says of servers that did not answer why.
type Tunnels struct {
	Data   []Tunnel          `json:"data"`
	Silent map[string]string `json:"silent"`
}

// Worker is what a worker does on one server.
type Worker struct {
	// Server is its URL.
	Server string `json:"server"`
	WorkerStatus
}

// Workers is the answer with the workers of all servers; Silent says of servers that did not answer why.
type Workers struct {
	Data   []Worker          `json:"data"`
	Silent map[string]string `json:"silent"`
}

// WorkerStatus is what is known of a worker on this server. Counts are since the server started.
type WorkerStatus struct {
	Name       string   `json:"name"`
	Title      string   `json:"title"`
	Watches    []string `json:"watches"`
	Everywhere bool     `json:"everywhere,omitempty"`
	// Running says that it runs on this server, since Since.
	Running bool      `json:"running"`
	Since   time.Time `json:"since,omitzero"`
	// Keys is how many keys there are, Queued how many of them wait for their turn, and Working which are worked on, oldest first.
	Keys    int          `json:"keys"`
	Queued  int          `json:"queued"`
	Working []WorkingKey `json:"working,omitempty"`
	// Waits and Faults are of the keys that wait or failed last, oldest first; Waiting and Failing count all of them.
	Waits   []WorkerWait  `json:"waits,omitempty"`
	Faults  []WorkerFault `json:"faults,omitempty"`
	Waiting int           `json:"waiting,omitempty"`
	Failing int           `json:"failing,omitempty"`

	Succeeded   uint64        `json:"succeeded"`
	Failed      uint64        `json:"failed,omitempty"`
	Retries     uint64        `json:"retries,omitempty"`
	Latency     time.Duration `json:"latency"` // the sum of how long keys waited for their turn, in nanoseconds
	LastSuccess time.Time     `json:"lastSuccess,omitzero"`
	LastFault   *WorkerFault  `json:"lastFault,omitempty"`
}

// WorkingKey is a key that is worked on.
type WorkingKey struct {
	Key   string    `json:"key"`
	Since time.Time `json:"since"`
}

// WorkerWait is what a key waits for.
type WorkerWait struct {
	Key string `json:"key"`
	Waiting
}

// Waiting is why a key waits.
type Waiting struct {
	// Object is what cannot go on, such as "cluster fleet-default/c1", and Host where, if it is a host that is waited for.
	Object string `json:"object"`
	Host   string `json:"host,omitempty"`
	// Cause is why, as a sentence without a full stop.
	Cause string `json:"cause"`
	// Since is filled in by the runtime: when the key began to wait for the same.
	Since time.Time `json:"since"`
}

// WorkerFault is a failure of a key.
type WorkerFault struct {
	Key   string    `json:"key"`
	Error string    `json:"error"`
	At    time.Time `json:"at"`
}

// BackupStatus is how scheduled backups stand.
type BackupStatus struct {
	// Dir is absent when none are made.
	Dir   string `json:"dir,omitempty"`
	Every string `json:"every,omitempty"`
	Keep  int    `json:"keep,omitempty"`
	// Encrypted and Keys say what they are like.
	Encrypted bool `json:"encrypted"`
	Keys      bool `json:"keys"`
	// Files are those there are, newest first.
	Files []BackupFile `json:"files"`
	// Offsite is the bucket that gets them, too.
	Offsite *BackupBucket `json:"offsite,omitempty"`
	// Failure is why the last attempt failed, at FailedAt; absent when it did not, or none was made since the server started.
	Failure  string    `json:"failure,omitempty"`
	FailedAt time.Time `json:"failedAt,omitzero"`
	// Next is when the next one is made; absent while none are.
	Next time.Time `json:"next,omitzero"`
	// Well says that the last attempt did not fail, that the newest file is not older than two times Every, and that the bucket has it,
	// if there is one.
	Well bool `json:"well"`
}

// BackupFile is the file of a backup.
type BackupFile struct {
	Name string    `json:"name"`
	Made time.Time `json:"made"`
	Size int64     `json:"size"`
}

// BackupBucket is how a bucket of backups stands.
type BackupBucket struct {
	// Place is the bucket, with its endpoint.
	Place string `json:"place"`
	// Files are the backups in the bucket at the end of the last attempt that succeeded, newest first; LookedAt is when that was, zero
	// before the first since the server started.
	Files    []BackupFile `json:"files"`
	LookedAt time.Time    `json:"lookedAt,omitzero"`
}
