package hostreport

import (
	"slices"
	"strings"
)

// expected are parts of lines that look like errors and that a runtime logs on a start that goes well, or whenever it stops.
// They explain nothing. A line is expected that has all parts of one of its runtime's rows.
//
// Sources: what k3s v1.34.4+k3s1 and RKE2 v1.34.1+rke2r1 were seen to log where they started well; k3s-io/k3s#5613 and #9574.
var expected = map[string][][]string{
	"k3s": slices.Concat(kubelet, embedded),
	"rke2": slices.Concat(kubelet, embedded, [][]string{
		{"Failed to process image event", "not found"}, // of images that came by a list and are pulled later
	}),
}

// embedded is what the supervisor of both logs.
var embedded = [][]string{
	{"Failed to set sysctl"}, // in containers, where the host has set it
	{"Sending HTTP/1.1 503 response", "runtime core not ready"},
	{"Sending HTTP/1.1 502 response", "runtime core not ready"},
	{"Error: context canceled"}, // each stop
	{"Error getting the node object", "is forbidden"},
	{"Error removing old endpoints from kubernetes service"},
	{"Failed to check local etcd status for learner management", "context canceled"},
}

// kubelet is what every kubelet logs until the API server and the statistics are there.
var kubelet = [][]string{
	{"Error getting node", "not found"},
	{"Image garbage collection failed", "may not have completed yet"},
	{"Skipping pod synchronization", "PLEG is not healthy"},
	{"Eviction manager: failed to get summary stats", "not found"},
	{"Failed to ensure lease exists, will retry", "connection refused"},
	{"Unable to register node with API server", "connection refused"},
}

// isExpected says whether a runtime, k3s or rke2, logs such a line on a healthy start.
func isExpected(runtime, line string) bool {
	return slices.ContainsFunc(expected[runtime], func(parts []string) bool {
		return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
	})
}
