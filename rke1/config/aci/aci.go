// Package aci has the settings of Cisco's network plugin: more than a hundred, all of them text.
// They stand in a cluster.yml under aci_network_provider, or one by one as options of the
// network, mostly under the same names. Source: the documented options of RKE.
package aci

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Settings are those under aci_network_provider, by their json names. Every value is a text, a
// list of texts or a list of mappings of texts. The names in cluster.yml are the same words with
// "_" between them. Unknown ones are kept.
type Settings map[string]any

// FromYAML are settings that were read with the names and types of cluster.yml.
func (s Settings) FromYAML() Settings {
	s = s.renamed(camel)
	s.textOnly()
	return s
}

// MarshalYAML writes the names of cluster.yml.
func (s Settings) MarshalYAML() (any, error) { return map[string]any(s.renamed(snake)), nil }

func (s Settings) renamed(rename func(string) string) Settings {
	if s == nil {
		return nil
	}
	renamed := make(Settings, len(s))
	for _, name := range slices.Sorted(maps.Keys(s)) { // sorted for two names that become one
		renamed[rename(name)] = s[name]
	}
	return renamed
}

// textOnly makes numbers and truth values text, which all settings are.
func (s Settings) textOnly() {
	for name, value := range s {
		s[name] = asText(value)
	}
}

func asText(value any) any {
	switch value := value.(type) {
	case []any:
		for i := range value {
			value[i] = asText(value[i])
		}
		return value
	case map[string]any:
		Settings(value).textOnly()
		return value
	case nil:
		return ""
	}
	return fmt.Sprint(value)
}

// camel makes nodeSvcSubnet of node_svc_subnet, and snake the other way.
func camel(name string) string {
	var b strings.Builder
	after := false
	for _, r := range name {
		switch {
		case r == '_':
			after = true
			continue
		case after && 'a' <= r && r <= 'z':
			r += 'A' - 'a'
		}
		after = false
		b.WriteRune(r)
	}
	return b.String()
}

func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// Options are the settings of text as options of the network.
func (s Settings) Options() map[string]string {
	options := map[string]string{}
	for setting, value := range s {
		if text, ok := value.(string); ok {
			options[option(setting)] = text
		}
	}
	return options
}

// option is the option that a setting is folded into.
func option(setting string) string {
	name := snake(setting)
	if other, ok := otherNames[name]; ok {
		name = other
	}
	return "aci_" + name
}

var otherNames = map[string]string{
	"system_id": "system_identifier", "extern_dynamic": "dynamic_external_subnet", "extern_static": "static_external_subnet",
	"node_svc_subnet": "service_graph_subnet", "kube_api_vlan": "kubeapi_vlan", "opflex_log_level": "opflex_agent_log_level",
	"service_monitor_interval": "server_monitor_interval",
}

// needed are the settings of text without which the plugin does not work.
var needed = strings.Fields(`systemId token apicUserName apicUserKey apicUserCrt encapType mcastRangeStart mcastRangeEnd
	nodeSubnet aep vrfName vrfTenant l3out externDynamic externStatic nodeSvcSubnet kubeApiVlan serviceVlan infraVlan`)

// Missing are the settings, by their names in cluster.yml, without which the plugin does not work
// and that are not there. The options are those of the network, with the settings of text among them.
func (s Settings) Missing(options map[string]string) []string {
	var missing []string
	for _, setting := range needed {
		if options[option(setting)] == "" {
			missing = append(missing, snake(setting))
		}
	}
	for _, setting := range []string{"apicHosts", "l3outExternalNetworks"} {
		if list, _ := s[setting].([]any); len(list) == 0 {
			missing = append(missing, snake(setting))
		}
	}
	return missing
}

// Defaults are options in the form name=value, with space between them.
//
// Wire source: rancher/rke cluster/defaults.go.
const Defaults = `aci_ovs_memory_limit=1Gi aci_ovs_memory_request=128Mi aci_image_pull_policy=Always aci_pbr_tracking_non_snat=false
	aci_install_istio=false aci_istio_profile=demo aci_drop_log_enable=true aci_controller_log_level=info
	aci_host_agent_log_level=info aci_opflex_agent_log_level=info aci_apic_refresh_time=1200 aci_server_monitor_interval=5
	aci_use_aci_cni_priority_class=false aci_no_priority_class=false aci_max_nodes_svc_graph=32 aci_snat_contract_scope=global
	aci_pod_subnet_chunk_size=32 aci_enable_endpoint_slice=false aci_snat_namespace=aci-containers-system
	aci_snat_port_range_start=5000 aci_snat_port_range_end=65000 aci_snat_ports_per_node=3000 aci_opflex_client_ssl=true
	aci_use_privileged_container=false aci_use_opflex_server_volume=false aci_use_host_netns_volume=false aci_capic=false
	aci_use_aci_anywhere_crd=false aci_run_gbp_container=false aci_run_opflex_server_container=false
	aci_duration_wait_for_network=210 aci_use_cluster_role=true aci_disable_wait_for_network=false
	aci_apic_subscription_delay=0 aci_apic_refresh_ticker_adjust=0 aci_disable_periodic_snat_global_info_sync=false
	aci_opflex_device_delete_timeout=0 aci_mtu_head_room=0 aci_node_pod_if_enable=false aci_sriov_enable=false
	aci_multus_disable=true aci_no_wait_for_service_ep_readiness=false aci_add_external_subnets_to_rdconfig=false
	aci_service_graph_endpoint_add_delay=0 aci_hpp_optimization=false aci_sleep_time_snat_global_info_sync=0
	aci_opflex_agent_opflex_asyncjson_enabled=false aci_opflex_agent_ovs_asyncjson_enabled=false
	aci_opflex_agent_policy_retry_delay_timer=10 aci_aci_multipod=false aci_aci_multipod_ubuntu=false
	aci_dhcp_renew_max_retry_count=0 aci_dhcp_delay=0 aci_use_system_node_priority_class=false
	aci_aci_containers_memory_request=128Mi aci_aci_containers_memory_limit=3Gi aci_opflex_agent_statistics=true
	aci_add_external_contract_to_default_epg=false aci_enable_opflex_agent_reconnect=false aci_opflex_openssl_compat=false
	aci_toleration_seconds=600 aci_disable_hpp_rendering=false aci_apic_connection_retry_limit=5 aci_taint_not_ready_node=false
	aci_drop_log_disable_events=false aci_opflex_startup_enabled=false aci_opflex_startup_policy_duration=60
	aci_opflex_startup_resolve_aft_conn=false aci_opflex_switch_sync_delay=5 aci_opflex_switch_sync_dynamic=10
	aci_enable_hpp_direct=false aci_proactive_conf=false aci_epg_resolve_prioritize=true aci_force_ep_undeclares=true
	aci_enable_apic_request_retry_delay=true aci_apic_request_retry_delay=2`
