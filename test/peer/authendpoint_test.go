//go:build e2e

// A real kube-apiserver with an authorized endpoint: what the server puts into a cluster, and what answers there who a
// token is.

package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientgo "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/drover-project/drover/daemon/apiauth"
	"github.com/drover-project/drover/plans/clusterauth"
	"github.com/drover-project/drover/server/controllers/authtokens"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/reconcile"
	"github.com/drover-project/drover/server/records"
)

// refusedWithin is how long a token counts in a cluster after it was disabled: the ten seconds for which kube-apiserver remembers
// who a token was, and what it takes to carry the change there.
const refusedWithin = 10*time.Second + time.Second

// people are the users and tokens of a server.
type people struct {
	mu     sync.Mutex
	tokens []records.Token
}

func (p *people) change(f func(*records.Token)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tokens = append([]records.Token{}, p.tokens...)
	for i := range p.tokens {
		f(&p.tokens[i])
	}
}

func TestAuthorizedEndpoint(t *testing.T) {
	k := startKubernetes(t)
	webhook := freeAddress(t)
	config := k.file("webhook.yaml", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: Default, cluster: {insecure-skip-tls-verify: true, server: "http://%s%s"}}]
users: [{name: Default, user: {insecure-skip-tls-verify: true}}]
current-context: webhook
contexts: [{name: webhook, context: {user: Default, cluster: Default}}]
`, webhook, apiauth.ReviewPath))
	k.restartAPI(t, "--authentication-token-webhook-config-file="+config, "--authentication-token-webhook-cache-ttl=0s")

	// The server's side: ann has two tokens, one in the form of before there were salts.
	const key, oldKey = "zqtmvbkhjdwlsrncfpgx2456789zqtmvbkhjdwlsrncfpgx2456789", "246"
	p := &people{tokens: []records.Token{
		{Name: "kubeconfig-u-ann01abcde", UserID: "u-ann01", ClusterID: "c-m-1", ClusterHash: clusterauth.Hash(key), Expires: time.Now().Add(time.Hour)},
		{Name: "token-old", UserID: "u-ann01", ClusterID: "c-m-1", KeyHash: randomid.Hash(oldKey)},
		{Name: "token-other", UserID: "u-ann01", ClusterID: "c-m-2", KeyHash: randomid.Hash(oldKey)},
	}}
	client, err := clientgo.NewForConfig(&rest.Config{Host: k.url, BearerToken: k.admin, TLSClientConfig: rest.TLSClientConfig{CAData: k.ca}})
	must(t, err)
	log := slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelDebug}))
	keeper := authtokens.NewKeeper(authtokens.Options{
		Clusters: func() []records.ClusterKey { return []records.ClusterKey{"fleet-default/harbour"} },
		Cluster: func(records.ClusterKey) (authtokens.Cluster, bool) {
			return authtokens.Cluster{ID: "c-m-1", Endpoint: true}, true
		},
		Tokens: func() []records.Token { p.mu.Lock(); defer p.mu.Unlock(); return p.tokens },
		User:   func(id string) (records.User, bool) { return records.User{ID: id, Groups: []string{"team://1"}}, true },
		Uses:   func(string, string) bool { return true }, Image: func() string { return "drover/rancher-agent:test" }, Registry: func() string { return "" },
		Client: func(records.ClusterKey) (clientgo.Interface, error) { return client, nil }, Now: time.Now, Logger: log,
	})
	ctx, stop := context.WithCancel(t.Context())
	queue, wait := reconcile.Begin(ctx, keeper.Worker(), log)
	var webhooks sync.WaitGroup
	t.Cleanup(func() { stop(); wait(); webhooks.Wait() })
	arrived, cancel := context.WithTimeout(ctx, soon)
	defer cancel()
	must(t, authtokens.Await(arrived, client, "token-old"))

	// kube-api-auth by its own account, with no more rights than the manifest gives it.
	var account struct{ Status struct{ Token string } }
	must(t, k.call(http.MethodPost, "/api/v1/namespaces/cattle-system/serviceaccounts/kube-api-auth/token", bearer(k.admin), map[string]any{"spec": map[string]any{}}, &account))
	webhooks.Go(func() {
		cluster := &apiauth.Cluster{URL: k.url, Client: k.client, Token: func() (string, error) { return account.Status.Token, nil }}
		if err := apiauth.Run(ctx, apiauth.Options{Cluster: cluster, Listen: []string{webhook}, Logger: log}); err != nil {
			t.Error(err)
		}
	})
	// Rights by a group, as the server binds them.
	k.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", map[string]any{
		"metadata": map[string]any{"name": "team"}, "rules": []any{map[string]any{"apiGroups": []string{""}, "resources": []string{"pods"}, "verbs": []string{"list"}}},
	})
	k.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", map[string]any{
		"metadata": map[string]any{"name": "crb-team"}, "roleRef": map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "team"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "team://1"}},
	})
	const ann = "kubeconfig-u-ann01abcde:" + key
	pods := func(token string) error {
		return k.call(http.MethodGet, "/api/v1/namespaces/default/pods", bearer(token), nil, nil)
	}
	await(t, "ann reads pods", func() error { return pods(ann) })
	must(t, pods("token-old:"+oldKey))
	for _, bad := range []string{"kubeconfig-u-ann01abcde:wrong", "token-other:" + oldKey, "token-none:x", "nonsense"} {
		if err := pods(bad); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := k.call(http.MethodGet, "/api/v1/namespaces/cattle-system/secrets", bearer(ann), nil, nil); err == nil || !strings.Contains(err.Error(), "403") || !strings.Contains(err.Error(), "u-ann01") {
		t.Errorf("ann reads secrets: %v", err)
	}
	var self struct {
		Status struct {
			UserInfo struct {
				Username, UID string
				Groups        []string
				Extra         map[string][]string
			}
		}
	}
	must(t, k.call(http.MethodPost, "/apis/authentication.k8s.io/v1/selfsubjectreviews", bearer(ann), map[string]any{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}, &self))
	got := self.Status.UserInfo
	if got.Username != "u-ann01" || got.UID != "u-ann01" || !cmp.Equal(got.Groups, []string{"team://1", "system:cattle:authenticated", "system:authenticated"}) ||
		!cmp.Equal(got.Extra["requesttokenid"], []string{"kubeconfig-u-ann01abcde"}) {
		t.Errorf("ann is %+v", got)
	}
	await(t, "the use is noted", func() error {
		var used clusterauth.Token
		if err := k.call(http.MethodGet, clusterauth.Path(clusterauth.Tokens, "kubeconfig-u-ann01abcde"), bearer(k.admin), nil, &used); err != nil || used.LastUsedAt != "" {
			return err
		}
		return errors.New("not yet")
	})

	// Disabled: refused, though kube-apiserver has just remembered who it was.
	must(t, pods(ann))
	p.change(func(t *records.Token) { t.Disabled = strings.HasPrefix(t.Name, "kubeconfig-") })
	began := time.Now()
	queue.Add("fleet-default/harbour")
	awaitFor(t, 2*refusedWithin, "ann is refused", func() error {
		if err := pods(ann); err == nil || !strings.Contains(err.Error(), "401") {
			return fmt.Errorf("she is not: %w", err)
		}
		return nil
	})
	took := time.Since(began).Round(10 * time.Millisecond)
	t.Logf("a disabled token was refused after %s (budget %s)", took, refusedWithin)
	if took > refusedWithin {
		t.Errorf("it took %s", took)
	}
	must(t, pods("token-old:"+oldKey))
}
