// The cloud provider's own file, in each cloud's form. Keys without a value are left out, as the peer does.
//
// Wire source: rancher/rke cloudprovider; github.com/go-ini/ini v1.37.0, with which the peer writes those of AWS and OpenStack
// (File.WriteTo with IgnoreInlineComment); rancher/rke templates/vsphere.go for keys, their order and spaces.

package desired

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/config/clouds"
)

// cloudText is the text of /etc/kubernetes/cloud-config; "" is a provider without one. It may hold secrets. The error says which provider's settings
// cannot be written.
func cloudText(c config.CloudProvider) (string, error) {
	switch {
	case c.Azure != nil:
		b, err := json.MarshalIndent(c.Azure, "", "\n")
		if err != nil {
			return "", fmt.Errorf("write cloud_provider.azureCloudProvider: %w", err)
		}
		return string(b), nil
	case c.AWS != nil:
		return awsConfig(c.AWS), nil
	case c.OpenStack != nil:
		return openStackConfig(c.OpenStack), nil
	case c.VSphere != nil:
		return vSphereConfig(c.VSphere), nil
	case c.Harvester != nil:
		return c.Harvester.CloudConfig, nil
	}
	return c.Custom, nil
}

// section is a section of the file of vSphere: its head, and lines that each begin with a newline.
type section struct {
	strings.Builder
	indent string
}

func begin(head, indent string) *section {
	s := &section{indent: indent}
	s.WriteString("[" + head + "]")
	return s
}

func (s *section) line(key, value string) { s.WriteString("\n" + s.indent + key + " = " + value) }

// quoted writes a key with any value.
func (s *section) quoted(key, value string) { s.line(key, `"`+value+`"`) }

// text writes a key that has a value.
func (s *section) text(key, value string) {
	if value != "" {
		s.quoted(key, value)
	}
}

// aligned is a section as go-ini writes it: equal signs below each other, no quotes around values, and an empty line at the end.
// Values that say nothing are left out.
func aligned(head string, pairs ...[2]string) string {
	pairs = slices.DeleteFunc(pairs, func(p [2]string) bool { return p[1] == "" || p[1] == "false" || p[1] == "0" })
	width := 0
	for _, p := range pairs {
		width = max(width, len(p[0]))
	}
	var b strings.Builder
	b.WriteString("[" + head + "]\n")
	for _, p := range pairs {
		value := p[1]
		if strings.ContainsAny(value, "\n`") {
			value = `"""` + value + `"""`
		}
		fmt.Fprintf(&b, "%-*s = %s\n", width, p[0], value)
	}
	b.WriteString("\n")
	return b.String()
}

func awsConfig(c *clouds.AWS) string {
	g := c.Global
	text := aligned("Global",
		[2]string{"Zone", g.Zone}, [2]string{"VPC", g.VPC}, [2]string{"SubnetID", g.SubnetID}, [2]string{"RouteTableID", g.RouteTableID},
		[2]string{"RoleARN", g.RoleARN}, [2]string{"KubernetesClusterTag", g.ClusterTag}, [2]string{"KubernetesClusterID", g.ClusterID},
		[2]string{"DisableSecurityGroupIngress", strconv.FormatBool(g.DisableSecurityGroupIngress)}, [2]string{"ElbSecurityGroup", g.ELBSecurityGroup},
		[2]string{"DisableStrictZoneCheck", strconv.FormatBool(g.DisableStrictZoneCheck)})
	for _, name := range slices.Sorted(maps.Keys(c.ServiceOverride)) {
		s := c.ServiceOverride[name]
		text += aligned(`ServiceOverride "`+name+`"`,
			[2]string{"Service", s.Service}, [2]string{"Region", s.Region}, [2]string{"URL", s.URL},
			[2]string{"SigningRegion", s.SigningRegion}, [2]string{"SigningMethod", s.SigningMethod}, [2]string{"SigningName", s.SigningName})
	}
	return text
}

