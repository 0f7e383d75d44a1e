package steps

import (
	"fmt"
	"slices"

	"github.com/drover-project/drover/server/operations"
)

// planning is what the steps of an operation depend on.
type planning struct {
	Input
	request Request
}

// plan are the steps of the operation on its machines, in their order; the error is why it cannot begin.
func (p planning) plan() (to []on, err error) {
	if len(p.Machines) > MaxMachines {
		return nil, fmt.Errorf("the cluster has %d machines, and an operation of this kind takes %d at most", len(p.Machines), MaxMachines)
	}
	plans := map[operations.Kind]func() ([]on, error){
		operations.KindSnapshot: p.snapshot, operations.KindRestore: p.restore, operations.KindRotateCertificates: p.rotateCertificates,
		operations.KindRotateKeys: p.rotateKeys, operations.KindRotateToken: p.rotateToken, operations.KindRotateCA: p.rotateCA,
	}
	plan, known := plans[p.Operation.Kind]
	if !known {
		return nil, fmt.Errorf("%q is not done in steps", p.Operation.Kind)
	}
	if to, err = plan(); err == nil && len(to) == 0 {
		err = fmt.Errorf("no machine of the cluster has a plan and the role for it")
	}
	return to, err
}

func (p planning) with(is func(Machine) bool) []Machine {
	return slices.DeleteFunc(slices.Clone(p.Machines), func(m Machine) bool { return !is(m) })
}

// servers are those with a plan, in the order in which they restart: etcd alone, with a control plane, a control plane alone.
func (p planning) servers() []Machine {
	return slices.Concat(
		p.with(func(m Machine) bool { return m.Roles.Etcd && !m.Roles.ControlPlane && m.Plan }),
		p.with(func(m Machine) bool { return m.Roles.Etcd && m.Roles.ControlPlane && m.Plan }),
		p.with(func(m Machine) bool { return !m.Roles.Etcd && m.Roles.ControlPlane && m.Plan }))
}

func (p planning) workers() []Machine {
	return p.with(func(m Machine) bool { return !m.Roles.Etcd && !m.Roles.ControlPlane && m.Plan })
}

func (p planning) machine(name string) (Machine, bool) {
	i := slices.IndexFunc(p.Machines, func(m Machine) bool { return m.Name == name })
	if i < 0 {
		return Machine{}, false
	}
	return p.Machines[i], true
}
