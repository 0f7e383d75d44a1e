package management

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/server/observed"
)

func TestSums(t *testing.T) {
	of := func(cpu, memory, pods string) map[string]string {
		return map[string]string{"cpu": cpu, "memory": memory, "pods": pods}
	}
	capacity, allocatable := sums(observed.API{Details: map[string]observed.NodeDetails{
		"a": {Capacity: of("4", "8000000Ki", "110"), Allocatable: of("3500m", "7Gi", "110")},
		"b": {Capacity: of("4", "8000000Ki", "110"), Allocatable: of("3800m", "7Gi", "110")},
		"c": {Capacity: map[string]string{"cpu": "a lot"}},
	}})
	if diff := cmp.Diff([]map[string]string{of("8", "16000000Ki", "220"), of("7300m", "14680064Ki", "220")}, []map[string]string{capacity, allocatable}); diff != "" {
		t.Error(diff)
	}
	if none, _ := sums(observed.API{}); none == nil || len(none) != 0 {
		t.Errorf("of no nodes %v", none)
	}
}
