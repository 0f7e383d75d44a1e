// What is taken, and is likely not what its owner means.

package clusterspec

import (
	"fmt"
	"strings"

	"github.com/drover-project/drover/installers/versions"
)

// UnknownVersionData begins the warning of a version that no version data have.
const UnknownVersionData = "UnknownVersionData"

// Warnings are sentences about a document that passed: what was left out of it, and what is taken
// but may surprise. Each begins with the field that it is about.
func Warnings(doc Document, known *versions.Data) []string {
	list := append([]string(nil), doc.Notes...)
	warn := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	rke := doc.Spec.RKEConfig
	if rke == nil {
		return list
	}
	version := doc.Spec.KubernetesVersion
	release, wellFormed := known.Permissive(version)
	if wellFormed && !release.Known {
		warn("spec.kubernetesVersion: %s: there are no data of %s; its settings are passed on unchecked (known are %s)", UnknownVersionData, version, strings.Join(known.Nearest(version), ", "))
	}
	if release.Neighbour != "" {
		warn("spec.kubernetesVersion: %s: there are no data of %s; it is taken with the settings of %s (a server can learn more with --version-data; known are %s)",
			UnknownVersionData, version, release.Neighbour, strings.Join(known.Nearest(version), ", "))
	}
	if release.Known {
		unchecked(rke, release, warn)
	}
	if u := rke.UpgradeStrategy; u != nil {
		for _, one := range []struct {
			name string
			d    *DrainOptions
		}{{"controlPlaneDrainOptions", u.ControlPlaneDrainOptions}, {"workerDrainOptions", u.WorkerDrainOptions}} {
			if one.d != nil && one.d.Enabled && one.d.GracePeriod != nil && *one.d.GracePeriod == 0 {
				warn("spec.rkeConfig.upgradeStrategy.%s.gracePeriod: 0 ends pods at once; leave it out, or write -1, for each pod's own time", one.name)
			}
		}
	}
	dir := configDir(versions.RuntimeOf(version)) + "/"
	for i, files := range rke.MachineSelectorFiles {
		for j, source := range files.FileSources {
			o, _ := source.Object()
			if o == nil {
				continue
			}
			for _, item := range o.Items {
				if strings.HasPrefix(item.Path, dir) {
					warn("spec.rkeConfig.machineSelectorFiles[%d].fileSources[%d]: %s is read beside what drover writes for the node, and may overrule it", i, j, item.Path)
				}
			}
		}
	}
	return list
}

// unchecked are the settings that the data do not list and AllowUnknownArgs lets pass.
func unchecked(rke *RKEConfig, release versions.Release, warn func(format string, values ...any)) {
	of := func(at string, config map[string]any) {
		for _, key := range sortedKeys(config) {
			if _, ok := release.Arg(key); !ok && key != AllowUnknownArgs && allowsUnknown(config) && !IsEmptyArg(config[key]) {
				warn("%s.%s: is not a setting of %s and is passed on unchecked", at, key, release.Version)
			}
		}
	}
	of("spec.rkeConfig.machineGlobalConfig", rke.MachineGlobalConfig)
	for i, s := range rke.MachineSelectorConfig {
		of(fmt.Sprintf("spec.rkeConfig.machineSelectorConfig[%d].config", i), s.Config)
	}
}
