// Package hostjob is what operations have done once on a host whose distribution runs already: a snapshot of etcd, new
// certificates, another encryption key, a restore. Each job is an instruction of a plan, a script that keeps on the
// host that it began and how it ended: delivered again, under any agent, it does nothing a second time, and after a
// crash it looks how far it had come.
//
// Sources: k3s-io/k3s pkg/cli and pkg/etcd, rancher/rancher pkg/capr/planner.
package hostjob

import (
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drover-project/drover/installers"
	"github.com/drover-project/drover/plans"
)

var (
	//go:embed once.sh
	once string
	//go:embed file.sh
	file string
	//go:embed aside.sh
	aside string
	//go:embed save.sh
	save string
	//go:embed fetch.sh
	fetch string
	//go:embed check.sh
	check string
	//go:embed certificates.sh
	certificates string
	//go:embed keys.sh
	keys string
	//go:embed token.sh
	token string
	//go:embed oldkeys.sh
	oldKeys string
	//go:embed restart.sh
	restart string
	//go:embed stop.sh
	stop string
	//go:embed restore.sh
	restore string
	//go:embed kubectl.sh
	kubectl string
	//go:embed forget.sh
	forget string
	//go:embed clean.sh
	clean string
	//go:embed agent.sh
	agent string
)

// Host is where a job is done.
type Host struct {
	Distribution installers.Distribution
	DataDir      string
	// Server says that the host runs more than pods.
	Server bool
}

// variable marks the instruction of a job.
const variable = "DROVER_ERRAND="

// instruction is the job with an ID that no other has had on the host.
func (h Host) instruction(id, script string, args ...string) plans.OneTimeInstruction {
	return plans.OneTimeInstruction{
		Instruction: plans.Instruction{
			Name: id, Command: "sh", Args: append([]string{"-c", once + script, id, id, h.DataDir, h.Distribution.Name}, args...), Env: []string{variable + id},
		},
		SaveOutput: true,
	}
}

// Of is the ID of the job among the instructions of a plan; empty when there is none.
func Of(all []plans.OneTimeInstruction) string {
	for _, in := range slices.Backward(all) {
		for _, env := range in.Env {
			if id, is := strings.CutPrefix(env, variable); is {
				return id
			}
		}
	}
	return ""
}

// Without are the instructions that are no job.
func Without(all []plans.OneTimeInstruction) []plans.OneTimeInstruction {
	return slices.DeleteFunc(slices.Clone(all), func(in plans.OneTimeInstruction) bool { return Of([]plans.OneTimeInstruction{in}) != "" })
}

// Only are the instructions that are a job.
func Only(all []plans.OneTimeInstruction) []plans.OneTimeInstruction {
	return slices.DeleteFunc(slices.Clone(all), func(in plans.OneTimeInstruction) bool { return Of([]plans.OneTimeInstruction{in}) == "" })
}

// Save takes a snapshot of the host's etcd; name begins the name of its file. Its output has a File.
func (h Host) Save(id, name string) plans.OneTimeInstruction {
	return h.instruction(id, file+save, name, h.Distribution.ConfigFile(), h.unit())
}

// Source is where a host fetches a snapshot from. Its link is a secret for as long as it opens.
type Source struct {
	// Link is a URL with https that needs no keys, and nothing but Opens.
	Link string
	// CA is PEM of certificates that count there beside the system's; Unverified takes any.
	CA         string
	Unverified bool
	// Size is that of the snapshot in bytes.
	Size int64
	// Opens is the secret to which the server opens the link; empty for one that leads to S3.
	Opens string
	// SHA256 is what the file has to have, in hex; empty where it is not known.
	SHA256 string
}

// Fetched is the file that a snapshot is fetched to for the restore of that name.
func (h Host) Fetched(restore, snapshot string) string {
	return path.Join(h.DataDir, "drover/fetched", restore, snapshot)
}

// Fetch brings a snapshot to the file Fetched. The link is in the environment alone.
func (h Host) Fetch(id, restore, snapshot string, from Source) plans.OneTimeInstruction {
	in := h.instruction(id, fetch, h.Fetched(restore, snapshot), strconv.FormatInt(from.Size, 10))
	in.Env = append(in.Env, from.environment()...)
	return in
}

// Check looks whether a snapshot can be restored on the host: a path, or the name of one of the distribution's own. The hashes
// are those of the cluster's server tokens, the newest first. Its output has a File.
func (h Host) Check(id, snapshot string, tokenHashes []string) plans.OneTimeInstruction {
	return h.instruction(id, file+check, append([]string{snapshot}, tokenHashes...)...)
}

// environment is what the script that fetches reads.
func (s Source) environment() []string {
	env := []string{"DROVER_SECRET_LINK=" + s.Link}
	if s.CA != "" {
		env = append(env, "DROVER_CA="+base64.StdEncoding.EncodeToString([]byte(s.CA)))
	}
	if s.Unverified {
		env = append(env, "DROVER_UNVERIFIED=yes")
	}
	if s.Opens != "" {
		env = append(env, "DROVER_FROM=the server", "DROVER_SECRET_OPENS="+s.Opens)
	}
	if s.SHA256 != "" {
		env = append(env, "DROVER_SHA256="+s.SHA256)
	}
	return env
}

