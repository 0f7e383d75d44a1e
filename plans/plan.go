// Package plans says what a plan is: the JSON document that a server hands to the
// system agent of a host, the codecs of everything the agent reports back, and the
// states a plan walks through. It is the one vocabulary that servers and agents
// share, Rancher's included, so it stands on the standard library alone and keeps
// the oddities of the wire (gzip around JSON around base64, times as text) inside.
//
// Wire source: rancher/system-agent and the plan types of rancher/rancher pkg/plan.
package plans

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"strconv"
	"time"
)

// SecretType is the type of the Kubernetes Secret that carries a plan down and its outcome up.
const SecretType = "rke.cattle.io/machine-plan"

// Plan is the complete desired state of one host.
type Plan struct {
	// Files are brought to the wanted state in order, before any instruction runs.
	Files []File `json:"files,omitempty"`
	// Instructions run once for each delivery, in order; the first failure ends the run.
	Instructions []OneTimeInstruction `json:"instructions,omitempty"`
	// Probes are asked again and again once the plan is applied; the key is the probe's name.
	Probes map[string]Probe `json:"probes,omitempty"`
	// PeriodicInstructions run again whenever their period is over.
	PeriodicInstructions []PeriodicInstruction `json:"periodicInstructions,omitempty"`
	// Error is the server's own bookkeeping (Rancher's NodePlan writes it); agents ignore it.
	Error string `json:"error,omitempty"`
}

// File is a file or directory wanted on the host, or unwanted when Action is ActionDelete.
type File struct {
	// Path is absolute.
	Path string `json:"path,omitempty"`
	// Content is standard padded base64 of the file's bytes; unused for directories.
	Content string `json:"content,omitempty"`
	// Directory asks for a directory instead of a regular file.
	Directory bool `json:"directory,omitempty"`
	// Permissions are octal digits ("0644"); empty means 0600 for files and 0755 for directories.
	Permissions string `json:"permissions,omitempty"`
	// UID and GID are numeric owners; -1 leaves that id as it is.
	UID int `json:"uid,omitempty"`
	GID int `json:"gid,omitempty"`
	// Action is ActionDelete, or anything else for "create".
	Action string `json:"action,omitempty"`
	// Dynamic excludes the file from the server's restart stamp and drain hash. Agents ignore it.
	Dynamic bool `json:"dynamic,omitempty"`
	// Minor lets the server deliver a change of this file without drain and concurrency limits. Agents ignore it.
	Minor bool `json:"minor,omitempty"`
}

// ActionDelete as a File's Action removes the path; with Directory it removes the whole tree.
const ActionDelete = "delete"

// Instruction is what one-time and periodic instructions have in common.
type Instruction struct {
	// Name is the key under which output is reported.
	Name string `json:"name,omitempty"`
	// Image is an OCI image unpacked into the working directory; empty means an empty directory.
	Image string `json:"image,omitempty"`
	// Command is looked up in the agent's PATH; empty means run.sh of the working directory.
	Command string `json:"command,omitempty"`
	// Args are the arguments after the command; no shell is involved.
	Args []string `json:"args,omitempty"`
	// Env are K=V entries added to the command's environment.
	Env []string `json:"env,omitempty"`
	// Script is text to run instead of Command, by the interpreter its first line names.
	// Only newer servers write it and the original agent v0.15 ignores it.
	Script string `json:"script,omitempty"`
}

// OneTimeInstruction runs once for each delivery of a plan.
type OneTimeInstruction struct {
	Instruction
	// SaveOutput asks for the output to be reported under Name.
	SaveOutput bool `json:"saveOutput,omitempty"`
}

// PeriodicInstruction runs again and again.
type PeriodicInstruction struct {
	Instruction
	// PeriodSeconds is the least distance between two successful runs; 0 means 600.
	PeriodSeconds int `json:"periodSeconds,omitempty"`
	// SaveStderrOutput asks for stderr to be reported too; stdout always is.
	SaveStderrOutput bool `json:"saveStderrOutput,omitempty"`
}

// Period is the distance between two successful runs.
func (p PeriodicInstruction) Period() time.Duration {
	return secondsOr(p.PeriodSeconds, 600)
}

