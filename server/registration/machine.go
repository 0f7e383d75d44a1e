// The records that a registration makes: the machine, and its plan Secret with the
// labels and annotations that agents, hooks and tools read there.
//
// Wire source: rancher/rancher pkg/capr and pkg/controllers/capr/unmanaged.

package registration

import (
	"crypto/sha256"
	"encoding/hex"
	"time"

	"github.com/drover-project/drover/server/random"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/registration/hostrequest"
)

// machineName is the name of a custom machine, the same for the same machine id.
func machineName(machineID string) string {
	sum := sha256.Sum256([]byte(machineID))
	return "custom-" + hex.EncodeToString(sum[:])[:12]
}

// newMachine is the machine of a host that registers for the first time.
func newMachine(to home, asked hostrequest.Request, now time.Time) records.Machine {
	m := hostrequest.Apply(records.Machine{
		Object: records.Object{
			Namespace:  to.Namespace,
			Name:       machineName(asked.MachineID),
			UID:        random.UID(),
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
	return hostrequest.Describe(m)
}

// newPlanSecret is the empty plan Secret of a machine.
func newPlanSecret(m records.Machine, now time.Time) records.PlanSecret {
	return hostrequest.DescribeSecret(records.PlanSecret{
		Object: records.Object{Namespace: m.Namespace, Name: m.PlanSecretName(), UID: random.UID(), Created: now},
	}, m)
}
