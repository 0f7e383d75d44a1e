// The cloud provider's own file, in each cloud's form. Keys without a value are left out, as the peer does.
//
// Wire source: rancher/rke cloudprovider, templates/openstack.go and templates/vsphere.go for keys, their order and spaces.

package texts

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

// Cloud is the text of /etc/kubernetes/cloud-config; "" is a provider without one. It may hold secrets.
func Cloud(c config.CloudProvider) (string, error) {
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

// section is a section of an INI file: its head, and lines that each begin with a newline.
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

// quoted writes a key, whatever its value.
func (s *section) quoted(key, value string) { s.line(key, `"`+value+`"`) }

// text, flag and number write a key that has a value.
func (s *section) text(key, value string) {
	if value != "" {
		s.quoted(key, value)
	}
}

func (s *section) flag(key string, value bool) {
	if value {
		s.line(key, "true")
	}
}

func (s *section) number(key string, value int) {
	if value != 0 {
		s.line(key, strconv.Itoa(value))
	}
}

// awsConfig aligns the equal signs of a section, as the library does that the peer writes it with.
func awsConfig(c *clouds.AWS) string {
	var b strings.Builder
	write := func(head string, pairs [][2]string) {
		b.WriteString("[" + head + "]\n")
		pairs = slices.DeleteFunc(pairs, func(p [2]string) bool { return p[1] == "" || p[1] == "false" })
		width := 0
		for _, p := range pairs {
			width = max(width, len(p[0]))
		}
		for _, p := range pairs {
			fmt.Fprintf(&b, "%-*s = %s\n", width, p[0], p[1])
		}
		b.WriteString("\n")
	}
	g := c.Global
	write("Global", [][2]string{
		{"Zone", g.Zone}, {"VPC", g.VPC}, {"SubnetID", g.SubnetID}, {"RouteTableID", g.RouteTableID}, {"RoleARN", g.RoleARN},
		{"KubernetesClusterTag", g.ClusterTag}, {"KubernetesClusterID", g.ClusterID},
		{"DisableSecurityGroupIngress", strconv.FormatBool(g.DisableSecurityGroupIngress)}, {"ElbSecurityGroup", g.ELBSecurityGroup},
		{"DisableStrictZoneCheck", strconv.FormatBool(g.DisableStrictZoneCheck)},
	})
	for _, name := range slices.Sorted(maps.Keys(c.ServiceOverride)) {
		s := c.ServiceOverride[name]
		write(`ServiceOverride "`+name+`"`, [][2]string{
			{"Service", s.Service}, {"Region", s.Region}, {"URL", s.URL},
			{"SigningRegion", s.SigningRegion}, {"SigningMethod", s.SigningMethod}, {"SigningName", s.SigningName},
		})
	}
	return b.String()
}

func openStackConfig(c *clouds.OpenStack) string {
	global := begin("Global", "")
	for _, p := range [][2]string{
		{"auth-url", c.Global.AuthURL}, {"username", c.Global.Username}, {"user-id", c.Global.UserID}, {"password", c.Global.Password},
		{"tenant-id", c.Global.TenantID}, {"tenant-name", c.Global.TenantName}, {"trust-id", c.Global.TrustID}, {"domain-id", c.Global.DomainID},
		{"domain-name", c.Global.DomainName}, {"region", c.Global.Region}, {"ca-file", c.Global.CAFile},
	} {
		global.text(p[0], p[1])
	}
	balancer, l := begin("LoadBalancer", ""), c.LoadBalancer
	balancer.text("lb-version", l.Version)
	balancer.flag("use-octavia", l.UseOctavia)
	balancer.text("subnet-id", l.SubnetID)
	balancer.text("floating-network-id", l.FloatingNetworkID)
	balancer.text("lb-method", l.Method)
	balancer.text("lb-provider", l.Provider)
	balancer.flag("create-monitor", l.CreateMonitor)
	balancer.text("monitor-delay", l.MonitorDelay)
	balancer.text("monitor-timeout", l.MonitorTimeout)
	balancer.number("monitor-max-retries", l.MonitorMaxRetries)
	balancer.flag("manage-security-groups", l.ManageSecurityGroups)
	storage := begin("BlockStorage", "")
	storage.text("bs-version", c.BlockStorage.Version)
	storage.flag("trust-device-path", c.BlockStorage.TrustDevicePath)
	storage.flag("ignore-volume-az", c.BlockStorage.IgnoreVolumeAZ)
	route := begin("Route", "")
	route.text("router-id", c.Route.RouterID)
	metadata := begin("Metadata", "")
	metadata.text("search-order", c.Metadata.SearchOrder)
	metadata.number("request-timeout", c.Metadata.RequestTimeout)
	return join(global, balancer, storage, route, metadata)
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
