// Which changes a cluster that exists can take.

package clusterspec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/apitypes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans/strictyaml"
)

// AllowSkippedMinor is an annotation of a cluster: "true" lets an upgrade leave out a minor line.
const AllowSkippedMinor = "drover.dev/allow-skipped-minor"

// MaintenanceWindow is an annotation of a cluster: when its machines may be restarted, in the form of ParseWindows.
const MaintenanceWindow = "drover.dev/maintenance-window"

// PinAgents is an annotation of a cluster: "true" has the agents of its hosts stay of the release that they are of.
const PinAgents = apitypes.PinAgents

// NoSnapshot is an annotation of a cluster: "true" has upgrades and restores begin without a snapshot of its etcd.
const NoSnapshot = "drover.dev/no-snapshot"

// NoAgents is an annotation of a cluster: "true" says that the agents of its hosts were taken off on purpose, so that its
// machines are Active by their nodes alone.
const NoAgents = "drover.dev/no-agents"

// Live is what is seen of a cluster when its document changes.
type Live struct {
	// Versions are the Kubernetes versions that its API and nodes report. A version that was asked for and never
	// ran can be taken back.
	Versions []string
	// Started says that a control plane has been up: what its data were made with stays.
	Started bool
}

// fixed are settings that a cluster is made with, and what they are where they are not set ("" where
// that depends). The join tokens are drover's own and come here only by AllowUnknownArgs.
var fixed = []struct {
	key   string
	usual map[versions.Runtime]string
}{
	{"cluster-cidr", map[versions.Runtime]string{versions.K3s: usualRanges["cluster-cidr"], versions.RKE2: usualRanges["cluster-cidr"]}},
	{"service-cidr", map[versions.Runtime]string{versions.K3s: usualRanges["service-cidr"], versions.RKE2: usualRanges["service-cidr"]}},
	{"cluster-dns", nil},
	{"cni", map[versions.Runtime]string{versions.RKE2: "calico"}},
	{"token", nil}, {"token-file", nil}, {"agent-token", nil}, {"agent-token-file", nil},
}

