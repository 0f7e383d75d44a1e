// Making a cluster have the tokens that it should. What must not be there goes first: a user who has lost
// a token has lost it, even when a later write fails. Only objects with our marks are ever deleted.

package authtokens

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/client-go/kubernetes"

	"github.com/drover-project/drover/plans/clusterauth"
)

// secret is the part of a Secret that counts.
type secret struct {
	Data map[string][]byte `json:"data"`
}

// found is what a cluster has with our marks.
type found struct {
	tokens  map[string]clusterauth.Token
	users   map[string]clusterauth.User
	secrets map[string]secret
}

const (
	apiVersion  = clusterauth.Group + "/" + clusterauth.Version
	secretsPath = "/api/v1/namespaces/" + clusterauth.Namespace + "/secrets"
)

func (a api) found(ctx context.Context) (f found, err error) {
	const marks = managed + "=" + managedBy
	if f.tokens, err = list[clusterauth.Token](ctx, a, clusterauth.Path(clusterauth.Tokens, ""), marks); err != nil {
		return f, err
	}
	if f.users, err = list[clusterauth.User](ctx, a, clusterauth.Path(clusterauth.Users, ""), marks); err != nil {
		return f, err
	}
	f.secrets, err = list[secret](ctx, a, secretsPath, marks+","+tokenLabel+"=true")
	return f, err
}

// Sync makes a cluster have the wanted objects, and returns what it did, as in "token kubeconfig-u-abcde
// removed". It goes on after an error and returns all of them; apierrors.IsNotFound is true of one where
// the cluster does not have the types yet.
func Sync(ctx context.Context, client kubernetes.Interface, want Objects, now time.Time) (changes []string, err error) {
	s := &syncing{api: api{client.Discovery().RESTClient()}, now: now}
	have, err := s.api.found(ctx)
	if err != nil {
		return nil, err
	}
	s.clear(ctx, have, want)
	for _, name := range slices.Sorted(maps.Keys(want.Users)) {
		is, there := have.users[name]
		s.user(ctx, name, want.Users[name], is, there)
	}
	for _, name := range slices.Sorted(maps.Keys(want.Tokens)) {
		is, there := have.tokens[name]
		s.token(ctx, name, want, is, there, string(have.secrets[name].Data[clusterauth.HashKey]))
	}
	return s.changes, errors.Join(s.errors...)
}

type syncing struct {
	api     api
	now     time.Time
	changes []string
	errors  []error
}

func (s *syncing) did(what, verb string, err error) bool {
	if err != nil {
		s.errors = append(s.errors, fmt.Errorf("%s not %s: %w", what, verb, err))
		return false
	}
	s.changes = append(s.changes, what+" "+verb)
	return true
}

// clear removes what is there and not wanted.
func (s *syncing) clear(ctx context.Context, have found, want Objects) {
	for _, name := range surplus(have.tokens, want.Tokens) {
		s.did("token "+name, "removed", s.api.delete(ctx, clusterauth.Path(clusterauth.Tokens, name)))
	}
	for _, name := range surplus(have.users, want.Users) {
		s.did("user "+name, "removed", s.api.delete(ctx, clusterauth.Path(clusterauth.Users, name)))
	}
	for _, name := range surplus(have.secrets, want.Hashes) {
		s.did("secret "+name, "removed", s.api.delete(ctx, secretsPath+"/"+name))
	}
}

// user brings what the cluster has of one user to what it should be. An entry that the cluster asks to have refreshed is written, too, which answers that.
func (s *syncing) user(ctx context.Context, name string, want, have clusterauth.User, there bool) {
	if there && have.Enabled == want.Enabled && slices.Equal(have.Groups, want.Groups) && !have.NeedsRefresh {
		return
	}
	groups := want.Groups
	if groups == nil {
		groups = []string{}
	}
	s.did("user "+name, "written", s.api.apply(ctx, object{
		"apiVersion": apiVersion, "kind": clusterauth.UserKind, "metadata": metadata(name, nil),
		"groups": groups, "enabled": want.Enabled, "lastRefresh": s.now.UTC().Format(time.RFC3339), "needsRefresh": false,
	}))
}

// token writes the Secret first, so that no reader sees half of one.
func (s *syncing) token(ctx context.Context, name string, want Objects, have clusterauth.Token, there bool, hash string) {
	if wanted := want.Hashes[name]; hash != wanted {
		err := s.api.apply(ctx, object{
			"apiVersion": "v1", "kind": "Secret", "metadata": metadata(name, map[string]any{tokenLabel: "true"}),
			"type": "Opaque", "data": map[string]any{clusterauth.HashKey: []byte(wanted)},
		})
		if !s.did("secret "+name, "written", err) {
			return
		}
	}
	t := want.Tokens[name]
	if have.LastUsedAt = ""; there && have == t {
		return
	}
	s.did("token "+name, "written", s.api.apply(ctx, object{
		"apiVersion": apiVersion, "kind": clusterauth.TokenKind, "metadata": metadata(name, nil),
		"userName": t.UserName, "expiresAt": t.ExpiresAt, "enabled": t.Enabled, "hash": "",
	}))
}

func metadata(name string, labels map[string]any) map[string]any {
	all := map[string]any{managed: managedBy}
	maps.Copy(all, labels)
	return map[string]any{"name": name, "namespace": clusterauth.Namespace, "labels": all}
}

// surplus are the names of what is there and not wanted.
func surplus[H, W any](have map[string]H, want map[string]W) []string {
	var names []string
	for name := range have {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// awaitPause is between two questions whether a token has arrived.
const awaitPause = 200 * time.Millisecond

// Await waits until a token is in a cluster. The error says why it is not.
func Await(ctx context.Context, client kubernetes.Interface, token string) error {
	path := clusterauth.Path(clusterauth.Tokens, token)
	for {
		err := client.Discovery().RESTClient().Get().AbsPath(path).Do(ctx).Error()
		if err == nil {
			return nil
		}
		timer := time.NewTimer(awaitPause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("token %s is not in the cluster yet: %w", token, err)
		case <-timer.C:
		}
	}
}
