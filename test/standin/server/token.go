package server

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/drover-project/drover/test/standin/atomicfile"
)

// ensureTokens writes the server's and the agents' tokens in their long form, K10<hash of the CA>::user:password. A
// cluster keeps its token for life: the real one encrypts its bootstrap data with it and refuses another.
func ensureTokens(l layout, token, agentToken string) error {
	password := tokenPassword(token)
	before, err := os.ReadFile(l.server("token"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if password == "" {
			password = rand.Text()
		}
	case err != nil:
		return fmt.Errorf("read the cluster's token: %w", err)
	default:
		known := tokenPassword(strings.TrimSpace(string(before)))
		if password != "" && subtle.ConstantTimeCompare([]byte(password), []byte(known)) == 0 {
			return fmt.Errorf("the token given is not the one this cluster was made with (%s): give that one, or remove %s", l.server("token"), l.data)
		}
		password = known
	}
	ca, err := os.ReadFile(l.tls("server-ca.crt"))
	if err != nil {
		return err
	}
	sum := sha256.Sum256(ca)
	prefix := "K10" + hex.EncodeToString(sum[:]) + "::"
	if err := atomicfile.Write(l.server("token"), []byte(prefix+"server:"+password+"\n"), 0o600); err != nil {
		return err
	}
	if err := atomicfile.Write(l.server("node-token"), []byte(prefix+"server:"+password+"\n"), 0o600); err != nil {
		return err
	}
	if agent := tokenPassword(agentToken); agent != "" {
		return atomicfile.Write(l.server("agent-token"), []byte(prefix+"node:"+agent+"\n"), 0o600)
	}
	return nil
}

// tokenPassword is the password in a token of either form.
func tokenPassword(token string) string {
	if rest, long := strings.CutPrefix(token, "K10"); long {
		if _, credentials, ok := strings.Cut(rest, "::"); ok {
			if _, password, ok := strings.Cut(credentials, ":"); ok {
				return password
			}
			return credentials
		}
	}
	return token
}
