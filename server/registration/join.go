// The commands by which hosts join a cluster or a fleet, computed when they are read so that a
// changed server-url or CA changes them all at once.

package registration

import (
	"errors"
	"fmt"

	"github.com/drover-project/drover/server/records"
)

// ErrNoServerURL says that join commands need the setting server-url.
var ErrNoServerURL = errors.New("setting server-url is empty")

// NoTokenError says that a cluster has no registration token that is valid.
type NoTokenError struct{ ClusterID string }

func (e *NoTokenError) Error() string {
	return fmt.Sprintf("cluster %s has no valid registration token", e.ClusterID)
}

// JoinCommand is a registration token with the commands made of it: none for Windows, which this version of drover has
// no use for. Commands for hosts
// end where the caller appends role flags: " --etcd --controlplane --worker", for a fleet " --no-roles",
// " --label k=v", " --node-name NAME". The insecure ones do not verify the server's
// certificate while they fetch the script.
type JoinCommand struct {
	Token string
	// NodeCommand and InsecureNodeCommand join a Linux host. In a cluster of Docker hosts they
	// run the node agent, which verifies the server in any case, and there are no others.
	NodeCommand         string
	InsecureNodeCommand string
	// Line is NodeCommand as drover prints it for people: the token is in no argument of any
	// program, which other users of the host could read, and curl trusts the server's authority,
	// which the line carries.
	Line string
	// Import are the lines of an imported cluster, which hosts join by none of the others: clients of Rancher's API expect them
	// to be there.
	Import Import
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

// JoinCommandFor is JoinCommand for one token, whether it is still valid or not. The error is ErrNoServerURL.
func (g *Registration) JoinCommandFor(token records.RegistrationToken) (JoinCommand, error) {
	server := g.settings.ServerURL()
	if server == "" {
		return JoinCommand{Token: token.Token}, ErrNoServerURL
	}
	to, _ := find(g.state, token)
	spec := to.cluster.Spec
	host := Host{Server: server, Token: token.Token, Checksum: g.settings.CAChecksum(), Env: spec.AgentEnvVars}
	if spec.Docker() {
		image := g.settings.Get("agent-image").Value
		return JoinCommand{
			Token: token.Token, NodeCommand: host.DockerCommand(image), InsecureNodeCommand: host.DockerCommand(image), Line: host.DockerLine(image),
		}, nil
	}
	command := JoinCommand{
		Token:               token.Token,
		NodeCommand:         host.LinuxCommand("curl -fL"),
		InsecureNodeCommand: host.LinuxCommand("curl --insecure -fL"),
		Line:                host.LinuxLine(g.settings.CACerts()),
	}
	if to.imported() {
		command.Import = host.ImportOf(token.ClusterID, g.settings.CACerts())
		if d, ok := g.state.ClusterAgents.Get(string(to.key())); ok {
			command.Import.Spent = d.Value.Spent()
		}
	}
	return command, nil
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
