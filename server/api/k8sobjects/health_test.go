package k8sobjects

import (
	"testing"
	"time"

	"github.com/drover-project/drover/server/records"
)

// TestHealth: what kstatus makes of the two conditions, which it reads before Ready.
func TestHealth(t *testing.T) {
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name                 string
		cluster              records.Cluster
		reconciling, stalled string
		message              string
	}{
		{"new", records.Cluster{Object: records.Object{Generation: 1}}, "True", "False", ""},
		{"well", records.Cluster{Object: records.Object{Generation: 2}, Status: records.ClusterStatus{State: "active", Ready: true, ObservedGeneration: 2, Since: since}}, "False", "False", ""},
		{
			"changed and not looked at yet", records.Cluster{Object: records.Object{Generation: 3}, Status: records.ClusterStatus{State: "active", Ready: true, ObservedGeneration: 2, Since: since}},
			"True", "False", "",
		},
		{
			"a change is rolled out", records.Cluster{Object: records.Object{Generation: 2}, Status: records.ClusterStatus{State: "updating", Ready: true, ObservedGeneration: 2, Message: "1 of 3", Since: since}},
			"True", "False", "1 of 3",
		},
		{
			"failed", records.Cluster{Object: records.Object{Generation: 2}, Status: records.ClusterStatus{State: "error", Failed: true, ObservedGeneration: 2, Message: "no space", Since: since}},
			"False", "True", "no space",
		},
		{
			"removed", records.Cluster{Object: records.Object{Generation: 2, Deleting: since}, Status: records.ClusterStatus{State: "active", ObservedGeneration: 2, Since: since}},
			"True", "False", "waiting for the cluster's machines to be removed",
		},
		{
			"given to the rke command line", records.Cluster{Object: records.Object{Generation: 3}, Exported: &records.Exported{}, Status: records.ClusterStatus{State: "active", ObservedGeneration: 2, Since: since}},
			"False", "False", "",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := health(c.cluster)
			if len(got) != 2 || got[0].Type != "Reconciling" || got[0].Status != c.reconciling || got[1].Type != "Stalled" || got[1].Status != c.stalled || got[0].Message+got[1].Message != c.message {
				t.Errorf("%+v", got)
			}
			if !c.cluster.Status.Since.IsZero() && got[0].LastUpdateTime != "2026-01-02T03:04:05Z" {
				t.Errorf("since %s", got[0].LastUpdateTime)
			}
		})
	}
}
