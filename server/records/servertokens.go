// Server tokens of clusters: the one in force, those of before, and those that people brought.
//
// A server token is what servers join with, and what the distribution encrypts its certificates and keys with that are in etcd and in
// each snapshot. Operators add older tokens: a server that was rebuilt from nothing has the documents of its clusters and tokens of
// its own, by which no older snapshot can be read. An operator who kept the old token adds it, and a restore finds it among the tokens.

package records

import (
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/installers"
)

// MaxServerTokens bounds the server tokens that are kept of a cluster beside the one in force.
const MaxServerTokens = 32

// Hash is by what a snapshot can be read with the token; see installers.HashServerToken.
func (t ServerToken) Hash() string { return installers.HashServerToken(t.Token) }

// TokenHash is that of the token in force.
func (s ClusterSecrets) TokenHash() string { return installers.HashServerToken(s.ServerToken) }

// serverTokens are those of a cluster, the newest first.
func (s ClusterSecrets) serverTokens() []ServerToken {
	all := append([]ServerToken{{Token: s.ServerToken, Made: s.Made}}, s.Other...)
	if s.Next != nil {
		all = append(all, *s.Next)
	}
	slices.SortStableFunc(all, func(a, b ServerToken) int { return b.Made.Compare(a.Made) })
	return all
}

// TokenHashes are those of all server tokens of a cluster, the newest first: that is the order in which a snapshot is looked at,
// since the database that it was taken of may still hold what was deleted from it.
func (s ClusterSecrets) TokenHashes() []string {
	var all []string
	for _, one := range s.serverTokens() {
		all = append(all, one.Hash())
	}
	return all
}

// InForce are the secrets of a cluster whose server token is from now on the one with a hash; false when it has none such. The
// one before is kept.
func (s ClusterSecrets) InForce(hash string) (ClusterSecrets, bool) {
	if hash == s.TokenHash() {
		return s, true
	}
	i := slices.IndexFunc(s.serverTokens(), func(one ServerToken) bool { return one.Hash() == hash })
	if i < 0 {
		return s, false
	}
	next, before := s.serverTokens()[i], ServerToken{Token: s.ServerToken, Made: s.Made}
	if s.Next != nil && s.Next.Token == next.Token {
		s.Next = nil
	}
	s.Other = append(slices.DeleteFunc(slices.Clone(s.Other), func(one ServerToken) bool { return one.Token == next.Token }), before)
	s.ServerToken, s.Made = next.Token, next.Made
	return s, true
}

// Expecting are the secrets of a cluster whose server token is to be rotated: with token as the next one, unless an earlier rotation
// left one, which etcd may have already. The error is why none can be made.
func (s ClusterSecrets) Expecting(token string, now time.Time) (ClusterSecrets, error) {
	switch {
	case s.ServerToken == "":
		return s, fmt.Errorf("its tokens are not known")
	case s.Next != nil:
		return s, nil
	case len(s.Other) >= MaxServerTokens:
		return s, fmt.Errorf("it has had %d server tokens, and no more are kept; drover keeps each, since a snapshot may need it", len(s.Other)+1)
	}
	s.Next = &ServerToken{Token: token, Made: now}
	return s, nil
}

// Opening are the tokens by which a server may be spoken to: it knows the one that it started with.
func (s ClusterSecrets) Opening() []string {
	all := []string{s.ServerToken}
	for _, one := range s.serverTokens() {
		if !slices.Contains(all, one.Token) && len(all) < 4 {
			all = append(all, one.Token)
		}
	}
	return all
}

// Bringing are the secrets of a cluster for which people bring a server token, of the form of installers.ReadServerToken's answer. Of
// several such tokens a snapshot is tried with the oldest first. A token that the cluster has or had changes nothing. The error says why no
// more tokens are kept.
func (s ClusterSecrets) Bringing(token string) (next ClusterSecrets, known bool, err error) {
	hash := installers.HashServerToken(token)
	switch {
	case slices.Contains(s.TokenHashes(), hash):
		return s, true, nil
	case len(s.Other) >= MaxServerTokens:
		return s, false, fmt.Errorf("it has %d server tokens, and no more are kept; drover keeps each, since a snapshot may need it", len(s.Other)+1)
	}
	s.Other = append(slices.Clone(s.Other), ServerToken{Token: token})
	s.Brought = append(slices.Clone(s.Brought), hash)
	return s, false, nil
}

// BroughtToken says that people brought the server token that a cluster has.
func (s ClusterSecrets) BroughtToken() bool {
	return slices.Contains(s.Brought, s.TokenHash())
}