// Probe is a health question that the agent asks on its own host, of one kind: httpGet or systemd.
type Probe struct {
	Name                string  `json:"name,omitempty"`
	InitialDelaySeconds int     `json:"initialDelaySeconds,omitempty"` // default 0
	TimeoutSeconds      int     `json:"timeoutSeconds,omitempty"`      // default 1
	SuccessThreshold    int     `json:"successThreshold,omitempty"`    // default 1
	FailureThreshold    int     `json:"failureThreshold,omitempty"`    // default 3
	HTTPGetAction       HTTPGet `json:"httpGet,omitzero"`
	// Systemd asks for the state of a unit. Only drover's agent knows it: to the original
	// agent v0.15 such a probe has an empty URL, and stays as it is for ever.
	Systemd *SystemdUnit `json:"systemd,omitempty"`
}

// SystemdUnit is a probe by the state of a unit.
type SystemdUnit struct {
	// Unit is the full name, for example k3s.service.
	Unit string `json:"unit"`
	// State is the ActiveState that is a success; empty means active.
	State string `json:"state,omitempty"`
}

// Wanted is the state that is a success.
func (u SystemdUnit) Wanted() string {
	if u.State == "" {
		return "active"
	}
	return u.State
}

// HTTPGet is a probe by one GET; statuses 200 to 299 are a success.
type HTTPGet struct {
	URL        string `json:"url,omitempty"`
	Insecure   bool   `json:"insecure,omitempty"`   // skip verification; the three files below are then unused
	ClientCert string `json:"clientCert,omitempty"` // path on the host
	ClientKey  string `json:"clientKey,omitempty"`  // path on the host
	CACert     string `json:"caCert,omitempty"`     // path on the host
}

// Timeout is the limit of the whole request; absent means one second.
func (p Probe) Timeout() time.Duration { return secondsOr(p.TimeoutSeconds, 1) }

// InitialDelay is how long after an apply the first question waits.
func (p Probe) InitialDelay() time.Duration { return secondsOr(p.InitialDelaySeconds, 0) }

// Successes is the number of successes in a row that make the probe healthy.
func (p Probe) Successes() int { return countOr(p.SuccessThreshold, 1) }

// Failures is the number of failures in a row that make the probe unhealthy.
func (p Probe) Failures() int { return countOr(p.FailureThreshold, 3) }

// secondsOr clamps at 68 years, which no plan outlives: a Duration ends not far above.
func secondsOr(n, absent int) time.Duration {
	return time.Duration(min(countOr(n, absent), math.MaxInt32)) * time.Second
}

func countOr(n, absent int) int {
	if n <= 0 {
		return absent
	}
	return n
}

// Bytes decodes Content. Content that is not base64 is an error.
func (f File) Bytes() ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(f.Content)
	if err != nil {
		return nil, fmt.Errorf("content is not standard padded base64: %w", err)
	}
	return b, nil
}

// Mode is the wanted permission bits, setuid, setgid and sticky included, or the default for the kind of entry. The error says that the text is no
// octal mode.
func (f File) Mode() (fs.FileMode, error) {
	if f.Permissions == "" {
		if f.Directory {
			return 0o755, nil
		}
		return 0o600, nil
	}
	n, err := strconv.ParseUint(f.Permissions, 8, 32)
	if err != nil || n > 0o7777 {
		return 0, fmt.Errorf("%q is not an octal mode such as 0644", f.Permissions)
	}
	mode := fs.FileMode(n & 0o777)
	for bit, flag := range map[uint64]fs.FileMode{0o4000: fs.ModeSetuid, 0o2000: fs.ModeSetgid, 0o1000: fs.ModeSticky} {
		if n&bit != 0 {
			mode |= flag
		}
	}
	return mode, nil
}

// EncodeContent makes the Content of a File from its bytes.
func EncodeContent(b []byte) string { return base64.StdEncoding.EncodeToString(b) }

// Marshal renders the plan as the bytes that go on the wire. Equal plans give equal bytes. Its error is that of encoding/json.
func (p Plan) Marshal() ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode plan: %w", err)
	}
	return b, nil
}

// LongestDelay is when all probes of a plan can be asked, counted from the end of its apply.
func (p *Plan) LongestDelay() time.Duration {
	longest := time.Duration(0)
	for _, probe := range p.Probes {
		longest = max(longest, probe.InitialDelay())
	}
	return longest
}
