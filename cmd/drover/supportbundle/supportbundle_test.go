package supportbundle

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/apitypes"
)

func TestUnwellFirst(t *testing.T) {
	machine := func(name string, state apitypes.MachineState) apitypes.Machine {
		m := apitypes.Machine{State: state}
		m.Name = name
		return m
	}
	var names []string
	for _, m := range unwellFirst([]apitypes.Machine{
		machine("a", apitypes.MachineActive), machine("b", apitypes.MachineUnavailable), machine("c", apitypes.MachineActive), machine("d", apitypes.MachineRegistering),
	}) {
		names = append(names, m.Name)
	}
	if diff := cmp.Diff([]string{"b", "d", "a", "c"}, names); diff != "" {
		t.Error(diff)
	}
}
