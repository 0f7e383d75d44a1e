package apitypes_test

import (
	"testing"

	"github.com/drover-project/drover/apitypes"
)

func TestWaitNamesAHostOnce(t *testing.T) {
	for _, c := range []struct {
		wait       apitypes.Wait
		where, why string
	}{
		{apitypes.Wait{}, "", ""},
		{apitypes.Wait{Object: "machine m1", Host: "m1 (pier-1)", Cause: "the agent on m1 (pier-1) is applying plan 59; its agent is connected"},
			"machine m1 (pier-1)", "the agent is applying plan 59; its agent is connected"},
		{apitypes.Wait{Object: "machine m1", Host: "m1", Cause: "not healthy on m1: etcd"}, "machine m1", "not healthy: etcd"},
		{apitypes.Wait{Object: "machine m1", Host: "pier-1", Cause: "etcd does not answer"}, "machine m1 on pier-1", "etcd does not answer"},
		{apitypes.Wait{Object: "machine m1", Host: "m10", Cause: "as m1 is away"}, "machine m1 on m10", "as m1 is away"},
		{apitypes.Wait{Object: "machine m1", Cause: "its agent is away"}, "machine m1", "its agent is away"},
		{apitypes.Wait{Host: "pier-1", Cause: "down"}, "on pier-1", "down"},
		{apitypes.Wait{Object: "machine m1", Host: "m1 (pier-1)", Cause: "as m2 (pier-2) is not healthy"}, "machine m1 (pier-1)", "as m2 (pier-2) is not healthy"},
	} {
		if where, why := c.wait.Where(), c.wait.Why(); where != c.where || why != c.why {
			t.Errorf("%+v: %q, %q", c.wait, where, why)
		}
	}
}
