package engine

import (
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/state"
)

func TestStoredAs(t *testing.T) {
	const prefix = "k8s:enc:aescbc:v1:k-2:"
	for value, want := range map[string][2]bool{ // with the prefix, in plain text
		prefix + "\x00\x01":          {true, false},
		"k8s:enc:aescbc:v1:k-1:\x00": {false, false},
		"k8s\x00\n\x0c\n\x02v1":      {false, true},
		"":                           {false, true},
	} {
		if is := [2]bool{storedAs(value, prefix), storedAs(value, "")}; is != want {
			t.Errorf("%q: %v", value, is)
		}
	}
}

// The keys of a bucket are for one run and stay out of the config that is saved.
func TestWithBucket(t *testing.T) {
	c := &config.Cluster{}
	with := withBucket(c, &config.S3Backup{AccessKey: "AKIA", SecretKey: "hunter2"})
	if c.Services.Etcd.BackupConfig != nil || with.Services.Etcd.BackupConfig.S3.SecretKey != "hunter2" || with.Services.Etcd.BackupConfig.IntervalHours == 0 {
		t.Errorf("%+v", with.Services.Etcd.BackupConfig)
	}
	if without := withBucket(with, nil); without.Services.Etcd.BackupConfig.S3 != nil || with.Services.Etcd.BackupConfig.S3 == nil {
		t.Error("the bucket of the config is taken")
	}
}

// An API server reads its keys once, when it starts.
func TestKeysRestartTheAPIServer(t *testing.T) {
	noon := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	h := &host{prefix: "/", written: map[string]onhost.File{desired.EncryptionFile: {Changed: noon}}}
	for _, tt := range []struct {
		name, container string
		started         time.Time
		deployed        string
		want            bool
	}{
		{"from before the file", desired.KubeAPIServer, noon.Add(-time.Hour), "old", true},
		{"in the second of the file", desired.KubeAPIServer, noon.Add(time.Second / 2), "old", true},
		{"from after the file", desired.KubeAPIServer, noon.Add(time.Second), "old", false},
		{"the same keys, written again", desired.KubeAPIServer, noon.Add(-time.Hour), "new", false},
		{"somebody else", desired.Scheduler, noon.Add(-time.Hour), "old", false},
	} {
		r := &run{state: &state.State{Desired: state.Part{Encryption: "new"}}, before: state.State{Current: state.Part{Encryption: tt.deployed}}}
		if got := r.renewed(h, nodeconfig.Container{Name: tt.container, Started: tt.started}); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// Later work starts containers again and makes none: what else cluster.yml asks for is up's.
func TestRestartsOnly(t *testing.T) {
	h := &host{desired: desired.Host{Address: "a", Containers: []desired.Container{
		{Process: nodeconfig.Process{Name: desired.Kubelet, Image: "new"}, Plane: config.RoleWorker},
		{Process: nodeconfig.Process{Name: desired.KubeProxy, Image: "old"}, Plane: config.RoleWorker},
	}}}
	labels := func(name string) map[string]string { return map[string]string{nodeconfig.Label: name} }
	h.found.Images = map[string]nodeconfig.Base{"old": {}, "new": {}}
	h.found.Containers = []nodeconfig.Container{
		{Name: desired.Kubelet, Image: "old", Running: true, Labels: labels(desired.Kubelet)}, {Name: desired.KubeProxy, Image: "old", Labels: labels(desired.KubeProxy)},
	}
	r := &run{state: &state.State{}}
	if all := r.differences(h, config.RoleWorker); len(all) != 2 {
		t.Fatalf("differences: %v", all)
	}
	r.restartsOnly = true
	if all := r.differences(h, config.RoleWorker); len(all) != 1 || all[0].Container != desired.KubeProxy || all[0].Kind != nodeconfig.Start {
		t.Errorf("differences that restart: %v", all)
	}
}
