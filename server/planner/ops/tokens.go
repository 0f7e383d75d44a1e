// Server tokens: which one a cluster has, and the rotation that gives it another.
//
// The token is what servers join with, and what the distribution encrypts its certificates and keys with that are in etcd and in
// each snapshot. Its command for a rotation writes those anew and no settings: from then on a server that starts with the old
// token does not come up. So all servers have to work before it, the store has both tokens, and those that went down go first.

package ops

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// MaxTokens bounds the server tokens that are kept of a cluster beside the one in force.
const MaxTokens = 32

// TokenHash is what a snapshot has of the server token by which it can be read: the distribution keeps its certificates
// and keys in etcd under /bootstrap/ and this. Source: k3s-io/k3s pkg/cluster/encrypt.go, storageKey.
func TokenHash(serverToken string) string {
	sum := sha256.Sum256([]byte(serverToken))
	return hex.EncodeToString(sum[:])[:12]
}

// tokens are all server tokens of a cluster, the newest first.
func tokens(s records.ClusterSecrets) []records.ServerToken {
	all := append([]records.ServerToken{{Token: s.ServerToken, Made: s.Made}}, s.Other...)
	if s.Next != nil {
		all = append(all, *s.Next)
	}
	slices.SortStableFunc(all, func(a, b records.ServerToken) int { return b.Made.Compare(a.Made) })
	return all
}

// TokenHashes are those of all server tokens of a cluster, the newest first: that is the order in which a snapshot is looked at,
// since the database that it was taken of may still hold what was deleted from it.
func TokenHashes(s records.ClusterSecrets) []string {
	var all []string
	for _, one := range tokens(s) {
		all = append(all, TokenHash(one.Token))
	}
	return all
}

// InForce are the secrets of a cluster whose server token is from now on the one with a hash; false when it has none such. The
// one before is kept.
func InForce(s records.ClusterSecrets, hash string) (records.ClusterSecrets, bool) {
	if hash == TokenHash(s.ServerToken) {
		return s, true
	}
	i := slices.IndexFunc(tokens(s), func(one records.ServerToken) bool { return TokenHash(one.Token) == hash })
	if i < 0 {
		return s, false
	}
	next, before := tokens(s)[i], records.ServerToken{Token: s.ServerToken, Made: s.Made}
	if s.Next != nil && s.Next.Token == next.Token {
		s.Next = nil
	}
	s.Other = append(slices.DeleteFunc(slices.Clone(s.Other), func(one records.ServerToken) bool { return one.Token == next.Token }), before)
	s.ServerToken, s.Made = next.Token, next.Made
	return s, true
}

// Expecting are the secrets of a cluster whose server token is to be rotated: with token as the next one, unless an earlier rotation
// left one, which etcd may have already. The error is why none can be made.
func Expecting(s records.ClusterSecrets, token string, now time.Time) (records.ClusterSecrets, error) {
	switch {
	case s.ServerToken == "":
		return s, fmt.Errorf("its tokens are not known")
	case s.Next != nil:
		return s, nil
	case len(s.Other) >= MaxTokens:
		return s, fmt.Errorf("it has had %d server tokens, and no more are kept; drover keeps each, since a snapshot may need it", len(s.Other)+1)
	}
	s.Next = &records.ServerToken{Token: token, Made: now}
	return s, nil
}

// retokened says that a task of a verb needs the server token of the request, and that the cluster has another one.
func (r Request) retokened(verb string, s records.ClusterSecrets) bool {
	return (verb == "retoken" || verb == "prove" || verb == "restore") && r.TokenHash != "" && r.TokenHash != TokenHash(s.ServerToken)
}

// retokens has the cluster's token become what the request needs.
func (d *decider) retokens(m Machine) error {
	if _, known := InForce(d.Secrets, d.request.TokenHash); !known {
		return fmt.Errorf("the server token with the hash %s is not known here any more", d.request.TokenHash)
	}
	d.out.Token = d.request.TokenHash
	d.waits(m, "the cluster takes the server token that it needs", "")
	return nil
}

// rotating are the steps of a rotation of the server token. It begins on the machine that began the cluster, if that has what it is
// to have: those that join meet it there.
func rotating(machines []Machine) ([]step, error) {
	servers, err := working(machines, "a server that does not get the new token cannot start again", "as they restart with the new token")
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(servers, func(m Machine) bool { return m.Roles.Etcd && m.Current })
	if i < 0 {
		return nil, fmt.Errorf("no server with etcd has the plan that the cluster wants; let that change come to its end first")
	}
	leader := servers[i]
	all := []step{{"token", leader}, {"retoken", leader}}
	for _, m := range servers {
		if m.Name != leader.Name {
			all = append(all, step{"retoken", m})
		}
	}
	return append(all, step{"prove", leader}), nil
}

// opens are the tokens by which a server may be spoken to: it knows the one that it started with.
func opens(s records.ClusterSecrets) []string {
	all := []string{s.ServerToken}
	for _, one := range tokens(s) {
		if !slices.Contains(all, one.Token) && len(all) < 4 {
			all = append(all, one.Token)
		}
	}
	return all
}

// needing is the record of an operation with a request in the place of its own.
func needing(o operations.Operation, r Request) operations.Operation {
	params := map[string]json.RawMessage{}
	ask, err := json.Marshal(r)
	if err != nil || json.Unmarshal(o.Params, &params) != nil {
		return o // it could not have been read
	}
	params["ask"] = ask
	if text, err := json.Marshal(params); err == nil {
		o.Params = text
	}
	return o
}
