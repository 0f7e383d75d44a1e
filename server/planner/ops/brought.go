// Server tokens that people bring. A server that was rebuilt from nothing has the documents of its clusters and tokens of its own,
// by which no snapshot of before can be read; who kept the old token brings it, and a restore finds it among the others.
//
// Beside the server token a snapshot holds the agent token of its time, in a file that the distribution compares with its own
// when it starts: one that is newer than what etcd has ends it. So such a restore has the server write that anew before
// anything starts a second time. Source: k3s-io/k3s pkg/cluster/bootstrap.go, ReconcileBootstrapData.

package ops

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/server/records"
)

// MaxToken bounds a server token that is brought, in bytes.
const MaxToken = 512

var (
	// plainToken is a password; it is written into settings, URLs of curl and the environment of scripts as it is.
	plainToken = regexp.MustCompile(`^[!#-\[\]-~]+$`)
	// secureToken has the hash of the cluster's CA before it.
	secureToken = regexp.MustCompile(`^K10([0-9a-f]{64})?::([^:]*):(.*)$`)
	// agentBootstrap is the form of kubeadm's tokens, which agents alone can have.
	agentBootstrap = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
)

// ReadToken is the password of a server token in one of the forms in which the distribution and drover show it: the password alone, or
// K10<hash of the CA>::server:<password>. White space around it does not count. The error says what is wrong and never what it read.
// Source: k3s-io/k3s pkg/clientaccess/token.go.
func ReadToken(text string) (string, error) {
	token := strings.TrimSpace(text)
	if secure := secureToken.FindStringSubmatch(token); secure != nil {
		if secure[2] != "server" {
			return "", fmt.Errorf("it is a token of the user %.20q, and snapshots are read by that of the user server; on a server of the cluster it is in server/token of the data directory", secure[2])
		}
		token = secure[3]
	} else if strings.HasPrefix(token, "K10") && strings.Contains(token, ":") {
		return "", errors.New("it is cut or has another form: after K10 come the 64 hex digits of the hash of a CA, and ::server: before the password")
	}
	switch {
	case token == "":
		return "", errors.New("it is empty")
	case len(token) > MaxToken:
		return "", fmt.Errorf("it has more than %d characters", MaxToken)
	case agentBootstrap.MatchString(token):
		return "", errors.New("it is a bootstrap token of agents, by which no snapshot can be read")
	case !plainToken.MatchString(token):
		return "", errors.New("it is more than one word, or has quotation marks, backslashes or characters that are not ASCII; one token alone is expected")
	}
	return token, nil
}

// Bringing are the secrets of a cluster for which people bring a server token, of the form of ReadToken's answer. Of several
// the one that came first is looked for first. One that the cluster has or had changes nothing. The error is why no more are kept.
func Bringing(s records.ClusterSecrets, token string) (next records.ClusterSecrets, known bool, err error) {
	hash := TokenHash(token)
	switch {
	case slices.Contains(TokenHashes(s), hash):
		return s, true, nil
	case len(s.Other) >= MaxTokens:
		return s, false, fmt.Errorf("it has %d server tokens, and no more are kept; drover keeps each, since a snapshot may need it", len(s.Other)+1)
	}
	s.Other = append(slices.Clone(s.Other), records.ServerToken{Token: token})
	s.Brought = append(slices.Clone(s.Brought), hash)
	return s, false, nil
}

// brought says that people brought the server token that a cluster has.
func brought(s records.ClusterSecrets) bool {
	return slices.Contains(s.Brought, TokenHash(s.ServerToken))
}

// likely are the hashes of a cluster's server tokens, that of the request first: its snapshot was listed with it.
func (r Request) likely(s records.ClusterSecrets) []string {
	all := TokenHashes(s)
	if i := slices.Index(all, r.TokenHash); i > 0 {
		return slices.Concat(all[i:i+1], all[:i], all[i+1:])
	}
	return all
}
