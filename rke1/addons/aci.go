package addons

// aci.go are the values that templates for Cisco's network plugin are given. There is no text of
// our own for it.

import (
	"fmt"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
)

// aciWords are the values that are options of the network under nearly the same names.
var aciWords = strings.Fields(`SystemIdentifier Token ApicUserName ApicUserKey ApicUserCrt ApicRefreshTime VmmDomain VmmController
	EncapType McastRangeStart McastRangeEnd AEP VRFName VRFTenant L3Out ServiceGraphSubnet KubeAPIVlan ServiceVlan InfraVlan
	ImagePullPolicy ImagePullSecret Tenant ServiceMonitorInterval PBRTrackingNonSnat InstallIstio IstioProfile DropLogEnable
	ControllerLogLevel HostAgentLogLevel OpflexAgentLogLevel OVSMemoryLimit OVSMemoryRequest UseAciCniPriorityClass
	NoPriorityClass MaxNodesSvcGraph SnatContractScope PodSubnetChunkSize EnableEndpointSlice SnatNamespace EpRegistry
	OpflexMode SnatPortRangeStart SnatPortRangeEnd SnatPortsPerNode OpflexClientSSL UsePrivilegedContainer UseHostNetnsVolume
	UseOpflexServerVolume KafkaClientCrt KafkaClientKey SubnetDomainName CApic UseAciAnywhereCRD OverlayVRFName GbpPodSubnet
	RunGbpContainer RunOpflexServerContainer OpflexServerPort DurationWaitForNetwork DisableWaitForNetwork UseClusterRole
	ApicSubscriptionDelay ApicRefreshTickerAdjust DisablePeriodicSnatGlobalInfoSync OpflexDeviceDeleteTimeout MTUHeadRoom
	NodePodIfEnable SriovEnable MultusDisable NoWaitForServiceEpReadiness AddExternalSubnetsToRdconfig
	ServiceGraphEndpointAddDelay HppOptimization SleepTimeSnatGlobalInfoSync OpflexAgentOpflexAsyncjsonEnabled
	OpflexAgentOvsAsyncjsonEnabled OpflexAgentPolicyRetryDelayTimer AciMultipod OpflexDeviceReconnectWaitTimeout
	AciMultipodUbuntu DhcpRenewMaxRetryCount DhcpDelay UseSystemNodePriorityClass AciContainersControllerMemoryRequest
	AciContainersControllerMemoryLimit AciContainersHostMemoryRequest AciContainersHostMemoryLimit McastDaemonMemoryRequest
	McastDaemonMemoryLimit OpflexAgentMemoryRequest OpflexAgentMemoryLimit AciContainersMemoryRequest AciContainersMemoryLimit
	OpflexAgentStatistics AddExternalContractToDefaultEpg EnableOpflexAgentReconnect OpflexOpensslCompat TolerationSeconds
	DisableHppRendering ApicConnectionRetryLimit TaintNotReadyNode DropLogDisableEvents DropLogOpflexRedirectDropLogs
	OpflexStartupEnabled OpflexStartupPolicyDuration OpflexStartupResolveAftConn OpflexSwitchSyncDelay OpflexSwitchSyncDynamic
	UnknownMacUnicastAction EnableHppDirect OpflexAgentResetWaitDelay ProactiveConf EpgResolvePrioritize ForceEpUndeclares
	EnableApicRequestRetryDelay ApicRequestRetryDelay`)

// aciOtherOptions are the options whose names are others.
var aciOtherOptions = map[string]string{
	"L3Out": "aci_l3out", "KubeAPIVlan": "aci_kubeapi_vlan", "CApic": "aci_capic", "ServiceMonitorInterval": "aci_server_monitor_interval",
}

var wordBounds = regexp.MustCompile(`([a-z0-9])([A-Z])|([A-Z])([A-Z][a-z])`)

// aciOption is the option of a value: aci_vrf_name of VRFName.
func aciOption(word string) string {
	if other, ok := aciOtherOptions[word]; ok {
		return other
	}
	return "aci_" + strings.ToLower(wordBounds.ReplaceAllString(word, "${1}${3}_${2}${4}"))
}

// addressRange is what is left of a range without its own address and its last ones.
type addressRange struct{ Start, End netip.Addr }

