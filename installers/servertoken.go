package installers

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
)

// MaxServerToken bounds a server token that is brought, in bytes.
const MaxServerToken = 512

var (
	// plainToken is a password; it is written into settings, URLs of curl and the environment of scripts as it is.
	plainToken = regexp.MustCompile(`^[!#-\[\]-~]+$`)
	// secureToken has the hash of the cluster's CA before it.
	secureToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^K10([0-9a-f]{64})?::([^:]*):(.*)$`) })
	// agentBootstrap is the form of kubeadm's tokens, which agents alone can have.
	agentBootstrap = regexp.MustCompile(`^[a-z0-9]{6}\.[a-z0-9]{16}$`)
)

// ReadServerToken is the password of a server token in one of the forms in which the distribution and drover show it: the password alone, or
// K10<hash of the CA>::server:<password>. White space around it does not count. The error says what is wrong and never what it read.
// Source: k3s-io/k3s pkg/clientaccess/token.go.
func ReadServerToken(text string) (string, error) {
	token := strings.TrimSpace(text)
	if secure := secureToken().FindStringSubmatch(token); secure != nil {
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
	case len(token) > MaxServerToken:
		return "", fmt.Errorf("it has more than %d characters", MaxServerToken)
	case agentBootstrap.MatchString(token):
		return "", errors.New("it is a bootstrap token of agents, by which no snapshot can be read")
	case !plainToken.MatchString(token):
		return "", errors.New("it is more than one word, or has quotation marks, backslashes or characters that are not ASCII; one token alone is expected")
	}
	return token, nil
}

// HashServerToken is what a snapshot has of the server token by which it can be read: the distribution keeps its certificates
// and keys in etcd under /bootstrap/ and this. Source: k3s-io/k3s pkg/cluster/encrypt.go, storageKey.
func HashServerToken(serverToken string) string {
	sum := sha256.Sum256([]byte(serverToken))
	return hex.EncodeToString(sum[:])[:12]
}