func openStackConfig(c *clouds.OpenStack) string {
	g, l, b, m := c.Global, c.LoadBalancer, c.BlockStorage, c.Metadata
	return aligned("Global",
		[2]string{"auth-url", g.AuthURL}, [2]string{"username", g.Username}, [2]string{"user-id", g.UserID}, [2]string{"password", g.Password},
		[2]string{"tenant-id", g.TenantID}, [2]string{"tenant-name", g.TenantName}, [2]string{"trust-id", g.TrustID},
		[2]string{"domain-id", g.DomainID}, [2]string{"domain-name", g.DomainName}, [2]string{"region", g.Region}, [2]string{"ca-file", g.CAFile}) +
		aligned("LoadBalancer",
			[2]string{"lb-version", l.Version}, [2]string{"use-octavia", strconv.FormatBool(l.UseOctavia)}, [2]string{"subnet-id", l.SubnetID},
			[2]string{"floating-network-id", l.FloatingNetworkID}, [2]string{"lb-method", l.Method}, [2]string{"lb-provider", l.Provider},
			[2]string{"create-monitor", strconv.FormatBool(l.CreateMonitor)}, [2]string{"monitor-delay", l.MonitorDelay},
			[2]string{"monitor-timeout", l.MonitorTimeout}, [2]string{"monitor-max-retries", strconv.Itoa(l.MonitorMaxRetries)},
			[2]string{"manage-security-groups", strconv.FormatBool(l.ManageSecurityGroups)}) +
		aligned("BlockStorage",
			[2]string{"bs-version", b.Version}, [2]string{"trust-device-path", strconv.FormatBool(b.TrustDevicePath)},
			[2]string{"ignore-volume-az", strconv.FormatBool(b.IgnoreVolumeAZ)}) +
		aligned("Route", [2]string{"router-id", c.Route.RouterID}) +
		aligned("Metadata", [2]string{"search-order", m.SearchOrder}, [2]string{"request-timeout", strconv.Itoa(m.RequestTimeout)})
}

func vSphereConfig(c *clouds.VSphere) string {
	const deep = "        "
	global := begin("Global", "")
	global.quoted("user", c.Global.User)
	global.quoted("password", c.Global.Password)
	global.text("server", c.Global.Server)
	global.text("port", c.Global.Port)
	global.quoted("insecure-flag", strconv.FormatBool(c.Global.Insecure))
	global.text("datacenters", c.Global.Datacenters)
	global.text("datacenter", c.Global.Datacenter)
	global.text("datastore", c.Global.Datastore)
	global.text("working-dir", c.Global.WorkingDir)
	global.quoted("soap-roundtrip-count", strconv.Itoa(c.Global.RoundTripperCount))
	global.text("vm-uuid", c.Global.VMUUID)
	global.text("vm-name", c.Global.VMName)
	global.WriteString("\n\n")
	for _, name := range slices.Sorted(maps.Keys(c.VirtualCenter)) {
		v := c.VirtualCenter[name]
		center := begin(`VirtualCenter "`+name+`"`, deep)
		center.quoted("user", v.User)
		center.quoted("password", v.Password)
		center.text("port", v.Port)
		center.text("datacenters", v.Datacenters)
		center.quoted("soap-roundtrip-count", strconv.Itoa(v.RoundTripperCount))
		global.WriteString("\n" + center.String())
	}
	workspace := begin("Workspace", deep)
	workspace.quoted("server", c.Workspace.Server)
	workspace.quoted("datacenter", c.Workspace.Datacenter)
	workspace.quoted("folder", c.Workspace.Folder)
	workspace.quoted("default-datastore", c.Workspace.DefaultDatastore)
	workspace.quoted("resourcepool-path", c.Workspace.ResourcePoolPath)
	disk := begin("Disk", deep)
	if c.Disk.SCSIControllerType != "" {
		disk.line("scsicontrollertype", c.Disk.SCSIControllerType)
	}
	network := begin("Network", deep)
	network.text("public-network", c.Network.PublicNetwork)
	return "\n" + join(global, workspace, disk, network)
}

// join puts an empty line between sections.
func join(all ...*section) string {
	texts := make([]string, len(all))
	for i, s := range all {
		texts[i] = s.String()
	}
	return strings.Join(texts, "\n\n") + "\n"
}
