package desired

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/clouds"
	"github.com/drover-project/drover/rke1/versions"
)

func admission(t *testing.T, version string, c config.KubeAPI) string {
	t.Helper()
	v, _ := versions.Parse(version)
	text, err := admissionText(c, v)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// The checksums are those that containers of the peer have.
func TestChecksumsOfThePeer(t *testing.T) {
	audit, err := auditText(&config.AuditPolicy{TypeMeta: config.TypeMeta{Kind: "Policy", APIVersion: "audit.k8s.io/v1"}, Rules: []config.PolicyRule{{Level: "Metadata"}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ what, text, sum string }{
		{"audit policy", audit, "856f426399fb14a50b78e721d15c168c"},
		{"admission, privileged", admission(t, "v1.30.5-rancher1-1", config.KubeAPI{PodSecurityConfiguration: "privileged"}), "69ff71a7958fe5108686fd89fcbff80d"},
		{"admission, restricted", admission(t, "v1.25.16-rancher2-3", config.KubeAPI{PodSecurityConfiguration: "restricted"}), "fe4daf2c9a6824b6377a4826692058c5"},
	} {
		if got := sumOf(c.text); got != c.sum {
			t.Errorf("%s has %s, want %s:\n%s", c.what, got, c.sum, c.text)
		}
	}
}

func TestAdmissionByVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.22.17-rancher1-1": "", "v1.23.17-rancher1-1": "v1beta1", "v1.24.17-rancher1-1": "v1beta1", "v1.25.16-rancher2-3": "v1",
	} {
		text := admission(t, version, config.KubeAPI{})
		_, rest, found := strings.Cut(text, "pod-security.admission.config.k8s.io/")
		if got, _, _ := strings.Cut(rest, "\n"); found != (want != "") || got != want {
			t.Errorf("%s: pod security %q", version, got)
		}
	}
}

// The owner's plugins take the place of the two that are always there, and follow them otherwise.
func TestAdmissionOfTheOwner(t *testing.T) {
	got := admission(t, "v1.30.5-rancher1-1", config.KubeAPI{
		EventRateLimit: &config.EventRateLimit{Enabled: true, Configuration: &config.EventRateLimits{Limits: []config.EventLimit{{Type: "User", QPS: 1, Burst: 2, CacheSize: 3}}}},
		AdmissionConfiguration: &config.AdmissionConfiguration{Plugins: []config.AdmissionPlugin{
			{Name: "ImagePolicyWebhook", Path: "/etc/kubernetes/image.yaml"},
			{Name: "PodSecurity", Configuration: map[string]any{"kind": "mine"}},
		}},
	})
	want := `apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits:
    - burst: 2
      cacheSize: 3
      qps: 1
      type: User
  name: EventRateLimit
  path: ""
- configuration:
    kind: mine
  name: PodSecurity
  path: ""
- configuration: null
  name: ImagePolicyWebhook
  path: /etc/kubernetes/image.yaml
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestCloud(t *testing.T) {
	for _, c := range []struct {
		what string
		of   config.CloudProvider
		want string
	}{
		{"none", config.CloudProvider{Name: "aws"}, ""},
		{"custom", config.CloudProvider{Custom: "text\n"}, "text\n"},
		{"harvester", config.CloudProvider{Harvester: &clouds.Harvester{CloudConfig: "h"}}, "h"},
		{"aws", config.CloudProvider{AWS: &clouds.AWS{
			Global:          clouds.AWSGlobal{Zone: "z", RoleARN: "arn", DisableStrictZoneCheck: true},
			ServiceOverride: map[string]clouds.AWSService{"2": {Service: "s3", URL: "https://s3"}, "1": {Region: "r"}},
		}}, "[Global]\nZone                   = z\nRoleARN                = arn\nDisableStrictZoneCheck = true\n\n" +
			"[ServiceOverride \"1\"]\nRegion = r\n\n[ServiceOverride \"2\"]\nService = s3\nURL     = https://s3\n\n"},
		{"openstack", config.CloudProvider{OpenStack: &clouds.OpenStack{
			Global:       clouds.OpenStackGlobal{AuthURL: "https://a", Username: "u", Password: "p"},
			LoadBalancer: clouds.OpenStackLoadBalancer{UseOctavia: true, MonitorMaxRetries: 3, SubnetID: "s"},
			BlockStorage: clouds.OpenStackBlockStorage{IgnoreVolumeAZ: true},
		}}, `[Global]
auth-url = https://a
username = u
password = p

[LoadBalancer]
use-octavia         = true
subnet-id           = s
monitor-max-retries = 3

[BlockStorage]
ignore-volume-az = true

[Route]

[Metadata]

`},
		{"openstack with nothing", config.CloudProvider{OpenStack: &clouds.OpenStack{}}, "[Global]\n\n[LoadBalancer]\n\n[BlockStorage]\n\n[Route]\n\n[Metadata]\n\n"},
		// Written by go-ini v1.37.0 from structs with the peer's tags.
		{"openstack with everything that is written in another way", config.CloudProvider{OpenStack: &clouds.OpenStack{
			Global: clouds.OpenStackGlobal{AuthURL: "https://keystone:5000/v3", Username: "u", Password: `p"w#1;`, DomainName: " Default ",
				Region: "a`b", CAFile: "two\nlines"},
			LoadBalancer: clouds.OpenStackLoadBalancer{UseOctavia: true, MonitorMaxRetries: 3, SubnetID: "s", ManageSecurityGroups: true},
			BlockStorage: clouds.OpenStackBlockStorage{IgnoreVolumeAZ: true},
			Metadata:     clouds.OpenStackMetadata{SearchOrder: "metadataService,configDrive", RequestTimeout: 7},
		}}, "[Global]\nauth-url    = https://keystone:5000/v3\nusername    = u\npassword    = p\"w#1;\ndomain-name =  Default \nregion      = \"\"\"a`b\"\"\"\n" +
			"ca-file     = \"\"\"two\nlines\"\"\"\n\n[LoadBalancer]\nuse-octavia            = true\nsubnet-id              = s\nmonitor-max-retries    = 3\n" +
			"manage-security-groups = true\n\n[BlockStorage]\nignore-volume-az = true\n\n[Route]\n\n[Metadata]\n" +
			"search-order    = metadataService,configDrive\nrequest-timeout = 7\n\n"},
		{"vsphere", config.CloudProvider{VSphere: &clouds.VSphere{
			Global:        clouds.VSphereGlobal{Insecure: true, Datacenters: "dc"},
			VirtualCenter: map[string]clouds.VSphereCenter{"b": {User: "u2"}, "a": {User: "u1", Port: "443", RoundTripperCount: 1}},
			Workspace:     clouds.VSphereWorkspace{Server: "a"},
			Disk:          clouds.VSphereDisk{SCSIControllerType: "pvscsi"},
		}}, `
[Global]
user = ""
password = ""
insecure-flag = "true"
datacenters = "dc"
soap-roundtrip-count = "0"


[VirtualCenter "a"]
        user = "u1"
        password = ""
        port = "443"
        soap-roundtrip-count = "1"
[VirtualCenter "b"]
        user = "u2"
        password = ""
        soap-roundtrip-count = "0"

[Workspace]
        server = "a"
        datacenter = ""
        folder = ""
        default-datastore = ""
        resourcepool-path = ""

[Disk]
        scsicontrollertype = pvscsi

[Network]
`},
	} {
		got, err := cloudText(c.of)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s:\n%s", c.what, diff)
		}
	}
	azure, err := cloudText(config.CloudProvider{Azure: &clouds.Azure{TenantID: "t"}})
	if err != nil || !strings.HasPrefix(azure, "{\n\n\"cloud\": \"\",\n\n\"tenantId\": \"t\",\n") {
		t.Errorf("azure: %q, %v", azure, err)
	}
}
