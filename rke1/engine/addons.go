// Add-ons: the network of pods, DNS, metrics, ingress, and what users bring.

package engine

import (
	"context"
	"fmt"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/kube"
)

// deployAddons applies what has changed. The cluster's own add-ons end a run that cannot
// apply them; a user's are reported, and the run goes on.
func (r *run) deployAddons(ctx context.Context) error {
	if r.work.UpdateOnly {
		return nil
	}
	own, err := addons.Of(r.work.Config, r.Versions)
	if err != nil {
		return err
	}
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
	for _, a := range users {
		r.fail(r.deployAddon(ctx, a))
	}
	return ctx.Err()
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
	if err := r.api.Apply(ctx, a.Name, a.Text); err != nil {
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
