package snapshot

import (
	"testing"

	"github.com/drover-project/drover/rke1/config"
)

// The keys of a bucket are for one run and stay out of the config that is saved.
func TestWithBucket(t *testing.T) {
	c := &config.Cluster{}
	with := WithBucket(c, &config.S3Backup{AccessKey: "AKIA", SecretKey: "hunter2"})
	if c.Services.Etcd.BackupConfig != nil || with.Services.Etcd.BackupConfig.S3.SecretKey != "hunter2" || with.Services.Etcd.BackupConfig.IntervalHours == 0 {
		t.Errorf("%+v", with.Services.Etcd.BackupConfig)
	}
	if without := WithBucket(with, nil); without.Services.Etcd.BackupConfig.S3 != nil || with.Services.Etcd.BackupConfig.S3 == nil {
		t.Error("the bucket of the config is taken")
	}
}
