// The commands by which hosts join a cluster, computed when they are read so that a
// changed server-url or CA changes them all at once.

package registration

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/records"
)

// ErrNoServerURL says that join commands need the setting server-url.
var ErrNoServerURL = errors.New("setting server-url is empty")

// NoTokenError says that a cluster has no registration token that is valid.
type NoTokenError struct{ ClusterID string }

func (e *NoTokenError) Error() string {
	return fmt.Sprintf("cluster %s has no valid registration token", e.ClusterID)
}

// JoinCommand is a registration token with the commands made of it: none for importing a
// cluster and none for Windows, which this version of drover has no use for. Commands for hosts
// end where the caller appends role flags: " --etcd --controlplane --worker",
// " --label k=v", " --node-name NAME". The insecure ones do not verify the server's
// certificate while they fetch the script.
type JoinCommand struct {
	Token string
	// NodeCommand and InsecureNodeCommand join a Linux host. In a cluster of Docker hosts they
	// run the node agent, which verifies the server in any case, and there are no others.
	NodeCommand         string
	InsecureNodeCommand string
}

// JoinCommand is the join command of a cluster's default token, or of its first valid
// one. When server-url is empty it returns the token alone and ErrNoServerURL; when
// there is no valid token, a *NoTokenError.
func (g *Registration) JoinCommand(clusterID string) (JoinCommand, error) {
	token, ok := g.validToken(clusterID)
	if !ok {
		return JoinCommand{}, &NoTokenError{ClusterID: clusterID}
	}
	return g.JoinCommandFor(token)
}

// JoinCommandFor is JoinCommand for one token, whether it is still valid or not.
func (g *Registration) JoinCommandFor(token records.RegistrationToken) (JoinCommand, error) {
	server := g.settings.ServerURL()
	if server == "" {
		return JoinCommand{Token: token.Token}, ErrNoServerURL
	}
	var spec clusterspec.Spec
	if c, ok := g.state.Clusters.Get(token.ClusterNamespace + "/" + token.ClusterName); ok && c.Value.ID == token.ClusterID {
		spec = c.Value.Spec
	}
	env, checksum := spec.AgentEnvVars, g.settings.CAChecksum()
	if spec.Docker() {
		command := dockerCommand(g.settings.Get("agent-image").Value, server, token.Token, checksum, env)
		return JoinCommand{Token: token.Token, NodeCommand: command, InsecureNodeCommand: command}, nil
	}
	return JoinCommand{
		Token:               token.Token,
		NodeCommand:         linuxCommand("curl -fL", server, token.Token, checksum, env),
		InsecureNodeCommand: linuxCommand("curl --insecure -fL", server, token.Token, checksum, env),
	}, nil
}

func (g *Registration) validToken(clusterID string) (records.RegistrationToken, bool) {
	now := g.now()
	valid := func(t records.RegistrationToken) bool { return t.Expires.IsZero() || now.Before(t.Expires) }
	if d, ok := g.state.RegistrationTokens.Get(clusterID + "/" + DefaultToken); ok && valid(d.Value) {
		return d.Value, true
	}
	for _, d := range g.state.RegistrationTokens.ListIn(clusterID + "/") {
		if valid(d.Value) {
			return d.Value, true
		}
	}
	return records.RegistrationToken{}, false
}

func linuxCommand(curl, server, token, checksum string, env []clusterspec.EnvVar) string {
	pairs := ""
	for _, e := range usable(env) {
		pairs += e.Name + "=" + shellQuoted(e.Value) + " "
	}
	command := fmt.Sprintf("%s%s %s/system-agent-install.sh | sudo %ssh -s - --server %s --label 'cattle.io/os=linux' --token %s",
		pairs, curl, server, pairs, server, token)
	if checksum != "" {
		command += " --ca-checksum " + checksum
	}
	return command
}

// dockerCommand runs the node agent. The host pulls the image by itself: passwords of
// registries do not belong into a command.
func dockerCommand(image, server, token, checksum string, env []clusterspec.EnvVar) string {
	pairs := ""
	for _, e := range usable(env) {
		pairs += "-e " + shellQuoted(e.Name+"="+e.Value) + " "
	}
	command := fmt.Sprintf("sudo docker run -d --privileged --restart=unless-stopped --net=host "+
		"-v /etc/kubernetes:/etc/kubernetes -v /var/run:/var/run %s%s --server %s --token %s", pairs, image, server, token)
	if checksum != "" {
		command += " --ca-checksum " + checksum
	}
	return command
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
