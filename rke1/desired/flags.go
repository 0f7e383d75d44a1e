// Flags of components, and who has the last word about them.

package desired

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

// flags are those of a component, by name without dashes.
type flags map[string]string

// override takes the version data's: an empty value deletes the flag.
func (f flags) override(options map[string]string) {
	for key, value := range options {
		if value == "" {
			delete(f, key)
			continue
		}
		f[key] = value
	}
}

// overrideKubelet is override with two forms that the kubelet's values alone have: two single quotes are an empty
// value, and [PREFIX_PATH] stands for the host's prefix.
func (f flags) overrideKubelet(options map[string]string, prefix string) {
	f.override(options)
	for key, value := range options {
		if value == "''" {
			f[key] = ""
		} else if strings.HasPrefix(value, "[PREFIX_PATH]") {
			f[key] = path.Join(prefix, strings.ReplaceAll(value, "[PREFIX_PATH]", ""))
		}
	}
}

// list writes the flags, sorted, with the owner's: extra_args replaces, extra_args_array is appended and may repeat a flag.
func (f flags) list(s config.Service) []string {
	maps.Copy(f, s.ExtraArgs)
	all := make([]string, 0, len(f))
	for _, key := range slices.Sorted(maps.Keys(f)) {
		all = append(all, "--"+key+"="+f[key])
	}
	for _, key := range slices.Sorted(maps.Keys(s.ExtraArgsArray)) {
		for _, value := range s.ExtraArgsArray[key] {
			all = append(all, "--"+key+"="+value)
		}
	}
	return all
}

// command is the entrypoint of a component in the Kubernetes image: the helper image's script, which ends in the component.
func command(component string, all []string) []string {
	return append([]string{"/opt/rke-tools/entrypoint.sh", component}, all...)
}
