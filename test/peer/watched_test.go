//go:build e2e

// What a real kube-apiserver does to a watch, and drover's agent makes of it: the Secret is another one, the version to go
// on from is gone, and bookmarks move it.

package peer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/drover-project/drover/plans"
)

// remake deletes the plan Secret and makes another one of its name, with a plan delivered in it.
func (c *scene) remake(p plans.Plan) (made *secret) {
	c.Helper()
	path := secretPath(c.given.SecretName)
	must(c.T, c.api.call(http.MethodDelete, path, bearer(c.api.admin), nil, nil))
	next := &secret{Kind: "Secret", APIVersion: "v1", Type: plans.SecretType, Data: plans.Deliver(nil, encode(c.T, p))}
	next.Metadata.Name, next.Metadata.Namespace = c.given.SecretName, namespace
	made = new(secret)
	must(c.T, c.api.call(http.MethodPost, "/api/v1/namespaces/"+namespace+"/secrets", bearer(c.api.admin), next, made))
	return made
}

// newSecret: a Secret that is deleted and made again knows nothing of what was done for the one before, and so its plan
// is another one, even when it reads the same.
func (c *scene) newSecret() {
	c.started()
	plan := c.oneStep("step", "echo hello")
	checksum := c.deliver(plan)
	first := c.awaitState(plans.StateSucceeded)
	n := len(c.wire.events(0))
	made := c.remake(plan)
	if made.Metadata.UID == first.Metadata.UID {
		c.Fatalf("the Secret is the same one, %s", made.Metadata.UID)
	}
	stored := c.awaitState(plans.StateSucceeded)
	if o := stored.outcome(c.T); stored.Metadata.UID != made.Metadata.UID || o.AppliedChecksum != checksum || o.Revision != 1 || o.SuccessCount != 1 || string(o.AppliedOutput["step"]) != "hello\n" {
		c.Errorf("the outcome in Secret %s, made as %s, is %+v", stored.Metadata.UID, made.Metadata.UID, o)
	}
	if !slices.ContainsFunc(c.wire.events(0)[n:], func(e watched) bool { return e.kind == "DELETED" }) {
		c.Errorf("the agent never saw the deletion: %v", c.wire.events(0))
	}
	c.ran("step", 2, 1)
	c.deliver(c.oneStep("next", ":"))
	c.awaitState(plans.StateSucceeded)
	c.ran("next", 1, 1)
}

// newSecretMeanwhile: the Secret is made anew while the plan of the one before runs, whose result is then no plan's.
func (c *scene) newSecretMeanwhile() {
	c.started()
	c.deliver(c.oneStep("first", held+"; echo of the first"))
	c.awaitHeld()
	made := c.remake(c.oneStep("second", "echo of the second"))
	c.release()
	stored := c.awaitState(plans.StateSucceeded)
	o := stored.outcome(c.T)
	if _, reported := o.AppliedOutput["first"]; reported || stored.Metadata.UID != made.Metadata.UID || string(o.AppliedOutput["second"]) != "of the second\n" || o.Revision != 1 || o.SuccessCount != 1 {
		c.Errorf("the outcome in Secret %s, made as %s, is %+v", stored.Metadata.UID, made.Metadata.UID, o)
	}
	c.ran("first", 1, 1)
	c.ran("second", 1, 1)
}

