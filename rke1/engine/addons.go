// Add-ons: the network of pods, DNS, metrics, ingress, and what users bring.

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/kube"
)

// deployAddons applies what has changed, and waits until it runs. The cluster's own add-ons end a
// run that cannot apply them; a user's are reported, and the run goes on.
func (r *run) deployAddons(ctx context.Context) error {
	if r.work.UpdateOnly {
		return nil
	}
	own, err := addons.Of(r.work.Config, r.Versions)
	if err != nil {
		return err
	}
	r.otherNetwork()
	for _, a := range own {
		if err := r.safePoint(); err != nil {
			return err
		}
		if err := r.deployAddon(ctx, a); err != nil {
			return err
		}
	}
	// Those that could be read are applied, whatever became of the others.
	users, err := addons.Users(ctx, r.work.Config, r.Addons)
	r.fail(err)
	var unready []string
	if r.work.Config.Network.Plugin != config.PluginNone { // else a user brings it, and nothing is ready without
		// The webhook of ingress refuses a user's ingresses until it runs.
		if unready, err = r.awaitAddons(ctx, own); err != nil {
			return err
		}
		own = nil
	}
	for _, a := range users {
		r.fail(r.deployAddon(ctx, a))
	}
	more, err := r.awaitAddons(ctx, slices.Concat(own, users))
	for _, text := range slices.Concat(unready, more) {
		r.Report.Warn(text)
	}
	return err
}

// otherNetwork says what a change of the network plugin leaves to people.
func (r *run) otherNetwork() {
	if r.fresh() {
		return
	}
	was, is := r.before.Current.Config.Network.Plugin, r.work.Config.Network.Plugin
	if was != is && was != config.PluginNone {
		r.Report.Warn(fmt.Sprintf("network.plugin was %s and is %s: the objects of %s stay in kube-system, and its files on hosts in /etc/cni/net.d, of which kubelets take the first by name; pods have its network until both are deleted and hosts start again", was, is, was))
	}
}

// awaitAddons waits until what add-ons start is ready, at most addon_job_timeout seconds for all
// of them, and returns what is not: an image that is slow to come does not make a run fail. While
// hosts are away their pods are not waited for.
func (r *run) awaitAddons(ctx context.Context, all []addons.Addon) (unready []string, err error) {
	limit := time.Duration(r.work.Config.AddonJobTimeout) * time.Second
	if len(r.down) > 0 {
		limit = 0
	}
	for end := r.Now().Add(limit); ; {
		unready = nil
		for _, a := range all {
			texts, err := r.api.Unready(ctx, a.Text)
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if err != nil {
				texts = []string{err.Error()} // what was applied stays so, whether it can be looked at or not
			}
			for _, text := range texts {
				unready = append(unready, fmt.Sprintf("add-on %s is not ready after %s (addon_job_timeout): %s", a.Name, limit, text))
			}
		}
		if len(unready) == 0 || !r.Now().Before(end) {
			return unready, ctx.Err()
		}
		if err := errors.Join(r.safePoint(), r.pause(ctx)); err != nil {
			return nil, err
		}
	}
}

// deployAddon applies an add-on, or removes it when it has no text any more. A user's objects
// stay when their text goes: a text that was lost must not take them along.
func (r *run) deployAddon(ctx context.Context, a addons.Addon) error {
	is, err := r.api.Addon(ctx, a.Name)
	if err != nil {
		return err
	}
	switch {
	case a.Text == "" && is == "":
		return nil
	case a.Text == "" && a.Users:
		r.Report.Warn(fmt.Sprintf("add-on %s is not in the config any more; its objects stay: delete them, and then the ConfigMap kube-system/%s", a.Name, a.Name))
		return nil
	case a.Text == "":
		r.line("addons", "Removing addon %s", a.Name)
		return r.api.Remove(ctx, a.Name)
	}
	if is == a.Text && !a.Users {
		return nil
	}
	r.line("addons", "Setting up %s", a.Name)
	if is != "" && is != a.Text {
		if err := r.api.Discard(ctx, objectsOf(a.Replaced)); err != nil {
			return err
		}
	}
	before := is
	if a.Users || a.Name == addons.Network {
		before = "" // what a user takes out of a text stays, as when all of it goes; and pods use a network that went
	}
	if err := r.api.Apply(ctx, a.Name, a.Text, before); err != nil {
		return err
	}
	r.line("addons", "Successfully applied %s", a.Name)
	return nil
}

func objectsOf(all []addons.Object) []kube.Object {
	objects := make([]kube.Object, len(all))
	for i, o := range all {
		objects[i] = kube.Object(o)
	}
	return objects
}