// podNetwork is a range of pods and the address that leads out of it.
type podNetwork struct {
	Subnet  netip.Prefix
	Gateway netip.Addr
}

func (w *writer) aci(v values) error {
	options, images := w.c.Network.Options, &w.c.SystemImages
	for _, word := range aciWords {
		v[word] = options[aciOption(word)]
	}
	if v["Tenant"] == "" {
		v["Tenant"] = v["SystemIdentifier"]
	}
	for key, setting := range map[string]string{
		"ApicHosts": "apicHosts", "L3OutExternalNetworks": "l3outExternalNetworks", "KafkaBrokers": "kafkaBrokers",
		"NodeSnatRedirectExclude": "nodeSnatRedirectExclude", "ServiceGraphEndpointAddServices": "serviceGraphEndpointAddServices",
	} {
		v[key] = entries(w.c.Network.ACI[setting])
	}
	v["AciCniDeployContainer"], v["AciHostContainer"] = images.ACICNIDeployContainer, images.ACIHostContainer
	v["AciOpflexContainer"], v["AciMcastContainer"] = images.ACIOpflexContainer, images.ACIMcastContainer
	v["AciOpenvSwitchContainer"], v["AciControllerContainer"] = images.ACIOVSContainer, images.ACIControllerContainer
	v["AciGbpServerContainer"], v["AciOpflexServerContainer"] = images.ACIGBPServerContainer, images.ACIOpflexServerContainer

	v["NodeSubnet"] = quoted(options["aci_node_subnet"])
	pods, err := subnets("services.kube-controller.cluster_cidr", w.c.Services.KubeController.ClusterCIDR)
	if err != nil {
		return err
	}
	var networks []podNetwork
	for _, pod := range pods {
		networks = append(networks, podNetwork{pod, pod.Addr().Next()})
	}
	v["PodNetwork"], v["PodIPPool"], v["PodSubnet"] = networks, pools(pods), quoted(w.c.Services.KubeController.ClusterCIDR)
	for _, list := range []struct{ option, subnets, pool string }{
		{"aci_static_external_subnet", "StaticExternalSubnet", "StaticServiceIPPool"},
		{"aci_dynamic_external_subnet", "DynamicExternalSubnet", "ServiceIPPool"},
	} {
		all, err := subnets("network.options."+list.option, options[list.option])
		if err != nil {
			return err
		}
		v[list.subnets], v[list.pool] = quoted(options[list.option]), pools(all)
	}
	nodes, err := subnets("network.options.aci_service_graph_subnet", options["aci_service_graph_subnet"])
	if err != nil {
		return err
	}
	nodeService := pools(nodes)[0]
	v["NodeServiceIPStart"], v["NodeServiceIPEnd"] = nodeService.Start, nodeService.End
	return nil
}

// entries are those of a setting that is a list. Templates write the names of mappings large: Group.
func entries(setting any) []any {
	list, _ := setting.([]any)
	var all []any
	for _, entry := range list {
		if mapping, ok := entry.(map[string]any); ok {
			large := map[string]any{}
			for key, value := range mapping {
				large[strings.ToUpper(key[:min(1, len(key))])+key[min(1, len(key)):]] = value
			}
			entry = large
		}
		all = append(all, entry)
	}
	return all
}

// subnets are ranges with commas between them; there is at least one.
func subnets(field, list string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		p, err := netip.ParsePrefix(strings.TrimSpace(text))
		if err != nil {
			return nil, fmt.Errorf("%s: %.60q is not a range such as 10.3.0.1/16", field, text)
		}
		all = append(all, p.Masked())
	}
	return all, nil
}

// pools leave out the first two addresses of each range and the last one.
func pools(ranges []netip.Prefix) []addressRange {
	var all []addressRange
	for _, r := range ranges {
		last := r.Addr().AsSlice()
		for bit := r.Bits(); bit < len(last)*8; bit++ {
			last[bit/8] |= 1 << (7 - bit%8)
		}
		end, _ := netip.AddrFromSlice(last) // of the length that it had
		all = append(all, addressRange{r.Addr().Next().Next(), end.Prev()})
	}
	return all
}

func quoted(list string) []string {
	var all []string
	for text := range strings.SplitSeq(list, ",") {
		all = append(all, strconv.Quote(text))
	}
	return all
}
