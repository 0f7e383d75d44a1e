// What of a cluster's config is shown to everybody who may see the cluster.

package desired

import (
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/server/clusterspec"
)

// Version is the Kubernetes version that a cluster's document asks for; of an RKE1 cluster that of its config, which may leave it open.
func Version(s clusterspec.Spec) string {
	if !s.RKE1() {
		return s.KubernetesVersion
	}
	c, err := s.RKE1Config()
	if err != nil {
		return ""
	}
	return c.KubernetesVersion
}

// Public is an RKE1 config without what is secret in it, or may be: passwords, keys, and texts of users that are passed on.
// Of a cluster without one it is empty.
func Public(s clusterspec.Spec) *clusterspec.RKE1Config {
	if !s.RKE1() {
		return new(clusterspec.RKE1Config)
	}
	return PublicConfig(*s.RancherKubernetesEngineConfig)
}

// PublicConfig is Public of a config alone.
func PublicConfig(text clusterspec.RKE1Config) *clusterspec.RKE1Config {
	none := new(clusterspec.RKE1Config)
	c, err := text.Cluster()
	if err != nil {
		return none
	}
	c.BastionHost.SSHKey = ""
	for i := range c.PrivateRegistries {
		c.PrivateRegistries[i].Password, c.PrivateRegistries[i].ECRCredentialPlugin = "", nil
	}
	if b := c.Services.Etcd.BackupConfig; b != nil && b.S3 != nil {
		b.S3.SecretKey = ""
	}
	c.Services.Etcd.Key = ""
	c.CloudProvider = config.CloudProvider{Name: c.CloudProvider.Name}
	c.Network.Weave, c.Network.ACI, c.Network.Options = nil, nil, nil
	if e := c.Services.KubeAPI.SecretsEncryptionConfig; e != nil {
		e.CustomConfig = nil
	}
	c.Addons = ""
	public, err := clusterspec.NewRKE1Config(c)
	if err != nil {
		return none
	}
	return &public
}
