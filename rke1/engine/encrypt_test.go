package engine

import (
	"context"
	"fmt"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/drover-project/drover/rke1/engine/keys"
	"github.com/drover-project/drover/rke1/engine/plane"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/state"
)

// TestAKeyStaysWhileASecretNeedsIt: etcd is asked for every Secret, however many there are, and one that is written otherwise ends the run
// before a key goes. What was written so already is not written again.
func TestAKeyStaysWhileASecretNeedsIt(t *testing.T) {
	y := newYard(t, twoMembers+"services: {kube-api: {secrets_encryption_config: {enabled: true}}}\n")
	next, _, err := run.Init(y.work, y.o.Source())
	if err != nil {
		t.Fatal(err)
	}
	text := next.Desired.Encryption
	prefix, err := state.StoredPrefix(text)
	if err != nil || prefix == "" {
		t.Fatal(prefix, err)
	}
	r, _ := voter(t, nil)
	first := r.Hosts["10.0.0.1"]
	put := func(key, value string) {
		t.Helper()
		if err := plane.Ask(t.Context(), r, first, "put", func(ctx context.Context, c *clientv3.Client) error {
			_, err := c.Put(ctx, key, value)
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range keys.SecretsPage + 10 {
		put(fmt.Sprintf("/registry/secrets/default/%03d", i), prefix+"\x00")
	}
	put("/registry/secretsofothers/default/x", "k8s\x00")
	if left, err := keys.Otherwise(t.Context(), r, prefix); left != 0 || err != nil {
		t.Errorf("%d are left, %v", left, err)
	}
	put("/registry/secrets/kube-system/last", "k8s\x00")
	if left, err := keys.Otherwise(t.Context(), r, prefix); left != 1 || err != nil {
		t.Errorf("of a page behind the first %d are left, %v", left, err)
	}
	r.API = kube.With(fake.NewSimpleClientset(), nil, nil)
	desired := *r.State
	desired.Desired.Encryption = text
	r.State = &desired
	for name, c := range map[string]struct {
		fresh, stale bool
		before       string
		writes       bool
	}{
		"the keys are new": {false, false, "", true}, "the keys are those of before": {false, false, text, false},
		"a new cluster": {true, false, "", false}, "a new one from a snapshot": {true, true, "", true},
	} {
		r.Before, r.Stale = *r.Work.Before, c.stale
		if r.Before.Current.Encryption = c.before; c.fresh {
			r.Before.Current.Config = nil
		}
		err := keys.EncryptSecrets(t.Context(), r)
		if (err != nil) != c.writes || err != nil && !strings.Contains(err.Error(), "no key was removed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
