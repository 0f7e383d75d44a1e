// The two kinds of tokens: the registration token, which many hosts of a cluster
// share, and the machine token, which each host gets for its own.

package registration

import (
	"cmp"
	"context"
	"crypto/subtle"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/clientip"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// DefaultToken is the name of the registration token that each cluster has.
const DefaultToken = "default-token"

// NewToken is a fresh registration token that never expires.
func NewToken(cluster records.Cluster, name string, now time.Time) records.RegistrationToken {
	return records.RegistrationToken{
		ClusterID:        cluster.ID,
		ClusterNamespace: cluster.Namespace,
		ClusterName:      cluster.Name,
		Name:             name,
		Token:            randomid.Secret(),
		Created:          now.UTC().Truncate(time.Second),
	}
}

// Rotated is a token of the same name and home in place of one: hosts that have joined need neither.
func Rotated(t records.RegistrationToken, now time.Time) records.RegistrationToken {
	t.Token, t.Created, t.Expires = randomid.Secret(), now.UTC().Truncate(time.Second), time.Time{}
	return t
}

// bearerToken is the token of the Authorization header; the scheme is read in any case.
func bearerToken(r *http.Request) (string, bool) {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	return token, ok && strings.EqualFold(scheme, "bearer") && token != ""
}

// same compares secrets in a time that does not depend on where they differ.
func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

// home is what hosts join by a registration token: a cluster or a fleet.
type home struct {
	records.Object
	id string
	// cluster is the zero value for a fleet.
	cluster records.Cluster
}

func (h home) key() records.ClusterKey { return records.NewClusterKey(h.Namespace, h.Name) }

// imported says that it is a cluster whose hosts are not the server's.
func (h home) imported() bool { return !h.key().Fleet() && h.cluster.Spec.Imported() }

func (h home) String() string { return h.key().Home() }

// homeOf is what hosts with this registration token may join now.
func (g *Registration) homeOf(bearer string) (home, *norman.Error) {
	denied := func(format string, args ...any) (home, *norman.Error) {
		return home{}, norman.Errorf(http.StatusUnauthorized, norman.Unauthorized, format, args...)
	}
	d, known := g.state.RegistrationTokensByHash.First(randomid.Hash(bearer))
	if !known {
		return denied("this registration token is not known: copy the cluster's join command again")
	}
	found := d.Value
	if !found.Expires.IsZero() && !g.now().Before(found.Expires) {
		return denied("this registration token of %s expired at %s: copy the cluster's join command again",
			found.Home(), found.Expires.UTC().Format(time.RFC3339))
	}
	h, ok := find(g.state, found)
	switch {
	case !ok && h.key().Fleet():
		return denied("this registration token is for another fleet, %s (%s), which does not exist any more", found.ClusterName, found.ClusterID)
	case !ok:
		return denied("this registration token is for another cluster, %s (%s), which does not exist any more", found.ClusterName, found.ClusterID)
	case !h.Deleting.IsZero() && !(h.cluster.Leave.Uninstall && (h.cluster.Spec.RKE1() || h.imported())): // which is reached to be cleaned
		return home{}, norman.Errorf(http.StatusConflict, norman.Conflict, "%s is being removed since %s and takes no machines", h, h.Deleting.Format(time.RFC3339))
	}
	return h, nil
}

// find is the cluster or fleet of a token, if it is there.
func find(s *state.State, t records.RegistrationToken) (home, bool) {
	h := home{Object: records.Object{Namespace: t.ClusterNamespace, Name: t.ClusterName}}
	if h.key().Fleet() {
		if d, ok := s.Fleets.Get(string(h.key())); ok {
			h.Object, h.id = d.Value.Object, d.Value.ID
		}
	} else if d, ok := s.Clusters.Get(string(h.key())); ok {
		h.Object, h.id, h.cluster = d.Value.Object, d.Value.ID, d.Value
	}
	return h, h.id != "" && h.id == t.ClusterID
}

// ClusterByToken is the cluster that hosts with this registration token may join now; the
// error says for people why there is none.
func (g *Registration) ClusterByToken(token string) (records.Cluster, error) {
	h, err := g.homeOf(token)
	switch {
	case err != nil:
		return records.Cluster{}, err
	case h.key().Fleet():
		return records.Cluster{}, norman.Errorf(http.StatusConflict, norman.Conflict, "this registration token is for %s: run on the host what `drover fleets join-command %s` prints", h, h.Name)
	}
	return h.cluster, nil
}

// KnowsToken says that hosts with this registration token may join something now.
func (g *Registration) KnowsToken(token string) bool {
	_, err := g.homeOf(token)
	return err == nil
}

// WrongToken notes a wrong registration token and is how long its sender has to wait; 0 for not.
func (g *Registration) WrongToken(remote string) time.Duration {
	return g.wrong.take(clientip.Of(remote), wrongRate, g.now())
}

// tokenPrefix begins every machine token: <prefix>.<namespace>.<machine>.<secret>.
const tokenPrefix = "drover-machine"

// issue gives the machine a new token and is that token; only its hash is kept. The
// token that the host uses at present stays valid until the new one was used once: the
// answer with the new one may never have arrived.
func issue(m *records.Machine) (token string) {
	token = strings.Join([]string{tokenPrefix, m.Namespace, m.Name, randomid.Secret()}, ".")
	m.PreviousTokenHash = cmp.Or(m.PreviousTokenHash, m.TokenHash)
	m.TokenHash = randomid.Hash(token)
	return token
}

// machineOf is the key of the machine that a token names.
func machineOf(bearer string) (key records.MachineKey, ok bool) {
	parts := strings.Split(bearer, ".")
	if len(parts) != 4 || parts[0] != tokenPrefix {
		return "", false
	}
	return records.NewMachineKey(parts[1], parts[2]), true
}

// IsMachineToken says whether a token has the form of a machine's.
func IsMachineToken(bearer string) bool {
	_, ok := machineOf(bearer)
	return ok
}

// Tokens are the tokens of all machines. Worker must run beside what asks them.
type Tokens struct {
	state    *state.State
	retiring *retiring
	streams  auth.Streams
}

// NewTokens makes Tokens over what is in the store.
func NewTokens(st *state.State) *Tokens {
	k := &Tokens{state: st, retiring: newRetiring()}
	k.follow()
	return k
}

// MachineByToken finds the machine that a machine token belongs to. The first use of a new token ends the previous one: at once in this process, and
// by the worker for all servers and for good.
func (k *Tokens) MachineByToken(bearer string) (key records.MachineKey, ok bool) {
	key, ok = machineOf(bearer)
	if !ok {
		return "", false
	}
	machine, found := k.state.Machines.Get(string(key))
	hash := randomid.Hash(bearer)
	m := machine.Value
	switch {
	case !found || m.TokenHash == "":
		return "", false
	case same(hash, m.TokenHash):
		if m.PreviousTokenHash != "" {
			k.retiring.add(string(key), m.PreviousTokenHash)
		}
		return key, true
	case m.PreviousTokenHash != "" && same(hash, m.PreviousTokenHash):
		return key, !k.retiring.has(string(key), hash)
	}
	return "", false
}

// retiring are previous tokens that are over, by machine, until the store says so.
type retiring struct {
	added  reconcile.Signal
	mu     sync.Mutex
	hashes map[string]string
}

func newRetiring() *retiring {
	return &retiring{added: reconcile.Signal{Of: "machines that use their new token"}, hashes: map[string]string{}}
}

func (t *retiring) add(key, hash string) {
	t.mu.Lock()
	known := t.hashes[key] == hash
	t.hashes[key] = hash
	t.mu.Unlock()
	if !known {
		t.added.Add(key)
	}
}

func (t *retiring) has(key, hash string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hashes[key] == hash
}

// proves says which of the machine's tokens, by its hash, the host of a registration has.
func (t *retiring) proves(m records.Machine, by claim) (hash string, ok bool) {
	previous := m.PreviousTokenHash
	if t.has(m.Key(), previous) {
		previous = ""
	}
	return by.proves(m.TokenHash, previous)
}

func (t *retiring) done(key, hash string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.hashes[key] == hash {
		delete(t.hashes, key)
	}
}

// of is the hash of a machine's token that is over.
func (t *retiring) of(key string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.hashes[key]
}

func (t *retiring) keys() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return slices.Collect(maps.Keys(t.hashes))
}

// retryAfter is how long the store is left alone after it refused a write.
const retryAfter = 5 * time.Second

func retire(ctx context.Context, machines *store.Collection[records.Machine], key, hash string) error {
	var gone *store.NotFoundError
	_, err := machines.Modify(ctx, key, func(m records.Machine) (records.Machine, error) {
		if m.PreviousTokenHash != hash {
			return m, store.ErrUnchanged
		}
		m.PreviousTokenHash = ""
		return m, nil
	})
	if errors.As(err, &gone) {
		return nil
	}
	return err
}