// Certificates renews the certificates of the services, all without any, and starts the unit anew. An agent gets its own
// anew whenever it starts.
func (h Host) Certificates(id string, services []string) plans.OneTimeInstruction {
	if !h.Server {
		return h.Restart(id)
	}
	var pairs []string
	for _, c := range installers.Components() {
		if len(services) == 0 || slices.Contains(services, strings.TrimPrefix(c.Name, "kube-")) {
			pairs = append(pairs, c.Name)
		}
	}
	return h.instruction(id, oldKeys+certificates, append([]string{h.unit(), strings.Join(pairs, " ")}, services...)...)
}

// Keys rotates the key that encrypts Secrets in etcd. The other servers have it when they have started again.
func (h Host) Keys(id string) plans.OneTimeInstruction { return h.instruction(id, keys) }

// Token has the distribution write what etcd holds of its certificates and keys with the server token next, whose hash is
// that of etcd's key for it. opens are the tokens of which the server here knows one. Where that was done before, it
// sees that it was, and has the server save it once more if it knows next. The host has etcd, and its unit runs; it
// starts with next from then on only. With next as the one token of opens the server saves what it has of its settings, too.
//
// The distribution's own command takes the token as an argument, which everybody on the host can read. So what the
// command asks of the server is asked here. Source: k3s-io/k3s pkg/cli/token and pkg/server/handlers/token.go.
func (h Host) Token(id, next, hash string, opens []string) plans.OneTimeInstruction {
	in := h.instruction(id, token, h.Distribution.JoinURL("127.0.0.1")+"/v1-"+h.Distribution.Name+"/token", hash, h.unit())
	in.Env = append(in.Env, "DROVER_SECRET_NEXT="+next, "DROVER_SECRET_OPENS="+strings.Join(opens, " "))
	return in
}

// Restart restarts the distribution.
func (h Host) Restart(id string) plans.OneTimeInstruction {
	return h.instruction(id, restart, h.unit())
}

// Stop stops a server with all its pods, and moves aside what the restore with the name begins anew.
func (h Host) Stop(id, name string) plans.OneTimeInstruction {
	return h.instruction(id, aside+stop, append([]string{name, h.unit(), h.Distribution.KillAll}, h.Distribution.ScriptDirs...)...)
}

// Restore makes an etcd of one member out of a snapshot, as in Check. The unit has to be stopped; it does not start.
func (h Host) Restore(id, name, snapshot string) plans.OneTimeInstruction {
	return h.instruction(id, aside+restore, name, snapshot)
}

// Forget deletes the nodes of all machines but those with the UIDs. The host has a control plane.
func (h Host) Forget(id string, uids []string) plans.OneTimeInstruction {
	return h.instruction(id, kubectl+forget, append([]string{h.Distribution.AdminKubeconfig()}, uids...)...)
}

// Clean removes what restores have moved aside, and copies of private keys of before.
func (h Host) Clean(id string) plans.OneTimeInstruction { return h.instruction(id, oldKeys+clean) }

// UpdateAgent replaces the agent of the host, which decides whether the new one stays. The program is at the URL from, to which "-" and the
// architecture are added, with a checksum in hex for each; ca is PEM of the authorities of that URL, empty for those of the host. The output is
// for Updated.
func (h Host) UpdateAgent(id, from, ca string, sha256 map[string]string) plans.OneTimeInstruction {
	in := h.instruction(id, agent, from, sha256["amd64"], sha256["arm64"])
	if ca != "" {
		in.Env = append(in.Env, "DROVER_CA="+base64.StdEncoding.EncodeToString([]byte(ca)))
	}
	return in
}

// updatedForm is the last line of rancher-system-agent self-update.
var updatedForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^updated from ([A-Za-z0-9._+-]{1,64}) to ([A-Za-z0-9._+-]{1,64})$`)
})

// Updated is what became of the agent of a host, in a line that can be shown.
func Updated(output []byte) string {
	if m := updatedForm().FindSubmatch(output); m != nil {
		return fmt.Sprintf("updated from %s to %s", m[1], m[2])
	}
	return "it had this agent already"
}

// maxRemoved is how many directories Removed names.
const maxRemoved = 5

// Removed is what a job says that it removed of private keys of before, as one sentence that can be shown; empty when
// it removed none.
func Removed(output []byte) string {
	var dirs []string
	for line := range strings.Lines(string(output)) {
		if dir, ok := strings.CutPrefix(strings.TrimSpace(line), "removed with the private keys of before: "); ok && oldKeysForm().MatchString(dir) {
			dirs = append(dirs, dir)
		}
	}
	more := ""
	if n := len(dirs) - maxRemoved; n > 0 {
		dirs, more = dirs[:maxRemoved], fmt.Sprintf(" and %d more", n)
	}
	if len(dirs) == 0 {
		return ""
	}
	return "removed with the private keys of before: " + strings.Join(dirs, ", ") + more
}

// oldKeysForm is such a directory: what a host says is shown to people.
var oldKeysForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^/[A-Za-z0-9/._+@ -]{1,200}/tls-[0-9]{1,20}$`) })

func (h Host) unit() string { return h.Distribution.Unit(h.Server) }

// File is a snapshot that was found whole on a host.
type File struct {
	// File is its path.
	File string `json:"file"`
	// Size is in bytes.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// TokenHash says by which server token it can be read; empty where that was not looked at, or an archive does not say it.
	TokenHash string `json:"tokenHash,omitempty"`
}

// ReadFile reads the output of Save and of Check. The error says that no snapshot is in it.
func ReadFile(output []byte) (File, error) {
	var f File
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(string(output)), "\n")) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			return f, fmt.Errorf("read what the host says of the snapshot: %w", err)
		}
		return f, nil
	}
	return f, fmt.Errorf("the host does not say which snapshot it has")
}
