// Keeping a bucket's keys out of sentences: programs that get them print them.

package engine

import (
	"encoding/base64"
	"errors"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/onhost"
)

// secretsOf are the texts that a program of snapshots is given and nobody else may see.
func secretsOf(c *config.Cluster) []string {
	b := c.Services.Etcd.BackupConfig
	if b == nil || b.S3 == nil {
		return nil
	}
	var all []string
	for _, text := range []string{b.S3.SecretKey, b.S3.AccessKey, b.S3.CustomCA} {
		if text != "" {
			all = append(all, text, base64.StdEncoding.EncodeToString([]byte(text)))
		}
	}
	return all
}

// masked is an error whose output of a program has no secrets.
func masked(err error, secrets []string) error {
	failed := new(onhost.FailedError)
	if !errors.As(err, &failed) {
		return err
	}
	clean := *failed
	clean.Output = nil
	for _, line := range failed.Output {
		for _, secret := range secrets {
			line = strings.ReplaceAll(line, secret, "***")
		}
		clean.Output = append(clean.Output, line)
	}
	return &clean
}
