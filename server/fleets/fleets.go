// Package fleets holds what people ask of fleets, machines without a cluster: making and removing them, and giving
// plans to their machines. The controller of server/clusters carries it out.
package fleets

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"sync"
	"time"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Preview is what would be decided if an operation gave a plan to machines of a fleet now.
type Preview func(store.Document[records.Fleet], operations.Operation, records.GivenPlan) apitypes.Preview

// Fleets takes what people ask. Its errors that people are to read are *norman.Error.
type Fleets struct {
	State   *state.State
	Preview Preview
	Now     func() time.Time
}

// name is what fleets may be called: a name that is a label's value, too.
var name = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`) })

// Ensure is the fleet of a name, which is made when there is none; by is the ID of the user. made says that it was. It refuses a bad name.
func (f *Fleets) Ensure(ctx context.Context, called, by string) (fleet store.Document[records.Fleet], made bool, err error) {
	err = store.Retry(func() error {
		fleet, made, err = f.ensure(ctx, called, by)
		return err
	})
	return fleet, made, err
}

func (f *Fleets) ensure(ctx context.Context, called, by string) (store.Document[records.Fleet], bool, error) {
	key := string(records.FleetKey(called))
	if d, ok := f.State.Fleets.Get(key); ok {
		return d, false, nil
	}
	if !name().MatchString(called) {
		return store.Document[records.Fleet]{}, false, norman.Invalid(norman.InvalidCharacters, "name",
			"%.80q is not a valid name of a fleet: lower-case letters, digits and dashes, at most 63, no dash at either end", called)
	}
	if other, ok := f.State.ClustersByName.First(called); ok {
		return store.Document[records.Fleet]{}, false, norman.Invalid(norman.NotUnique, "name", "cluster %s has that name, and a name is that of a cluster or of a fleet", other.Key)
	}
	now := f.Now().UTC().Truncate(time.Second)
	fleet := records.Fleet{
		Object: records.Object{Namespace: records.FleetNamespace, Name: called, UID: randomid.UID(), Generation: 1, Created: now},
		ID:     "f-" + randomid.ID(8), CreatorID: by,
	}
	token := records.RegistrationToken{
		ClusterID: fleet.ID, ClusterNamespace: fleet.Namespace, ClusterName: fleet.Name, Name: registration.DefaultToken, Token: randomid.Secret(), Created: now,
	}
	_, err := f.State.Store.Commit(ctx, f.State.Fleets.Creating(key, fleet), f.State.RegistrationTokens.Creating(token.Key(), token))
	if _, exists := errors.AsType[*store.ExistsError](err); exists {
		if d, ok := f.State.Fleets.Get(key); ok {
			return d, false, nil // another write made it in the same moment
		}
	}
	if err != nil {
		return store.Document[records.Fleet]{}, false, fmt.Errorf("make fleet %s: %w", called, err)
	}
	d, _ := f.State.Fleets.Get(key)
	return d, true, nil
}

// Find is the fleet of a name. The error is a *norman.Error of 404.
func (f *Fleets) Find(called string) (store.Document[records.Fleet], error) {
	d, ok := f.State.Fleets.Get(string(records.FleetKey(called)))
	if !ok {
		return d, norman.Errorf(http.StatusNotFound, norman.NotFound, "there is no fleet %.80q; `drover fleets join-command NAME` makes one", called)
	}
	return d, nil
}

// Remove asks for a fleet's removal, with its token and what is kept of its operations. While it has machines that needs force: they are forgotten
// with it, their agents' credentials end, and their hosts keep what plans did there. Errors are 404, 409 and the store's.
func (f *Fleets) Remove(ctx context.Context, called string, force bool) error {
	return store.Retry(func() error {
		d, err := f.Find(called)
		if err != nil {
			return err
		}
		if n := len(f.State.MachinesByCluster.Find(records.ClusterKey(d.Key))); n > 0 && !force {
			return norman.Errorf(http.StatusConflict, norman.Conflict,
				"fleet %s has %d machines: remove them with `drover machines rm`, or use force to forget them with it; their hosts keep what plans did there", called, n)
		}
		if !d.Value.Deleting.IsZero() {
			return nil
		}
		d.Value.Deleting = f.Now().UTC()
		if _, err := f.State.Fleets.Update(ctx, d); err != nil {
			return fmt.Errorf("remove fleet %s: %w", called, err)
		}
		return nil
	})
}
