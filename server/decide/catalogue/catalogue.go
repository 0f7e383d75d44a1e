// The table: what each code means, and what a person does about it.

package catalogue

// Kind orders causes: what comes first in a cluster is not there because of what comes after it.
type Kind int

// The kinds, first cause first.
const (
	// Failure is something that goes on only with a change, or by trying again.
	Failure Kind = iota
	// Loss is a host, an agent or a node that worked, or that should be there, and is not.
	Loss
	// Work is under way and goes on by itself.
	Work
	// Turn is a wait for other machines, or for a person.
	Turn
)

// Row is one cause.
type Row struct {
	Code Code
	// Cluster says that the cause is the whole cluster's: all of its machines show it.
	Cluster bool
	Kind    Kind
	// Host says that the log of the distribution on the machine's host may show more.
	Host bool
	// Title is a few words, Explanation what it means, Fix what a person does; in Markdown. NAME in Fix stands
	// for the machine or the cluster, UNIT for the distribution's systemd unit.
	Title, Explanation, Fix string
}

// Docs is the place of the row in the documentation.
func (r Row) Docs() string { return "docs/reference/causes.md#" + string(r.Code) }

// Find is the row of a code; not ok for one that the catalogue does not have.
func Find(code Code) (Row, bool) {
	for _, row := range catalogue {
		if row.Code == code {
			return row, true
		}
	}
	return Row{}, false
}

// All is a copy of the catalogue.
func All() []Row { return append([]Row(nil), catalogue...) }