// CheckChange refuses changes that a cluster cannot take; the error is a strictyaml.Errors with all of them. After
// has the annotations that the cluster has then, those that were there before included.
func CheckChange(before, after Document, live Live) error {
	var errs strictyaml.Errors
	refuse := func(at, format string, args ...any) {
		errs = append(errs, strictyaml.Error{Path: at, Reason: fmt.Sprintf(format, args...)})
	}
	if before.Spec.Docker() != after.Spec.Docker() {
		refuse("apiVersion", "a cluster of that name exists and is of the other kind, which cannot be changed: %s or %s", APIVersion, DockerAPIVersion)
		return errs
	}
	if before.Spec.Imported() != after.Spec.Imported() {
		refuse("spec", "a cluster of that name exists and is of the other kind, which cannot be changed: imported, without kubernetesVersion and rkeConfig, or provisioned by the server, with both")
		return errs
	}
	if before.Spec.RKEConfig == nil || after.Spec.RKEConfig == nil {
		return nil
	}
	was, is := before.Spec.KubernetesVersion, after.Spec.KubernetesVersion
	runtime := versions.RuntimeOf(was)
	if runtime != versions.RuntimeOf(is) {
		refuse("spec.kubernetesVersion", "the distribution cannot be changed from that of %s to that of %s; make a new cluster", was, is)
		return errs
	}
	if was != is && len(live.Versions) > 0 {
		lowest, highest := slices.MinFunc(live.Versions, versions.Compare), slices.MaxFunc(live.Versions, versions.Compare)
		switch {
		case versions.Compare(is, highest) < 0:
			refuse("spec.kubernetesVersion", "a cluster cannot go back from %s, which runs, to %s; its data may be of the newer form already (the way back is to restore a snapshot)", highest, is)
		case versions.SkipsMinor(lowest, is) && after.Metadata.Annotations[AllowSkippedMinor] != "true":
			refuse("spec.kubernetesVersion", "the way from %s, which runs, to %s leaves out a minor line, which Kubernetes does not support; go through each line (`drover versions ls --cluster %s` lists the next versions), or set the annotation %s: \"true\"",
				lowest, is, after.Metadata.Name, AllowSkippedMinor)
		}
	}
	directoryChanges(before.Spec, after.Spec, refuse)
	if live.Started {
		for _, one := range fixed {
			if one.usual != nil && one.usual[runtime] == "" {
				continue // the distribution has no such setting
			}
			fixedChange(before.Spec.RKEConfig, after.Spec.RKEConfig, one.key, one.usual[runtime], refuse)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errs
}

func directoryChanges(before, after Spec, refuse func(at, format string, args ...any)) {
	was, is := dataDirectories(before), dataDirectories(after)
	for _, dir := range []struct{ name, was, is string }{
		{"k8sDistro", was.K8sDistro, is.K8sDistro}, {"provisioning", was.Provisioning, is.Provisioning}, {"systemAgent", was.SystemAgent, is.SystemAgent},
	} {
		if dir.was != dir.is {
			refuse("spec.rkeConfig.dataDirectories."+dir.name, "cannot be changed once the cluster exists, from %q to %q; take the change back, or make a new cluster", dir.was, dir.is)
		}
	}
}

func dataDirectories(s Spec) DataDirectories {
	if s.RKEConfig.DataDirectories == nil {
		return DataDirectories{}
	}
	return *s.RKEConfig.DataDirectories
}

// fixedChange refuses another value of a setting that stays, for all machines or for some.
func fixedChange(before, after *RKEConfig, key, byDefault string, refuse func(at, format string, args ...any)) {
	const wayOut = "is what the cluster was made with and cannot be changed once its control plane has been up, from %s to %s; take the change back, or make a new cluster"
	was, is := plain(before.MachineGlobalConfig[key], byDefault), plain(after.MachineGlobalConfig[key], byDefault)
	if was != is {
		refuse("spec.rkeConfig.machineGlobalConfig."+key, wayOut, shownValue(key, was), shownValue(key, is))
	}
	wasFor, isFor := selected(before, key), selected(after, key)
	for i := range max(len(wasFor), len(isFor)) {
		old, now := selection{}, selection{}
		if i < len(wasFor) {
			old = wasFor[i]
		}
		if i < len(isFor) {
			now = isFor[i]
		}
		if old.of == now.of && old.value == now.value {
			continue
		}
		at := cmp.Or(now.at, old.at)
		refuse(at, wayOut, shownValue(key, old.value), shownValue(key, now.value))
		return
	}
}

// selection is the value of a setting for some machines.
type selection struct{ at, of, value string }

// selected are the values that selectors give a setting, in their order.
func selected(rke *RKEConfig, key string) []selection {
	var list []selection
	for i, s := range rke.MachineSelectorConfig {
		value, ok := s.Config[key]
		if !ok || IsEmptyArg(value) && IsEmptyArg(rke.MachineGlobalConfig[key]) && len(list) == 0 { // there is nothing to take back
			continue
		}
		of, err := json.Marshal(s.MachineLabelSelector)
		if err != nil {
			of = nil // texts can be written
		}
		list = append(list, selection{fmt.Sprintf("spec.rkeConfig.machineSelectorConfig[%d].config.%s", i, key), string(of), plain(value, "")})
	}
	return list
}

// plain is the one text for all ways in which a value can be written.
func plain(value any, byDefault string) string {
	if text := strings.Join(argItems(value), ","); text != "" {
		return text
	}
	return byDefault
}

// shownValue is a value for people. Tokens are never shown.
func shownValue(key, value string) string {
	switch {
	case value == "":
		return "none"
	case strings.Contains(key, "token"):
		return "one"
	}
	return fmt.Sprintf("%q", value)
}
