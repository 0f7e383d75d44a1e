// The files that containers find in /etc/kubernetes, and their checksums in the environment of containers.

package desired

import (
	"github.com/drover-project/drover/rke1/config"
)

// Files as containers see them.
const (
	// EncryptionFile is the API servers' own secret: the keys of what they keep.
	EncryptionFile = "/etc/kubernetes/ssl/encryption.yaml"

	cloudConfigFile = "/etc/kubernetes/cloud-config"
	webhookFile     = "/etc/kubernetes/kube-api-authn-webhook.yaml"
	admissionFile   = "/etc/kubernetes/admission.yaml"
	auditFile       = "/etc/kubernetes/audit-policy.yaml"
)

// fileTexts are the same on all hosts.
type fileTexts struct {
	cloud     *string // nil without a cloud provider
	webhook   string
	admission string // "" where the owner has a file of his own
	audit     string
	// audited says that the API server has the audit log on; the policy may still be the owner's own file.
	audited bool
}

func (p *Plan) makeTexts() (t fileTexts, err error) {
	c := p.config.Services.KubeAPI
	if p.config.CloudProvider.Name != "" {
		cloud, err := cloudText(p.config.CloudProvider)
		if err != nil {
			return t, err
		}
		t.cloud = &cloud
	}
	if w := p.config.Authentication.Webhook; w != nil {
		t.webhook = w.ConfigFile
	}
	if _, own := c.ExtraArgs["admission-control-config-file"]; !own {
		if t.admission, err = admissionText(c, p.version); err != nil {
			return t, err
		}
	}
	if a := c.AuditLog; a != nil && a.Enabled && a.Configuration != nil {
		t.audited = true
		if t.audit, err = auditText(a.Configuration.Policy); err != nil {
			return t, err
		}
	}
	return t, nil
}

// sums are checksums of texts; "" where there is none.
type sums struct{ cloud, admission, audit string }

func (t fileTexts) sums() (s sums) {
	if t.cloud != nil {
		s.cloud = sumOf(*t.cloud)
	}
	if t.admission != "" {
		s.admission = sumOf(t.admission)
	}
	if t.audited {
		s.audit = sumOf(t.audit)
	}
	return s
}

// cloudEnv is the variable of the cloud provider's file, if there is one.
func (s sums) cloudEnv() []string {
	if s.cloud == "" {
		return nil
	}
	return []string{"RKE_CLOUD_CONFIG_CHECKSUM=" + s.cloud}
}

func (s sums) apiServer() []string {
	env := s.cloudEnv()
	if s.admission != "" {
		env = append(env, "RKE_ADMISSION_CONFIG_CHECKSUM="+s.admission)
	}
	if s.audit != "" {
		env = append(env, "RKE_AUDITLOG_CONFIG_CHECKSUM="+s.audit)
	}
	return env
}

// files are those of one host. The peer writes texts by a shell, which adds a newline.
func (o host) files() []File {
	var files []File
	add := func(path, text string) {
		f := File{Path: o.path(path), Mode: 0o600}
		if text != "" {
			f.Content = text + "\n"
		}
		files = append(files, f)
	}
	if o.texts.cloud != nil {
		add(cloudConfigFile, *o.texts.cloud)
	}
	if o.texts.webhook != "" {
		add(webhookFile, o.texts.webhook)
	}
	if !o.node.Has(config.RoleControlPlane) {
		return files
	}
	if o.Encryption != "" {
		add(EncryptionFile, o.Encryption)
	}
	if o.texts.admission != "" {
		add(admissionFile, o.texts.admission)
	}
	if _, own := o.config.Services.KubeAPI.ExtraArgs["audit-policy-file"]; o.texts.audited && !own {
		add(auditFile, o.texts.audit)
	}
	return files
}