// bookmarks: a watch that is cut goes on from the last bookmark, as nothing else says how far the server is when other
// Secrets change.
func (c *scene) bookmarks() {
	c.started()
	c.deliver(c.oneStep("step", ":"))
	mine := revision(c.T, c.awaitState(plans.StateSucceeded).Metadata.ResourceVersion)
	other := map[string]any{"metadata": map[string]any{"name": c.given.SecretName + "-other"}}
	must(c.T, c.api.call(http.MethodPost, "/api/v1/namespaces/"+namespace+"/secrets", bearer(c.api.admin), other, nil))
	for tries, since := 1, 0; ; tries++ {
		from, heard, next := c.cutBehindABookmark(mine, since)
		since = next
		if slices.ContainsFunc(heard, func(e watched) bool { return e.version == from }) {
			break
		}
		// The wire heard the bookmark at the very end, and it did not come to the agent any more.
		if tries == 3 || from != fmt.Sprint(mine) {
			c.Errorf("the watch goes on from version %s, which is not a bookmark's behind the own %d: %v", from, mine, heard)
			break
		}
	}
	c.deliver(c.oneStep("next", ":"))
	c.awaitState(plans.StateSucceeded)
	c.ran("step", 1, 1)
	c.ran("next", 1, 1)
}

// cutBehindABookmark cuts the watch once there was a bookmark behind a version, in an answer to a request since the one of that number. It
// returns from which version the next watch goes on, the bookmarks behind that version which the wire heard before, and how many requests
// there were then.
func (c *scene) cutBehindABookmark(mine int64, since int) (from string, heard []watched, n int) {
	c.Helper()
	behind := func(e watched) bool { return e.kind == "BOOKMARK" && revision(c.T, e.version) > mine }
	await(c.T, "a bookmark behind the own Secret; a server sends one a minute", func() error {
		all := c.wire.events(0)
		if last := all[len(all)-1]; last.request < since || !behind(last) {
			return fmt.Errorf("own version %d, the last event %+v", mine, last)
		}
		return nil
	})
	n = len(c.wire.requests())
	c.wire.cut()
	c.wire.heal()
	const resumed = "WATCH from a version 200"
	await(c.T, "the watch to be open again", func() error {
		if got := c.wire.texts(n); !slices.Contains(got, resumed) {
			return fmt.Errorf("so far %q", got)
		}
		return nil
	})
	for i, s := range c.wire.requests()[n:] {
		switch c.wire.texts(n)[i] {
		case resumed:
			from = s.query.Get("resourceVersion")
		case "GET /version 200":
		default:
			c.Errorf("the agent asked for %q, which it need not", c.wire.texts(n)[i])
		}
	}
	for _, e := range c.wire.events(0) {
		if e.request < n && behind(e) {
			heard = append(heard, e)
		}
	}
	return from, heard, n
}

// tooOld: while the agent is cut off its Secret changes, and then something makes the server forget the version that the
// agent would go on from.
func (c *scene) tooOld(forget func()) {
	c.started()
	c.deliver(c.oneStep("step", ":"))
	c.awaitState(plans.StateSucceeded)
	c.wire.cut()
	n := len(c.wire.requests())
	c.api.change(c.given.SecretName, annotate) // of the very last version etcd keeps the event, only not what was before
	checksum := c.deliver(c.oneStep("next", ":"))
	forget()
	c.wire.heal()
	stored := c.awaitState(plans.StateSucceeded)
	if o := stored.outcome(c.T); o.AppliedChecksum != checksum {
		c.Errorf("the outcome is %+v", o)
	}
	if !slices.ContainsFunc(c.wire.events(n), func(e watched) bool { return e.kind == "ERROR" && e.code == http.StatusGone }) && !slices.Contains(c.wire.texts(n), "WATCH from a version 410") {
		c.Errorf("the version was not gone, so this shows nothing: %q, %v", c.wire.texts(n), c.wire.events(n))
	}
	if got := c.wire.texts(n); !slices.Contains(got, "WATCH from the start 200") {
		c.Errorf("the agent did not begin anew: %q", got)
	}
	c.ran("step", 1, 1)
	c.ran("next", 1, 1)
}

// compact makes etcd forget all versions but the present ones.
func (k *kubernetes) compact(t *testing.T) {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: []string{k.etcd}, Logger: zap.NewNop()})
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	now, err := client.Get(ctx, "/")
	if err == nil {
		_, err = client.Compact(ctx, now.Header.Revision, clientv3.WithCompactPhysical())
	}
	must(t, errors.Join(err, client.Close()))
}
