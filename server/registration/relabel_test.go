package registration

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/records"
)

func TestRelabel(t *testing.T) {
	many := map[string]string{}
	for i := range maxLabels {
		many[fmt.Sprint("l", i)] = ""
	}
	has := map[string]string{"cattle.io/os": "linux", "rack": "a", "disk": "ssd"}
	for name, tc := range map[string]struct {
		set    map[string]string
		remove []string
		want   map[string]string
		err    string
	}{
		"nothing":            {nil, nil, has, ""},
		"set and removed":    {map[string]string{"rack": "b", "zone": ""}, []string{"disk", "absent"}, map[string]string{"cattle.io/os": "linux", "rack": "b", "zone": ""}, ""},
		"both at once":       {map[string]string{"rack": "b"}, []string{"rack"}, nil, "set and removed at once"},
		"the system":         {nil, []string{"cattle.io/os"}, nil, "it says what the host runs"},
		"another system":     {map[string]string{"cattle.io/os": "windows"}, nil, nil, "linux only"},
		"the server's":       {map[string]string{"rke.cattle.io/etcd-role": "true"}, nil, nil, "belongs to the server"},
		"the kubelet's":      {map[string]string{"node-role.kubernetes.io/worker": "true"}, nil, nil, "would keep the kubelet from starting"},
		"not a label's name": {map[string]string{"a b": ""}, nil, nil, "is not a key of Kubernetes"},
		"not a value":        {map[string]string{"a": "b c"}, nil, nil, "is not a value of Kubernetes"},
		"too many":           {many, nil, nil, "at most 100 are allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			m := records.Machine{NodeLabels: has}
			got, err := relabel(m, tc.set, tc.remove)
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("it is %v, want %s", err, tc.err)
				}
				return
			}
			if diff := cmp.Diff(tc.want, got.NodeLabels); err != nil || diff != "" {
				t.Errorf("%v %s", err, diff)
			}
			if len(has) != 3 {
				t.Error("the labels of the record were changed")
			}
		})
	}
}
