// Package addon deploys add-ons: the network of pods, DNS, metrics, ingress, and what users bring.
package addon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/engine/api"
	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/kube"
)

// Deploy applies what has changed, and waits until it runs. The cluster's own add-ons end a
// run that cannot apply them; a user's are reported, and the run goes on.
func Deploy(ctx context.Context, r *run.Run) error {
	own, err := addons.Of(r.Work.Config, r.Versions)
	if err != nil {
		return err
	}
	OtherNetwork(r)
	for _, a := range own {
		if err := r.SafePoint(); err != nil {
			return err
		}
		if err := DeployAddon(ctx, r, a); err != nil {
			return err
		}
	}
	// Add-ons that could be read are applied, even when others failed.
	users, err := addons.Users(ctx, r.Work.Config, r.Addons)
	r.Fail(err)
	var unready []string
	if r.Work.Config.Network.Plugin != config.PluginNone { // else a user brings it, and nothing is ready without
		// The webhook of ingress refuses a user's ingresses until it runs.
		if unready, err = AwaitAddons(ctx, r, own); err != nil {
			return err
		}
		own = nil
	}
	for _, a := range users {
		r.Fail(DeployAddon(ctx, r, a))
	}
	more, err := AwaitAddons(ctx, r, slices.Concat(own, users))
	for _, text := range slices.Concat(unready, more) {
		r.Report.Warn(text)
	}
	return err
}

// OtherNetwork says what a change of the network plugin leaves to people.
func OtherNetwork(r *run.Run) {
	if r.Fresh() {
		return
	}
	was, is := r.Before.Current.Config.Network.Plugin, r.Work.Config.Network.Plugin
	if was != is && was != config.PluginNone {
		r.Report.Warn(fmt.Sprintf("network.plugin was %s and is %s: the objects of %s stay in kube-system, and its files on hosts in /etc/cni/net.d, of which kubelets take the first by name; pods have its network until both are deleted and hosts start again", was, is, was))
	}
}

// AwaitAddons waits until what add-ons start is ready, at most addon_job_timeout seconds for all
// of them, and returns what is not: an image that is slow to come does not make a run fail. While
// hosts are away their pods are not waited for.
func AwaitAddons(ctx context.Context, r *run.Run, all []addons.Addon) (unready []string, err error) {
	limit := time.Duration(r.Work.Config.AddonJobTimeout) * time.Second
	if len(r.Down) > 0 {
		limit = 0
	}
	for end := r.Now().Add(limit); ; {
		unready = nil
		for _, a := range all {
			texts, err := r.API.Unready(ctx, a.Text)
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
		if err := errors.Join(r.SafePoint(), r.Wait(ctx)); err != nil {
			return nil, err
		}
	}
}

// DeployAddon applies an add-on, or removes it when it has no text any more. A user's objects
// stay when their text goes: a text that was lost must not take them along. The errors are those of kube.API: a *kube.AddonError names the objects
// that it is about.
func DeployAddon(ctx context.Context, r *run.Run, a addons.Addon) error {
	is, err := r.API.Addon(ctx, a.Name)
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
		r.Line("addons", "Removing addon %s", a.Name)
		return r.API.Remove(ctx, a.Name)
	}
	if is == a.Text && !a.Users {
		return nil
	}
	r.Line("addons", "Setting up %s", a.Name)
	if is != "" && is != a.Text {
		if err := r.API.Discard(ctx, objectsOf(a.Replaced)); err != nil {
			return err
		}
	}
	before := is
	if a.Users || a.Name == addons.Network {
		before = "" // what a user takes out of a text stays, as when all of it goes; and pods use a network that went
	}
	if err := r.API.Apply(ctx, a.Name, a.Text, before); err != nil {
		return err
	}
	r.Line("addons", "Successfully applied %s", a.Name)
	return nil
}

func objectsOf(all []addons.Object) []kube.Object {
	objects := make([]kube.Object, len(all))
	for i, o := range all {
		objects[i] = kube.Object(o)
	}
	return objects
}

// Preview adds the add-ons whose text differs from what the cluster keeps; all of a cluster
// that is new. The errors are those of making the texts and of reading the cluster's.
func Preview(ctx context.Context, r *run.Run, c *run.Changes) error {
	own, err := addons.Of(r.Work.Config, r.Versions)
	if err != nil {
		return err
	}
	users, err := addons.Users(ctx, r.Work.Config, r.Addons)
	if err != nil {
		return err
	}
	if !r.Fresh() {
		if err := api.Open(ctx, r); err != nil {
			return err
		}
	}
	for _, a := range slices.Concat(own, users) {
		is := ""
		if !r.Fresh() {
			if is, err = r.API.Addon(ctx, a.Name); err != nil {
				return err
			}
		}
		if is != a.Text && !(a.Users && a.Text == "") {
			c.Addons, c.Pods = append(c.Addons, a.Change()), append(c.Pods, addons.Replaced(is, a.Text)...)
		}
	}
	if len(c.Pods) > 0 {
		c.Pods = append(c.Pods, addons.Instead(r.Work.Config, r.Versions)...)
	}
	return nil
}
