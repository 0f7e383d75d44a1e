package drover_test

// places are the ways out of the product by package, each as "kind in function ×number", with what data from outside (of hosts,
// clusters, people, registries, buckets and directories) may get there and what checks them.
var places = map[string]struct {
	why   string
	sites []string
}{
	"cmd/drover/cli": {
		why: "Files are those that the user names or gets made in a directory of their own (privateSocket), the program is " +
			"docker from PATH with the user's own arguments; nothing from outside names a path, and documents are bounded when " +
			"read.",
		sites: []string{
			"file in readSecret",
			"file in app.docker ×2", "file in app.importRequest ×3", "file in app.planText", "file in app.readOne",
			"file in app.trust", "file in filesOf", "file in privateSocket ×2", "file in stateIn",
			"program in app.child",
		},
	},
	"client": {
		why: "The server's address and the authority are the caller's; answers are bounded, FetchCA compares the checksum, and " +
			"refuseRedirect keeps the token from other addresses.",
		sites: []string{"client in Client.Subscribe", "client in FetchCA ×2", "client in New ×2", "client in package level"},
	},
	"cmd/drover/airgap": {
		why: "Files and registries are those that the user names. Of lists names alone are used, of bounded number; blobs get the names of their digests, " +
			"which are compared; a site's file is read in place, with bounded manifests and names that are known. Of a chart its Chart.yaml alone is read, of a repository its index, both bounded and strict.",
		sites: []string{
			"file in saver.chartFile",
			"client in App.loadCommand", "client in App.saveCommand", "client in package level", "client in wanted.all",
			"file in addBlob", "file in keep ×3", "file in openSite", "file in removeDamaged", "file in saver.archive", "file in saver.checkPlatform", "file in saver.pack ×2", "file in saver.save ×3", "file in sign", "file in verifySignature", "file in wanted.list",
		},
	},
	"cmd/drover/check": {
		why: "Files and addresses are those of the server's own configuration; of what answers only the status, the version and the size are " +
			"used, and an error names the place. The measure of the disk has a name of its own, and goes.",
		sites: []string{"client in Answers ×2", "file in Answers", "file in Upgrade.room", "file in authority", "file in chain", "file in slowest ×2"},
	},
	"cmd/drover/config": {
		why:   "The configuration file is the administrator's; it is bounded and read strictly.",
		sites: []string{"file in Read"},
	},
	"cmd/drover/supportbundle": {
		why:   "Names and sizes below the data directory, which is the administrator's; what they hold is not read.",
		sites: []string{"file in sizesIn ×2"},
	},
	"daemon/bundle": {
		why: "The file is the caller's, and takes the place of no other; programs are the host's own, with fixed arguments and names of units. Of files " +
			"below fixed directories certificates alone are read, bounded, and only their dates and names get out.",
		sites: []string{"file in Save ×2", "file in certificates", "program in Bundle.Host", "program in Bundle.command"},
	},
	"cmd/manual": {
		why:   "The directory is named by the person who builds, and the names in it are fixed.",
		sites: []string{"file in write ×2"},
	},
	"cmd/drover/service": {
		why: "Files are those of the server's flags, and of the installation at fixed paths; the data directory is the configuration's, below " +
			"which names are followed without links (os.Root). Programs are the host's own, with fixed arguments. The server asks itself.",
		sites: []string{
			"file in App.purge ×2", "file in App.start ×2", "file in App.uninstall",
			"file in checkKept", "file in copyProgram ×6", "file in copyStore ×8", "file in dropOlder ×2", "file in firstPassword ×7",
			"file in forgetFirst ×2", "file in idle", "file in isServers ×2", "file in keepBefore ×2", "file in installOptions.configure", "file in ownData", "file in place ×4",
			"file in serverFlags.etcdTLS", "file in sizeOf", "file in syncTree ×2", "file in whileIdle", "program in command", "program in idle", "program in lastLines",
		},
	},
	"cmd/drover/contexts": {
		why:   "The file of contexts, that of the authority and the data directory are the user's.",
		sites: []string{"file in ReadFile", "file in Resolve", "file in WriteFile ×2", "file in fromDataDir ×3"},
	},
	"docs": {
		why: "The Markdown is the binary's own, and goldmark leaves HTML in it out; messages are escaped before pages in them become " +
			"links, whose addresses have letters, digits and dashes alone.",
		sites: []string{"template in Linked ×2", "template in Manual.add", "template in package level"},
	},
	"docs/programs/rollout": {
		why:   "The file is named by the user.",
		sites: []string{"file in run"},
	},
	"cmd/drover/execplugin": {
		why: "Names of files are sums of what a token is for (placeOf) below the user's own directory; place.read refuses files " +
			"that others can read.",
		sites: []string{"file in Forget", "file in eachKept", "file in place.lock ×2", "file in place.read", "file in place.write ×4"},
	},
	"cmd/drover/download": {
		why: "The path is the user's; the name of a snapshot that becomes one is checked by app.downloadSnapshot, and " +
			"part.place replaces nothing that was not meant to be.",
		sites: []string{"file in begun", "file in open", "file in part.anew", "file in part.place ×4", "file in part.removed"},
	},
	"cmd/drover/people": {
		why:   "Files are those that the user names.",
		sites: []string{"file in App.manifest", "file in App.setDirectory"},
	},
	"cmd/drover/rke": {
		why: "Files are those that the user names and those beside them; names of certificates come from pki.Requests of the " +
			"config that config/check has checked, and here dials on this host, for a cluster of this host alone.",
		sites: []string{
			"dial in here", "file in writeNew", "file in App.open", "file in App.removeCommand", "file in App.versionCommand", "file in administrator",
			"file in bucket.of", "file in cluster.lock ×2", "file in cluster.saveKubeconfig", "file in cluster.writeRequests ×3",
			"file in read", "file in readLive",
		},
	},
	"cmd/rancher-agent": {
		why: "The program after -- and the files of settings are given by the command line and the environment of the " +
			"container; hideToken runs the program itself again.",
		sites: []string{"file in agent", "program in hideToken ×2", "program in instead"},
	},
	"daemon/apiauth": {
		why: "The API is the cluster's own, by the pod's environment and its service account; clientOf verifies it and follows " +
			"no redirect, Cluster.do bounds the answers, and parse checks what a caller sends before a path of the API is made " +
			"of it.",
		sites: []string{"client in clientOf ×3", "client in package level", "file in InCluster ×2"},
	},
	"daemon/config": {
		why:   "The path is that of the agent's configuration file, given by its environment; the size is bounded.",
		sites: []string{"file in read"},
	},
	"daemon/filewatch": {
		why:   "Paths are those of the agent's own configuration; the content is only summed, up to a limit.",
		sites: []string{"file in Of"},
	},
	"daemon/hostreport": {
		why: "Programs and arguments are constants, among them the units of the distributions; the settings of RKE2 are root's, are bounded, " +
			"and name the directory below which a manifest and the kubelet's log are looked for.",
		sites: []string{"file in Host.rke2", "program in Host.withDefaults"},
	},
	"daemon/hostservice": {
		why: "The server names a target, a unit and a data directory: Dial opens targets alone, unitName checks units, " +
			"certificates takes clean absolute directories, and trusted refuses files that others than root can have made.",
		sites: []string{"dial in Service.Dial", "file in Service.certificates", "file in Service.open", "program in UnitLog"},
	},
	"daemon/loglevel": {
		why:   "The path of the socket is the agent's own; listen removes nothing that is not a socket.",
		sites: []string{"client in Ask ×2", "dial in Ask", "file in listen ×2"},
	},
	"daemon/node": {
		why: "The server names tunnel targets, which allowed and dialAPI check, and units, which read checks; it sends a node " +
			"config, which nodeconfig.Decode bounds and checks, and a CA, which authority checks. Other addresses and paths " +
			"are those of flags, constants and the pod's account.",
		sites: []string{
			"client in AskHealth ×2", "client in Options.sparing", "client in Options.unverified ×2", "client in ask ×2", "client in newAgent",
			"client in pull.ask", "dial in AskHealth", "dial in Options.dialServer ×2", "dial in agent.open ×2",
			"dial in docker.cause", "dial in inCluster.dialAPI", "dial in outward", "file in agent.checkResolvConf",
			"file in agent.removeHandStarted", "file in authority.adopt ×2", "file in authority.adopted",
			"file in authority.keep ×2", "file in authority.learn", "file in credential ×3", "file in enter",
			"file in inCluster.account ×2", "file in keeper.appliedCerts", "file in keeper.load", "file in keeper.needsCertificate",
			"file in keeper.pass", "file in keeper.take", "file in line.mark", "file in newAgent", "file in shareMount ×2",
			"file in vacate",
		},
	},
	"daemon/podlogs": {
		why: "The server or a plan names a component, which IsComponent checks; os.Root opens nothing outside the kubelet's " +
			"directory of logs, whose entries may be anything, and Tail, Follow and Kubelet read regular files alone, to a limit.",
		sites: []string{"file in Find", "file in Kubelet", "file in Pod.Tail", "file in Pod.last"},
	},
	"daemon/selfupdate": {
		why: "The new program's address and checksum come by the command line of a plan: open refuses credentials in it, " +
			"fetch.Redirect a way without encryption, and download what is too large or has another checksum; Updater.call " +
			"runs it only afterwards. Other paths are those of the installation.",
		sites: []string{
			"client in Updater.get", "client in Updater.open ×2", "file in BootID", "file in ServiceEnv", "file in Updater.Begin", "file in Updater.download",
			"file in Updater.lock ×2", "file in Updater.open ×2",
			"file in Watcher.act ×2", "file in Watcher.end", "file in Watcher.save", "file in WriteHealth ×2", "file in checksum",
			"file in copyProgram ×2", "file in elfKind", "file in hostClock", "file in overwrite ×2", "file in readRecord", "file in removeAll", "file in systemctl.addWatch ×2", "program in Systemctl",
			"program in Updater.call",
		},
	},
	"daemon/status": {
		why: "The path of the socket is the agent's own; directory refuses one where others could put something in its place, " +
			"and the file of failures has a bound.",
		sites: []string{
			"client in NewClient", "client in package level", "dial in NewClient", "file in Listen", "file in ReadFailures",
			"file in Socket.listen ×2", "file in WriteFailures", "file in directory",
		},
	},
	"daemon/systemd": {
		why:   "The socket is named by systemd in the environment.",
		sites: []string{"dial in Notify"},
	},
	"installers/image": {
		why: "Registries and images are named by plans: the transport trusts what registries.yaml says, names in the cache are " +
			"digests, whose form v1.Hash and manifest.Check have checked, and what layers write is kept below the directory by " +
			"os.Root (unpack). Other paths are those of the agent's configuration.",
		sites: []string{
			"client in connect ×2", "dial in connect", "file in Stager.cached", "file in Stager.inArchives",
			"file in Stager.keep ×3", "file in Stager.kept", "file in Stager.keptFiles", "file in Stager.prune",
			"file in Stager.readyCache ×2", "file in Stager.unpack", "file in arriving", "file in empty ×2",
			"file in removeAbandoned ×2",
		},
	},
	"installers/image/archive": {
		why: "Paths are those of archives found below the images directory of the agent's configuration; the content is bounded " +
			"when it is read.",
		sites: []string{"file in Archive.open"},
	},
	"installers/image/credentials": {
		why: "The file and the directory of plugins are given by the agent's configuration; the name of a plugin's program has " +
			"no path (the check of plugin.name), and ownFile refuses a program that others can change. The image's name " +
			"reaches a plugin by its standard input alone.",
		sites: []string{"file in dockerAuth", "file in loadPlugins", "program in Plugins.ask", "program in endWhole"},
	},
	"installers/image/registries": {
		why:   "The path is that of registries.yaml, and those in it are its author's, root; each file has a bound.",
		sites: []string{"file in Load", "file in TLS.Config", "file in TLS.pair ×2"},
	},
	"installers/snapshots/bucket": {
		why: "People and clusters name endpoints and buckets: the server gives Config.Way, which leads through server/outgoing, " +
			"and bounded limits answers. The client of roles is for a config without keys, which server/etcdops and rke1/engine " +
			"do not open for people.",
		sites: []string{"client in Open ×4", "client in package level ×2", "dial in Open"},
	},
	"installers/snapshots/spool": {
		why:   "The directory is given by the caller's options, and the name is made up.",
		sites: []string{"file in New ×2"},
	},
	"plans/apply": {
		why: "Plans are the server's or root's to write; no path here is named by one: sources become names by fileKey, runs " +
			"and homes are named by time and number, and files of plans go through hostfs. The program is what the instruction " +
			"is for.",
		sites: []string{
			"file in Engine.Forget", "file in Engine.Recall", "file in Engine.Reported ×2", "file in Engine.Sources",
			"file in Engine.clearHomes ×2", "file in Engine.fill ×4", "file in Engine.isReported", "file in Engine.known",
			"file in Engine.load", "file in Engine.newRun ×2", "file in Engine.pruneNow ×2", "file in Engine.runDirectly",
			"file in Engine.runPeriodic", "file in Engine.spareAtHome", "file in Engine.usedRuns", "file in New",
			"file in ReadUnfinished", "file in ledger.recallSupervisor", "file in newSaver", "file in past.recall ×3", "file in readLedger",
			"file in stow ×2", "file in supervised", "file in work.noteSupervisor ×2", "file in work.unmake ×3",
			"program in runChild ×2",
		},
	},
	"plans/apply/history": {
		why: "The directory is that of the agent's options; a source is a part of a name by fileKey, and appliedName matches " +
			"what is removed.",
		sites: []string{"file in Add ×3", "file in Find ×2", "file in appliedNames ×2", "file in sameApplied"},
	},
	"plans/apply/hostfs": {
		why: "The root is the agent's; each name below it that a plan gives is walked step by step in os.Root, links included " +
			"(walk).",
		sites: []string{"file in FS.walk"},
	},
	"plans/apply/interlock": {
		why:   "The directory is that of the agent's configuration, and the names in it are constants.",
		sites: []string{"file in Interlock.Clear ×2", "file in Interlock.Enter", "file in Interlock.pending ×2", "file in Interlock.stamp"},
	},
	"plans/apply/output": {
		why:   "The directory is that of a run, segments are named by number, and of the mark 256 bytes are read.",
		sites: []string{"file in Follower.newer", "file in Follower.segment", "file in OpenMark", "file in Recorder.rotate ×2"},
	},
	"plans/apply/probe": {
		why: "Plans name the URL, as they name programs; sameHost follows redirects on that host alone, and what is read of an " +
			"answer is bounded.",
		sites: []string{"client in Prober.get ×2"},
	},
	"plans/apply/supervise": {
		why: "The directory is made by the engine for a run; the program is the command that Write put there, mode 0700, " +
			"and /proc is read by number.",
		sites: []string{
			"file in Attach", "file in Boot", "file in Identity.KillLeftovers ×2", "file in Offer", "file in Running.Kill",
			"file in Running.withoutResult", "file in Spare.Close", "file in Spare.Expect", "file in Start", "file in StartSpare ×2",
			"file in Write ×2", "file in readJSON", "file in readStat", "file in rename ×2", "file in reserveResult",
			"file in run.once ×2", "file in run.putResult ×2", "file in settle", "program in package level ×2",
			"program in process ×2", "program in run.exec",
		},
	},
	"plans/drop": {
		why: "The directory is that of the agent's configuration; readPlan takes regular files that their owner alone can " +
			"write, bounded by plans.MaxSize.",
		sites: []string{
			"file in New", "file in ReadPlanFile", "file in Source.directory ×2", "file in dropped.change", "file in readPlan",
			"file in readPosition",
		},
	},
	"plans/durable": {
		why: "Paths are those of callers, which stand in this table themselves.",
		sites: []string{
			"file in ClosedDir ×3", "file in File.write", "file in ReadFile", "file in SyncDir", "file in SyncFile", "file in WriteFiles",
			"file in openOwn", "file in removeIfThere",
		},
	},
	"plans/fetch": {
		why: "Addresses are those of callers' settings: Get checks their form and bounds the answer, Redirect what follows, and " +
			"the transport of the caller decides which addresses may be reached.",
		sites: []string{"client in Get"},
	},
	"plans/remote": {
		why: "The server's address and authority are those of the connection file, which root writes and the kubeconfig reader " +
			"checks; no redirect is followed, answers are bounded, and readCredential takes absolute paths of regular files.",
		sites: []string{"client in newClient ×2", "client in package level", "dial in newClient", "file in readCredential"},
	},
	"rke1/addons": {
		why: "Version data bring templates, which theirText executes with the functions of theirs alone and whose text check " +
			"reads; cluster.yml names files, which Sources.read opens for the command line alone, and addresses, which " +
			"plans/fetch checks.",
		sites: []string{"file in Sources.read", "template in package level ×2", "template in theirText"},
	},
	"rke1/dial": {
		why: "cluster.yml names hosts, and keys' files for the command line alone, the only user of SSH; HostKeys.check " +
			"compares the host's key, and answers of Docker are bounded by tunnel/answers.",
		sites: []string{
			"client in Docker ×3", "client in package level", "dial in NewSSH", "dial in SSH.fromAgent", "dial in SSH.handshake",
			"file in HostKeys.add ×2", "file in textOf",
		},
	},
	"rke1/engine/run": {
		why:   "It hands on the way to buckets, as rke1/snapshots/inbucket does.",
		sites: []string{"client in package level"},
	},
	"rke1/export": {
		why: "The directory is the user's; Save refuses names of files with a path in them, and Free a directory that holds " +
			"something.",
		sites: []string{"file in Free", "file in Save ×6"},
	},
	"rke1/kube": {
		why: "Open dials through a host whatever the URL says and verifies the cluster's CA; Reach is for the command line " +
			"alone, refuses a kubeconfig's server without https, and tunnel/answers bounds answers and follows no redirect.",
		sites: []string{"client in Open ×5", "client in Reach ×2"},
	},
	"rke1/ecr": {
		why: "cluster.yml names a registry, whose region becomes part of a host below amazonaws.com (registry); no redirect is followed, " +
			"the answer is bounded, and the way is that of add-ons, in the server server/outgoing's (server/controllers.go).",
		sites: []string{"client in login"},
	},
	"rke1/onhost": {
		why: "Addresses are those that the engine asks on a host, dialled from that host; no redirect is followed, and headers " +
			"are bounded.",
		sites: []string{"client in Host.http ×3", "client in ask"},
	},
	"rke1/snapshots/inbucket": {
		why: "It hands on the way to buckets; in the server that is server/outgoing's (server/controllers.go), and engine opens a bucket for " +
			"a config with keys alone.",
		sites: []string{"client in package level"},
	},
	"rke1/state": {
		why:   "Paths are those beside the cluster's config, which the user names; sizes are bounded.",
		sites: []string{"file in Backups", "file in Load", "file in Write", "file in keep", "file in prune", "file in steps", "file in wayOut"},
	},
	"rke1/versions": {
		why: "The location is the server's or the user's environment, and the copy lies in the data directory; the content is " +
			"bounded and checked by Read.",
		sites: []string{"file in keep ×3", "file in readFile"},
	},
	"server": {
		why:   "Paths are those of the server's data directory and of its flags.",
		sites: []string{"file in Run", "file in data.certify", "file in identity.bootstrap"},
	},
	"server/assets": {
		why: "The directory is given by a flag, or is one in the data directory into which the files of this program are unpacked; a request " +
			"opens the names of a fixed list alone (allowed.Open).",
		sites: []string{"file in Open ×2", "file in unpacked.Open ×2", "file in unpacked.unpack ×4"},
	},
	"server/audit": {
		why: "The directory is given by the server's flags; a place that a caller names is checked by ParsePlace, and files are " +
			"named by time.",
		sites: []string{
			"file in Log.scan", "file in create", "file in files.next", "file in files.open ×2", "file in files.prune",
			"file in list",
		},
	},
	"server/auth": {
		why:   "The path is that of the token's file in the server's data directory.",
		sites: []string{"file in Auth.ensureTokenFile ×2"},
	},
	"server/backup": {
		why: "Directories are those of flags. Names in a bucket are taken when made knows them, names in a backup when " +
			"Reader.Next does, and both are bounded; the bucket is the operator's, reached by server/outgoing.",
		sites: []string{
			"client in Offsite.By", "file in Keys.read", "file in List", "file in Offsite.Put", "file in Offsite.fetch", "file in Prune ×3",
			"file in Restore.Run ×3", "file in Restore.build", "file in Restore.checkTarget ×3", "file in Restore.place ×5",
			"file in Restore.source ×2", "file in Save ×5", "file in lay ×2",
			"file in readSecret", "file in writeSnapshot",
		},
	},
	"server/controllers/rke1": {
		why:   "It hands on the way to add-ons and buckets that the configs of clusters name, which is server/outgoing's (server/controllers.go).",
		sites: []string{"client in package level"},
	},
	"server/controllers/backups": {
		why:   "The directory is the flag's, the name in it the server's own.",
		sites: []string{"file in Controller.save"},
	},
	"server/clusteragents": {
		why: "A cluster agent says its API's address: it is dialled through the agent's own tunnel and never by the server, " +
			"verified by what is pinned, without redirects, and with bounded answers (question.get).",
		sites: []string{"client in ask ×2", "client in package level"},
	},
	"server/controllers/snapshots": {
		why:   "The way to buckets is handed on to daytwo.OpenBucket.",
		sites: []string{"client in package level"},
	},
	"server/etcdops": {
		why: "People name buckets: offsite.Of checks the place, a place without keys is refused, and the way is " +
			"server/outgoing's for people (server/controllers.go).",
		sites: []string{"client in OpenBucket", "client in package level"},
	},
	"server/directories/ldap": {
		why: "Administrators name the directory: it is dialled on a way of server/outgoing, and what it says is bounded by " +
			"bound.",
		sites: []string{"dial in Directory.ask"},
	},
	"server/directories/web": {
		why: "Administrators and providers name addresses: the transport is server/outgoing's, CheckRedirect keeps to https, " +
			"and bounded bounds answers. That client asks GitHub and OpenID Connect, also at the addresses that a provider's discovery names.",
		sites: []string{"client in New ×2", "client in package level ×2"},
	},
	"server/downstream": {
		why: "Hosts and agents give credentials, which kubeconfig.Read parses without paths or programs; the address is " +
			"constant or the agent's own, everything is dialled through the tunnel, and tunnel/answers bounds what the server " +
			"itself asks.",
		sites: []string{
			"client in package level", "client in rke1Credentials ×2", "client in transport ×2", "client in upgrades",
			"client in watcher.connect ×4", "client in watcher.credentials ×2", "client in watcher.way ×2",
		},
	},
	"server/downstream/kubeproxy": {
		why: "People name the path in a cluster: destination sends it through the tunnel of that cluster alone, with what the " +
			"person may do decided before.",
		sites: []string{"client in Proxy.Serve"},
	},
	"server/hosts": {
		why: "An address of a host is made up and dialled through the host's tunnel; no redirect is followed, and headers are bounded. " +
			"Addresses of servers are those that servers put into the store of all: addressOf takes https alone, the TLS " +
			"configuration verifies them, and no redirect is followed.",
		sites: []string{"client in Hosts.AskFor ×2", "client in Relay.get ×2", "dial in Relay.ask"},
	},
	"server/kubectl": {
		why: "People write a line, which the process gets by its standard input; the program is the server's own, with constant " +
			"arguments and environment.",
		sites: []string{"program in Runner.begin", "program in command ×2"},
	},
	"server/kubectl/commands": {
		why: "The process has one way, the socket of the server (connect), whatever a line says; the file is a constant.",
		sites: []string{
			"client in executor.Execute", "client in executor.ExecuteWithContext", "client in inherited", "client in package level",
			"client in way.ToRESTConfig ×2", "file in confine",
		},
	},
	"server/outgoing": {
		why: "It is the check itself: DialContext and look refuse addresses that policy.check does not permit, after the name " +
			"was looked up. Proxies are those of the server's environment.",
		sites: []string{"client in Way.Lead", "client in Way.Transport ×2", "dial in Way.DialContext", "dial in Way.Lead"},
	},
	"server/pki": {
		why:   "Paths are those of the server's data directory.",
		sites: []string{"file in Adopt", "file in Open", "file in readPair ×2", "file in writePair ×2"},
	},
	"server/store": {
		why: "Paths are those of the server's data directory, given by its flags.",
		sites: []string{
			"file in Store.startEmbedded", "file in Store.takeDataDir ×2", "file in checkDamage ×2", "file in checkOurs", "file in lastEntry",
		},
	},
	"server/store/keyring": {
		why: "The path is that of the key file, in the data directory or given by a flag; Read refuses a file that others can " +
			"read.",
		sites: []string{"file in Make ×3", "file in Read", "file in syncDir"},
	},
	"server/ui": {
		why: "Templates are the binary's own and html/template's, which escapes all data; the one template.HTML is what such a " +
			"template has made, a page of docs, or digits of a time (stamp).",
		sites: []string{"template in New", "template in UI.Show", "template in package level ×2", "template in remembered ×4", "template in stamp ×2"},
	},
	"installers/versions": {
		why: "The file is given by a flag, and the copy lies in the data directory; addresses are fetched by server/outgoing, " +
			"and sizes are bounded.",
		sites: []string{"file in Source.keep ×3", "file in readFile"},
	},
	"tunnel": {
		why: "The server's address is that of the agent's configuration; names are looked up in bounded answers (names.lookup), " +
			"and TLS verifies the server.",
		sites: []string{
			"client in Client.ping ×2", "client in Client.reset", "client in package level", "dial in Client.connect",
			"dial in connectWithin",
		},
	},
	"tunnel/trust": {
		why: "The address is the agent's server; what it answers is bounded, no redirect is followed, and the bundle counts " +
			"only with the proof by the token (Fetch).",
		sites: []string{"client in Fetch ×2"},
	},
}