// catalogue has one row for each code, in the order in which docs/reference/causes.md shows them.
var catalogue = []Row{
	{Code: NoVersion, Cluster: true, Kind: Failure, Title: "The cluster has no Kubernetes version",
		Explanation: "Its document does not set `spec.kubernetesVersion`, so nothing can be rendered for its machines.",
		Fix:         "Apply the document with a version that `drover versions ls` shows."},
	{Code: UnknownVersion, Cluster: true, Kind: Failure, Title: "The version is not known",
		Explanation: "The server's version data do not have the cluster's Kubernetes version, so it knows neither the installer nor the settings that the version takes.",
		Fix:         "Give the server newer version data (`--version-data`), or apply a version that `drover versions ls` shows."},
	{Code: MissingRoles, Cluster: true, Kind: Turn, Title: "Roles are missing",
		Explanation: "A cluster begins when machines with the roles etcd, control plane and worker have registered; one machine may have all of them.",
		Fix:         "Run on a host what `drover clusters join-command` prints for the roles that are missing."},
	{Code: TokensLost, Cluster: true, Kind: Failure, Title: "The join tokens are lost",
		Explanation: "The server's store does not have the join tokens of the cluster. They encrypt the cluster's data and its snapshots, so they are never made anew.",
		Fix:         "Restore the server's store from a backup that has them."},
	{Code: EtcdReplaced, Cluster: true, Kind: Failure, Title: "All etcd machines were replaced",
		Explanation: "The cluster was up once, and none of its etcd machines of that time is left, or all of them leave; those that have never joined would begin a new etcd, which would know nothing of the cluster.",
		Fix:         "Keep a member that leaves by `drover operations abort` of its removal. Without one restore a snapshot of etcd, or remove the cluster and create it anew."},
	{Code: RestoreFailed, Cluster: true, Kind: Failure, Title: "A restore has not come to its end",
		Explanation: "Servers of the cluster were stopped for a restore of a snapshot, which failed or was given up. They do not start before a restore has come to its end: they may have no etcd, and would begin an empty one. What they had before is on their hosts still, in `server/before-*` of the data directory.",
		Fix:         "`drover operations show ID` has the reason. Go on with `drover operations retry ID`, or restore this or another snapshot with `drover snapshots restore`."},
	{Code: NoControlPlane, Cluster: true, Kind: Loss, Title: "No control plane is left",
		Explanation: "The cluster has etcd, and no machine with the control-plane role.",
		Fix:         "Run on a host what `drover clusters join-command NAME --controlplane` prints."},
	{Code: PinnedMissing, Cluster: true, Kind: Failure, Title: "The machine that is to begin the cluster is not there",
		Explanation: "The label `rke.cattle.io/init-node-machine-id` of the cluster names a host that has not registered with the etcd role.",
		Fix:         "Register that host with the etcd role, or take the label off the cluster."},
	{Code: BadSpec, Kind: Failure, Title: "No plan can be made",
		Explanation: "The cluster's document asks for something that no plan can be made of for this machine. The cause names it; of a plan that would be too large it names the largest files.",
		Fix:         "Correct the document and apply it; `drover apply --dry-run` shows the same error without a change."},

	{Code: WaitBootstrap, Kind: Turn, Title: "Waits for the first etcd machine",
		Explanation: "The machine that begins the cluster is not ready to be joined yet.",
		Fix:         "Look at the machine that begins the cluster: `drover clusters show` has it under bootstrap."},
	{Code: WaitEtcd, Kind: Turn, Title: "Waits for etcd",
		Explanation: "A control plane joins when etcd can be joined.",
		Fix:         "Look at the etcd machines."},
	{Code: WaitControlPlane, Kind: Turn, Title: "Waits for a control plane",
		Explanation: "A worker joins when a control plane works.",
		Fix:         "Look at the control-plane machines."},
	{Code: WaitVoter, Kind: Turn, Title: "Waits for another etcd member to vote",
		Explanation: "Members join etcd one at a time, and the next one when the one before votes: a member that does not work yet counts against the quorum.",
		Fix:         "Look at the member that joins. If its host is lost, remove it with `drover machines rm NAME --force --yes`."},
	{Code: WaitUpgrade, Kind: Turn, Title: "Waits for servers to be upgraded",
		Explanation: "No machine joins with a newer version than the servers of the cluster run.",
		Fix:         "Wait for the upgrade, or look at the server that it waits for."},
	{Code: WaitQuorum, Kind: Turn, Title: "Waits for the quorum of etcd",
		Explanation: "Too many members of etcd are not healthy; one more that restarts or joins would stop the cluster.",
		Fix:         "Look at the members that the wait names first."},
	{Code: WaitBudget, Kind: Turn, Title: "Waits for machines that are away",
		Explanation: "As many machines as the upgrade strategy allows are away already, for a change or because they do not work.",
		Fix:         "Look at those machines; `controlPlaneConcurrency` and `workerConcurrency` of `upgradeStrategy` set how many may be away."},
	{Code: Duplicate, Kind: Failure, Title: "Another machine has its name or address",
		Explanation: "A cluster has one node of a name and of an address. The machine that has it already, or registered first, keeps it.",
		Fix:         "Remove one of the two with `drover machines rm`, and register its host with a name and an address of its own."},
	{Code: WaitTier, Kind: Turn, Title: "Waits for machines that change before",
		Explanation: "Machines change in the order bootstrap, etcd, control plane, worker, and the next begin when those before are done.",
		Fix:         "Look at the machines that the wait names."},
	{Code: WaitGiven, Kind: Turn, Title: "Waits for machines that get the plan before",
		Explanation: "An operation gives a plan to the machines of a fleet, so many at a time, and the turn of this one has not come. Machines that fail with the plan keep their place.",
		Fix:         "`drover operations show ID` has the machines that it waits for; `drover operations abort ID` leaves the others as they are."},
	{Code: WaitOperation, Kind: Turn, Title: "Waits for an operation on the cluster",
		Explanation: "A snapshot is taken or restored, or something is rotated. Nothing else begins on the cluster's machines before that has come to its end.",
		Fix:         "`drover operations ls` shows the operation and what it waits for."},
	{Code: WaitWindow, Kind: Turn, Title: "Waits for the maintenance window",
		Explanation: "The cluster has a maintenance window, and upgrades and other changes that restart machines begin within it. A machine that has begun is never cut off: what the end of a window finds under way is finished, and the next machines change in the next window. Machines that do not work are mended at any time.",
		Fix:         "Wait for the window; `drover operations hurry ID` has an operation not wait for it, once. `drover clusters window NAME` shows the window, sets another one with `--set`, and takes it off with `--clear`."},
	{Code: WaitSnapshot, Kind: Turn, Title: "Waits for the snapshot before an upgrade",
		Explanation: "An upgrade begins with a snapshot of etcd on one of its members, by which the cluster goes back if need be.",
		Fix:         "`drover operations show ID` has how far it is. Where none is wanted: `drover clusters upgrade --no-snapshot`."},
	{Code: NoPlan, Kind: Turn, Title: "It was given no plan",
		Explanation: "The machine is one of a fleet, and plans of those come from people.",
		Fix:         "`drover machines plan NAME -f plan.yaml`."},
	{Code: Paused, Kind: Turn, Title: "The cluster is paused",
		Explanation: "A user paused the cluster; what was begun is finished, and nothing new begins.",
		Fix:         "`drover clusters resume NAME`."},
	{Code: Exported, Cluster: true, Kind: Turn, Title: "The server does not touch the cluster",
		Explanation: "A user exported the cluster, to look after it with the rke command line, or imported it and has not said yet that the server may begin. Until then nothing is done on its hosts.",
		Fix:         "`drover clusters resume NAME` says what would change, and takes the cluster up."},
	{Code: ImportedTwice, Cluster: true, Kind: Turn, Title: "An agent with the token of the cluster was refused",
		Explanation: "An agent came with the token of an imported cluster, and the API server behind it is not proven to be the cluster's: its authority or its identity is another one, or it does not take the token that the agent sent. The manifest was applied to two clusters, or the token is in wrong hands. Nothing was sent there, and the cluster is reached as before.",
		Fix:         "Delete the namespace `cattle-system` in the other Kubernetes, and import it under a name of its own. Where it is the cluster itself, with a new authority, `drover clusters import NAME --replace` says so."},
	{Code: Halted, Kind: Turn, Title: "The roll-out was stopped",
		Explanation: "The operation was aborted; machines that were not taken keep what they have.",
		Fix:         "Apply the cluster as it shall be, or retry the operation with `drover operations retry ID`."},

	{Code: Delivering, Kind: Work, Title: "The plan is being delivered",
		Explanation: "A plan was written for the machine, and its agent is about to take it.",
		Fix:         "Nothing; it takes seconds."},
	{Code: AgentAbsent, Kind: Loss, Title: "The agent is not connected",
		Explanation: "No agent of the machine is there to take its plan: the host is off, the agent does not run, or it cannot reach the server.",
		Fix:         "On the host: `systemctl status rancher-system-agent` and `journalctl -u rancher-system-agent`; see whether the host reaches the server's URL."},
	{Code: AgentNotTaken, Kind: Work, Title: "The agent has not taken its plan",
		Explanation: "The agent is connected and has not begun with the plan. It may be finishing another one, or wait for another program on the host.",
		Fix:         "`drover machines output NAME` shows what the agent does and what it waits for."},
	{Code: Applying, Kind: Work, Host: true, Title: "The plan is being applied",
		Explanation: "The agent writes files and runs instructions. Installing takes minutes on a slow network; an instruction that does not end waits for the distribution to start.",
		Fix:         "`drover machines output NAME -f` follows it."},
	{Code: PlanFailed, Kind: Failure, Host: true, Title: "The plan could not be applied",
		Explanation: "A file could not be written or an instruction ended with an error. The server tries again by itself, after 30 s and then less often.",
		Fix:         "Read the output of the instruction, mend what it names on the host or in the document, and apply or wait for the next try."},
	{Code: BadReport, Kind: Failure, Title: "The report cannot be read",
		Explanation: "What the agent reported in the plan Secret is not in the form of the protocol: the agent is damaged, or a user wrote to the Secret.",
		Fix:         "On the host: `journalctl -u rancher-system-agent`; install the agent again if that names nothing."},
	{Code: Retrying, Kind: Failure, Host: true, Title: "The plan is tried again",
		Explanation: "A plan that had failed was delivered again.",
		Fix:         "Read the output of the last failure; the next one comes if its cause is still there."},
	{Code: Probes, Kind: Work, Host: true, Title: "Parts are not healthy yet",
		Explanation: "The plan was applied, and probes of components such as etcd, kube-apiserver or kubelet fail. Right after a start this is normal.",
		Fix:         "If it lasts, read the log of the distribution on the host: `drover machines logs NAME --unit UNIT`."},

	{Code: NoAPI, Kind: Work, Host: true, Title: "The Kubernetes API cannot be asked",
		Explanation: "The server reaches no control plane of the cluster through the tunnels of its hosts, so it cannot see whether the node has registered.",
		Fix:         "`drover tunnels` shows whether tunnels are open; then read the log of the distribution on a control plane."},
	{Code: NoNode, Kind: Work, Host: true, Title: "The node has not registered",
		Explanation: "The cluster has no node with the label of the machine.",
		Fix:         "Read the log of the distribution on the host; a node of the same name, or one without the label, is named in the cause."},
	{Code: NoProviderID, Kind: Work, Title: "The node has no providerID",
		Explanation: "A cloud controller has to set `spec.providerID` of the node, and has not.",
		Fix:         "See the log of the cluster's cloud controller."},
	{Code: NodeNotReady, Kind: Work, Host: true, Title: "The node is not Ready",
		Explanation: "The kubelet or the API says why: the network plugin starts, the disk is full, or the kubelet does not report.",
		Fix:         "Read the reason in the cause, then the log of the distribution on the host."},
	{Code: KubeletVersion, Kind: Work, Host: true, Title: "The kubelet has another version",
		Explanation: "The plan was applied, and the node still reports the version of before.",
		Fix:         "Wait for the restart; if it lasts, read the log of the distribution on the host."},
	{Code: StaleNode, Kind: Work, Title: "The node has the label of a removed machine",
		Explanation: "The host joined again with its distribution and kept the node of the machine that was removed. It is restarted once and takes its new label then.",
		Fix:         "Nothing; if it lasts, clean the host with the distribution's uninstall script and join again."},
	{Code: OutOfSight, Kind: Loss, Title: "The cluster is out of sight",
		Explanation: "The server cannot ask the cluster's API for the moment; the node was ready when it was last seen. After 30 s this is shown as Unavailable.",
		Fix:         "See whether the control planes run, and whether their agents are connected."},
	{Code: HostLost, Kind: Loss, Title: "The host is lost",
		Explanation: "Neither the agent of the host nor the node in its cluster is seen.",
		Fix:         "Switch the host on, or mend its network. If it does not come back, remove it with `drover machines rm NAME --force --yes`."},
	{Code: AgentLost, Kind: Loss, Title: "The agent is lost",
		Explanation: "The agent of the host is not connected, and its node is Ready still: the agent was stopped or removed, or the host has lost its power or its network, which the server notices within ten seconds and its cluster some 40 s later. What runs there goes on; no plan is taken, and nothing of the host is seen but its node. The machine counts as away in changes of others.",
		Fix:         "See whether the host is on. There: `systemctl status rancher-system-agent`; where the agent is not installed any more, run there what `drover clusters join-command` prints. Where agents were taken off on purpose, the annotation `drover.dev/no-agents: \"true\"` of the cluster has the nodes alone decide."},
	{Code: QuorumLost, Kind: Failure, Title: "Etcd has lost its quorum",
		Explanation: "More than half of the members of etcd have to be there, and too many are gone: their hosts are off, or the distribution does not run on them. What pods do goes on; nothing can be changed or started, and the API answers nothing or only reads. The cause names the members that are gone.",
		Fix:         "Switch on as many of them as it takes for more than half; etcd needs no restore then. If they do not come back, have the server forget them with `drover machines rm NAME --force --yes`, and restore a snapshot on a server that is left: [Restore a cluster](../how-to/restore-a-cluster.md#some-servers-are-lost-and-etcd-has-no-quorum)."},
	{Code: UnitDown, Kind: Loss, Host: true, Title: "The distribution does not work",
		Explanation: "The host is there and its agent is connected, but the probes of the distribution fail. The cause has the last lines of the unit's log, such as those about a token that was changed in its files.",
		Fix:         "On the host: `systemctl status` and `journalctl -u` of the distribution's unit. A file of drover's that was changed there is as it was with the next plan: apply the cluster with another `rkeConfig.provisionGeneration`, which restarts its machines in turn."},

	{Code: Draining, Kind: Work, Title: "Pods are moved away",
		Explanation: "The node is cordoned and its pods are evicted before the machine changes.",
		Fix:         "If pods stay, see their PodDisruptionBudgets; a `timeout` in the drain options bounds the wait."},
	{Code: DrainHook, Kind: Turn, Title: "Waits for a hook of the drain",
		Explanation: "A hook of the upgrade strategy has to confirm by an annotation of the plan Secret that it is done.",
		Fix:         "Look at the program that the hook belongs to, or take the hook out of `upgradeStrategy`."},
	{Code: Uncordoning, Kind: Work, Title: "Pods are let come back",
		Explanation: "The change is done and the node is uncordoned.",
		Fix:         "Nothing; it takes seconds."},
	{Code: UncordonHook, Kind: Turn, Title: "Waits for a hook after the drain",
		Explanation: "A hook of the upgrade strategy has to confirm by an annotation of the plan Secret before the machine counts as done.",
		Fix:         "Look at the program that the hook belongs to, or take the hook out of `upgradeStrategy`."},

	{Code: LeavingJoined, Kind: Turn, Title: "Others are joined to the machine",
		Explanation: "Other machines still have the one that leaves as their server; their plans name another one first.",
		Fix:         "Look at the machine that the wait names."},
	{Code: LeavingLast, Kind: Turn, Title: "The last etcd member cannot leave",
		Explanation: "With it would go all that the cluster knows.",
		Fix:         "Let another etcd machine join first, or remove the whole cluster."},
	{Code: LeavingQuorum, Kind: Turn, Title: "Etcd would lose its quorum",
		Explanation: "The member leaves when enough others are healthy, one at a time.",
		Fix:         "Look at the members that the wait names."},
	{Code: LeavingNode, Kind: Work, Title: "Node and member are removed",
		Explanation: "The node, and the etcd member if there is one, are taken out of the cluster before the host is cleaned.",
		Fix:         "If the cluster's API is gone for good: `drover machines rm NAME --force --yes`."},
	{Code: LeavingOrder, Kind: Turn, Title: "Workers leave first",
		Explanation: "The whole cluster is uninstalled; servers follow when the workers have gone.",
		Fix:         "Look at the workers that are still there."},
	{Code: Uninstalling, Kind: Work, Title: "The host is cleaned",
		Explanation: "The agent removes the distribution from the host.",
		Fix:         "`drover machines output NAME -f` follows it."},
	{Code: UninstallAway, Kind: Loss, Title: "The host cannot be cleaned",
		Explanation: "The agent of the machine that leaves is not connected.",
		Fix:         "Switch the host on, or forget the machine with what is left on its host: `drover machines rm NAME --force --yes`."},
	{Code: UninstallError, Kind: Failure, Title: "The host could not be cleaned",
		Explanation: "The instruction that removes the distribution failed; it is tried again.",
		Fix:         "Read its output, or forget the machine with what is left on its host: `drover machines rm NAME --force --yes`."},

	{Code: RKE1Running, Kind: Work, Title: "The engine works on the cluster",
		Explanation: "An operation brings the containers of an RKE1 cluster to what its document says. The cause has the part that it is at.",
		Fix:         "`drover operations ls` names the operation, `drover operations show ID` shows its parts and its log."},
	{Code: RKE1Failed, Kind: Failure, Title: "The engine could not bring the cluster about",
		Explanation: "A run of the engine ended with an error. What was done stays, and the next try goes on from there: after 30 s, then less often, or when a host that was away is connected.",
		Fix:         "Mend what the cause names on the host or in the document, then wait for the next try or ask for it with `drover operations retry ID`."},

	{Code: CertificatesEnded, Kind: Failure, Title: "A certificate has ended",
		Explanation: "Components of the cluster do not trust each other any more, or no user gets into it. Nothing that runs in its pods ends, and nothing can be changed.",
		Fix:         "`drover clusters rotate certificates NAME`; with `--ca` where the certificate that ended is that of a CA."},
	{Code: CertificatesEnding, Kind: Turn, Title: "A certificate ends soon",
		Explanation: "One of the cluster's certificates ends within 60 days. The cluster works until then.",
		Fix:         "`drover clusters rotate certificates NAME`; with `--ca` where it is that of a CA. What reads it restarts, host by host."},
	{Code: SnapshotFailed, Kind: Turn, Title: "The last scheduled snapshot failed",
		Explanation: "The server takes snapshots of the cluster's etcd by itself, and the last one could not be taken. It is tried again after 10 minutes.",
		Fix:         "Mend what the cause names on the hosts, or the bucket in the document; `drover snapshots ls NAME` shows those there are."},

	{Code: DockerRegistering, Kind: Work, Title: "The node agent has not connected",
		Explanation: "The Docker host has registered and its tunnel is not open yet.",
		Fix:         "On the host: `docker ps` shows whether the container of the agent runs, `docker logs` what it waits for."},
	{Code: DockerDisconnected, Kind: Loss, Title: "The Docker host is not connected",
		Explanation: "The tunnel of the node agent ended and it has not come back.",
		Fix:         "Switch the host on; on it `docker ps` shows whether the container of the agent runs, `docker logs` what it waits for."},
}
