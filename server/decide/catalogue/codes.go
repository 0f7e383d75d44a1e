// Package catalogue is the catalogue of causes: one row for everything that a machine or a cluster
// may wait for or fail by, with a code that programs compare and words that help people.
// The words are those of docs/reference/causes.md.
package catalogue

// Code names a row of the catalogue.
type Code string

// The codes. They are stable: programs and links use them.
const (
	NoVersion      Code = "no-version"
	UnknownVersion Code = "unknown-version"
	MissingRoles   Code = "missing-roles"
	TokensLost     Code = "tokens-lost"
	EtcdReplaced   Code = "etcd-replaced"
	RestoreFailed  Code = "restore-not-finished"
	NoControlPlane Code = "no-control-plane"
	BadSpec        Code = "spec-not-renderable"
	PinnedMissing  Code = "pinned-machine-missing"

	WaitBootstrap    Code = "wait-bootstrap"
	WaitEtcd         Code = "wait-etcd"
	WaitControlPlane Code = "wait-control-plane"
	WaitVoter        Code = "wait-voter"
	WaitUpgrade      Code = "wait-upgrade"
	WaitTier         Code = "wait-tier"
	WaitBudget       Code = "wait-budget"
	Duplicate        Code = "duplicate"
	WaitQuorum       Code = "wait-quorum"
	WaitGiven        Code = "wait-plan-turn"
	WaitOperation    Code = "wait-operation"
	WaitWindow       Code = "wait-window"
	WaitSnapshot     Code = "wait-snapshot"
	NoPlan           Code = "no-plan"
	Paused           Code = "paused"
	Halted           Code = "halted"
	Exported         Code = "exported"
	ImportedTwice    Code = "imported-twice"

	Delivering    Code = "delivering"
	AgentAbsent   Code = "agent-absent"
	AgentNotTaken Code = "agent-not-taken"
	Applying      Code = "applying"
	PlanFailed    Code = "plan-failed"
	BadReport     Code = "report-not-readable"
	Retrying      Code = "retrying"
	Probes        Code = "probes"

	NoAPI          Code = "no-api"
	NoNode         Code = "no-node"
	NoProviderID   Code = "no-provider-id"
	NodeNotReady   Code = "node-not-ready"
	KubeletVersion Code = "kubelet-version"
	StaleNode      Code = "stale-node"
	OutOfSight     Code = "out-of-sight"
	HostLost       Code = "host-lost"
	AgentLost      Code = "agent-lost"
	QuorumLost     Code = "quorum-lost"
	UnitDown       Code = "unit-down"

	Draining     Code = "draining"
	DrainHook    Code = "drain-hook"
	Uncordoning  Code = "uncordoning"
	UncordonHook Code = "uncordon-hook"

	LeavingJoined  Code = "leaving-joined"
	LeavingLast    Code = "leaving-last-etcd"
	LeavingQuorum  Code = "leaving-quorum"
	LeavingNode    Code = "leaving-node"
	Uninstalling   Code = "uninstalling"
	UninstallAway  Code = "uninstall-agent-absent"
	UninstallError Code = "uninstall-failed"
	LeavingOrder   Code = "leaving-order"

	RKE1Running Code = "rke1-running"
	RKE1Failed  Code = "rke1-failed"

	CertificatesEnding Code = "certificates-ending"
	CertificatesEnded  Code = "certificates-ended"
	SnapshotFailed     Code = "snapshot-failed"

	// Docker hosts.
	DockerRegistering  Code = "docker-registering"
	DockerDisconnected Code = "docker-disconnected"
)
