// The records that a registration makes: the machine, and its plan Secret with the labels and annotations that agents, hooks and
// tools read there; and labels that the machine's operator changes later.

package registration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"net/http"
	"time"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/state"
	"github.com/drover-project/drover/server/store"
)

// Label changes the labels that the node of a machine has, as relabel says, and with them those of its plan Secret. The node gets them
// through the cluster's API, without a restart; selectors of the cluster's document see them, too. Errors are 422 and the store's.
func Label(ctx context.Context, st *state.State, key string, set map[string]string, remove []string) (store.Document[records.Machine], error) {
	return store.RetryFor(func() (store.Document[records.Machine], error) { return label(ctx, st, key, set, remove) })
}

func label(ctx context.Context, st *state.State, key string, set map[string]string, remove []string) (store.Document[records.Machine], error) {
	d, ok := st.Machines.Get(key)
	m := d.Value
	switch {
	case !ok:
		return d, norman.Missing("machine", key)
	case m.Docker != nil:
		return d, norman.Errorf(http.StatusConflict, norman.Conflict, "machine %s is a Docker host, on which no node is provisioned that could have labels", m.Name)
	case !m.Deleting.IsZero():
		return d, norman.Errorf(http.StatusConflict, norman.Conflict, "machine %s is being removed", m.Name)
	}
	next, err := relabel(m, set, remove)
	if err != nil {
		return d, norman.Invalid(norman.InvalidFormat, "labels", "%v", err)
	}
	if maps.Equal(m.NodeLabels, next.NodeLabels) {
		return d, nil
	}
	next.Labels = undescribe(m).Labels
	next.Generation++
	d.Value = describe(next)
	ops := []store.Op{st.Machines.Updating(d)}
	if secret, ok := st.PlanSecrets.Get(m.Namespace + "/" + m.PlanSecretName()); ok {
		secret.Value = describeSecret(secret.Value, d.Value)
		ops = append(ops, st.PlanSecrets.Updating(secret))
	}
	if _, err := st.Store.Commit(ctx, ops...); err != nil {
		return d, fmt.Errorf("label machine %s: %w", m.Name, err)
	}
	d, _ = st.Machines.Get(key)
	return d, nil
}

// machineName is the name of a custom machine, the same for the same machine id.
func machineName(machineID string) string {
	sum := sha256.Sum256([]byte(machineID))
	return "custom-" + hex.EncodeToString(sum[:])[:12]
}

// newMachine is the machine of a host that registers for the first time.
func newMachine(to home, asked hostRequest, now time.Time) records.Machine {
	m := applyRequest(records.Machine{
		Object: records.Object{
			Namespace:  to.Namespace,
			Name:       machineName(asked.MachineID),
			UID:        randomid.UID(),
			Generation: 1,
			Created:    now,
		},
		ClusterName: to.Name,
		ClusterID:   to.id,
		MachineID:   asked.MachineID,
	}, asked)
	m.Status = records.MachineStatus{
		Condition: records.Condition{
			State:      records.Registering,
			Cause:      "the host has registered; its agent has not asked for a plan yet",
			WaitingFor: "the first connection of the agent",
			NextStep:   "on the host: systemctl status rancher-system-agent",
		},
		Since:   now,
		History: []records.Transition{{State: records.Registering, At: now}},
	}
	return describe(m)
}

// newPlanSecret is the empty plan Secret of a machine.
func newPlanSecret(m records.Machine, now time.Time) records.PlanSecret {
	return describeSecret(records.PlanSecret{
		Object: records.Object{Namespace: m.Namespace, Name: m.PlanSecretName(), UID: randomid.UID(), Created: now},
	}, m)
}
