package engine

import (
	"testing"

	"github.com/drover-project/drover/rke1/config"
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
