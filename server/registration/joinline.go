// The lines that people paste on a host so that it joins: pure text.
// Each ends where the caller appends flags.

package registration

import (
	"encoding/base64"
	"regexp"
	"strings"
	"time"

	"github.com/drover-project/drover/server/clusterspec"
)

// Host is what a host has to know.
type Host struct {
	// Server is the URL, Token a registration token.
	Server, Token string
	// Checksum is of the authority that the host pins; empty for the system's.
	Checksum string
	// Env are the variables that the cluster gives to its agents.
	Env []clusterspec.EnvVar
}

// LinuxCommand is Rancher's, with a curl of some flags.
func (h Host) LinuxCommand(curl string) string {
	pairs := assignments(h.Env)
	return pairs + curl + " " + h.Server + "/system-agent-install.sh | sudo " + pairs + h.installer(" --token "+h.Token)
}

// LinuxLine hands the token over on standard input, as a line before the script: echo is part of
// the shell, so that no process ever has the token in its arguments. When curl fails, that line
// is all that the other shell runs; the script itself does nothing unless it is complete.
func (h Host) LinuxLine(ca string) string {
	pairs := assignments(h.Env)
	curl := pairs + "curl -fL "
	if ca != "" {
		curl = "echo " + base64.StdEncoding.EncodeToString([]byte(ca)) + " | base64 -d | " + pairs + "curl -fL --cacert /dev/stdin "
	}
	return "{ echo " + tokenVariable + "=" + h.Token + "; " + curl + h.Server + "/system-agent-install.sh; } | sudo " + pairs + h.installer("")
}

// installer is the shell that runs install.sh, with its flags.
func (h Host) installer(token string) string {
	return "sh -s - --server " + h.Server + " --label 'cattle.io/os=linux'" + token + h.pin()
}

func (h Host) pin() string {
	if h.Checksum == "" {
		return ""
	}
	return " --ca-checksum " + h.Checksum
}

// assignments are the variables as they stand before a command.
func assignments(env []clusterspec.EnvVar) string {
	pairs := ""
	for _, e := range usable(env) {
		pairs += e.Name + "=" + shellQuoted(e.Value) + " "
	}
	return pairs
}

// tokenVariable is where install.sh and the node agent look for the registration token.
const tokenVariable = "CATTLE_TOKEN"

// DockerCommand is Rancher's, which runs the node agent.
func (h Host) DockerCommand(image string) string {
	return "sudo " + dockerRun + containerVariables(h.Env) + image + " --server " + h.Server + " --token " + h.Token + h.pin()
}

// DockerLine hands the token over in the environment: of sudo, of the docker client and of the
// container, where the value of -e without one comes from.
func (h Host) DockerLine(image string) string {
	return tokenVariable + "=" + h.Token + " sudo --preserve-env=" + tokenVariable + " " + dockerRun +
		"-e " + tokenVariable + " " + containerVariables(h.Env) + image + " --server " + h.Server + h.pin()
}

// dockerRun runs the node agent. The host pulls the image by itself: passwords of registries do
// not belong into a command.
const dockerRun = "docker run -d --privileged --restart=unless-stopped --net=host " +
	"-v /etc/kubernetes:/etc/kubernetes -v /var/run:/var/run "

func containerVariables(env []clusterspec.EnvVar) string {
	pairs := ""
	for _, e := range usable(env) {
		pairs += "-e " + shellQuoted(e.Name+"="+e.Value) + " "
	}
	return pairs
}

var envName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// usable leaves out what no shell could set: invalid names, empty values.
func usable(env []clusterspec.EnvVar) []clusterspec.EnvVar {
	var all []clusterspec.EnvVar
	for _, e := range env {
		if envName.MatchString(e.Name) && e.Value != "" && !strings.ContainsRune(e.Value, 0) {
			all = append(all, e)
		}
	}
	return all
}

// shellQuoted is the double-quoted form that users know from Rancher. A "!" or a line
// break cannot be made safe in there for interactive shells, so those get single quotes.
func shellQuoted(s string) string {
	if strings.ContainsAny(s, "!\n\r") {
		return singleQuoted(s)
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, `$`, `\$`, "`", "\\`").Replace(s) + `"`
}

// singleQuoted is the text as one word of a POSIX shell in which nothing is expanded.
func singleQuoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// ImportPath is where the manifests of clusters to import are, below the server's URL.
const ImportPath = "/v3/import/"

// Import are the lines for a cluster that is imported; the zero value is for any other.
type Import struct {
	// ManifestURL has the registration token in it, as have the lines.
	ManifestURL string
	// Command trusts what kubectl trusts, Insecure any server, and Pinned the server's own CA alone.
	Command, Insecure, Pinned string
	// CleanupURL has the names of what is to be deleted by hand where the cluster's agent does not answer.
	CleanupURL string
	// Spent is when the first agent was let in, with any token of the cluster: from then on a token lets in none but those of the
	// same Kubernetes. Zero before.
	Spent time.Time
}

// ImportOf are the lines for the cluster of an ID. CA is the PEM of the server's own authority; empty where it is a public one.
func (h Host) ImportOf(clusterID, ca string) Import {
	url := h.Server + ImportPath + h.Token + "_" + clusterID + ".yaml"
	i := Import{
		ManifestURL: url, Command: "kubectl apply -f " + url, Insecure: "curl --insecure -sfL " + url + " | kubectl apply -f -",
		CleanupURL: h.Server + ImportPath + "cleanup_" + clusterID + ".yaml",
	}
	if i.Pinned = i.Command; ca != "" {
		i.Pinned = "echo " + base64.StdEncoding.EncodeToString([]byte(ca)) + " | base64 -d | curl -sfL --cacert /dev/stdin " + url + " | kubectl apply -f -"
	}
	return i
}
