// Package versions knows which Kubernetes versions drover can install and which
// settings each of them takes. The data is embedded, so a server without a network
// knows its versions; a file or an address of the administrator's adds to it.
//
// The shape follows Rancher's release metadata (KDM): a version lists the arguments
// of its servers and agents with their types, and a key that is not listed does
// not reach a host.
package versions

import (
	"maps"
	"slices"
)

// Runtime is a Kubernetes distribution.
type Runtime string

// The distributions that a version text can name.
const (
	K3s  Runtime = "k3s"
	RKE2 Runtime = "rke2"
)

// Runtimes are all of them.
func Runtimes() []Runtime { return []Runtime{K3s, RKE2} }

// ArgType is what a setting takes: string, boolean (or bool), array, enum, int or map.
type ArgType string

// Arg is one setting.
type Arg struct {
	Type ArgType `json:"type"`
	// Default is what the setting is where it is not set; nil where the data do not say.
	Default any `json:"default,omitempty"`
	// Options are the allowed values of an enum, and of an array's items. One with commas stands
	// for an array of several items: "multus,canal".
	Options []string `json:"options,omitempty"`
	// Nullable says that null is a value, too.
	Nullable bool `json:"nullable,omitempty"`
}

// Chart is a chart that a release brings along.
type Chart struct {
	Repo    string `json:"repo,omitempty"`
	Version string `json:"version,omitempty"` // "" where only the name is known
}

// Release is one version with its settings. Its maps are shared and never changed.
type Release struct {
	Version string
	Runtime Runtime
	// ServerArgs are taken by machines with the etcd or control-plane role only, AgentArgs by all.
	ServerArgs map[string]Arg
	AgentArgs  map[string]Arg
	// Charts are the charts that chartValues can name, by name.
	Charts map[string]Chart
	// Features are the versions of the release's features: encryption-key-rotation is 2.0.0.
	Features map[string]string
	// Known says that the data have this very version, or its Neighbour. See Data.Permissive.
	Known bool
	// Neighbour is the patch level of the same line whose settings, charts and features these are, where the data do
	// not have the version; "" otherwise.
	Neighbour string
}

// Arg finds a setting of servers or agents.
func (r Release) Arg(key string) (Arg, bool) {
	if arg, ok := r.ServerArgs[key]; ok {
		return arg, true
	}
	arg, ok := r.AgentArgs[key]
	return arg, ok
}

// Defaults are the values of settings that are not set, as far as the data say.
func (r Release) Defaults() map[string]any {
	defaults := map[string]any{}
	for _, args := range []map[string]Arg{r.AgentArgs, r.ServerArgs} {
		for key, arg := range args {
			if arg.Default != nil {
				defaults[key] = arg.Default
			}
		}
	}
	return defaults
}

// Data is everything known, in one value that never changes.
type Data struct {
	// Date is that of the document that was added last; "" where that has none.
	Date string

	releases    map[string]Release
	recommended map[Runtime]string
	sorted      map[Runtime][]entry // newest first
	unions      map[Runtime]Release // of the settings of all versions
}

// entry is a version with its numbers, which are compared often.
type entry struct {
	version string
	number  number
}

// index puts the releases in order, once they are all there, and their settings together.
func (d *Data) index() {
	d.sorted = map[Runtime][]entry{}
	for version, r := range d.releases {
		n, _ := parse(version) // all were looked at
		d.sorted[r.Runtime] = append(d.sorted[r.Runtime], entry{version, n})
	}
	for _, list := range d.sorted {
		slices.SortFunc(list, func(a, b entry) int { return b.number.compare(a.number) })
	}
	d.unions = map[Runtime]Release{}
	for runtime, list := range d.sorted {
		u := Release{Runtime: runtime, ServerArgs: map[string]Arg{}, AgentArgs: map[string]Arg{}}
		for _, e := range slices.Backward(list) { // the newest has the last word
			maps.Copy(u.ServerArgs, d.releases[e.version].ServerArgs)
			maps.Copy(u.AgentArgs, d.releases[e.version].AgentArgs)
		}
		d.unions[runtime] = u
	}
}

// Release looks a version up.
func (d *Data) Release(version string) (Release, bool) {
	r, ok := d.releases[version]
	return r, ok
}

// Permissive is Release for any version of the right form. A version that the data do not have is like its Neighbour: the next
// lower patch level of its line, or else the lowest. Of a line that the data do not have it
// is the union of the settings of all versions of its distribution, with features and charts of the nearest
// lower version, and is not Known. It is false for a text of another form.
func (d *Data) Permissive(version string) (Release, bool) {
	if r, ok := d.Release(version); ok {
		return r, true
	}
	n, ok := parse(version)
	if !ok {
		return Release{}, false
	}
	if near := d.neighbour(RuntimeOf(version), n); near != "" {
		r := d.releases[near]
		r.Version, r.Neighbour = version, near
		return r, true
	}
	u, ok := d.unions[RuntimeOf(version)]
	u.Version = version
	for _, e := range d.sorted[u.Runtime] {
		if e.number.compare(n) < 0 {
			u.Charts, u.Features = d.releases[e.version].Charts, d.releases[e.version].Features
			break
		}
	}
	return u, ok
}

// neighbour is the known version of the same line that is next below, or else the lowest; "" without one.
func (d *Data) neighbour(runtime Runtime, n number) (near string) {
	for _, e := range d.sorted[runtime] {
		if e.number[0] != n[0] || e.number[1] != n[1] {
			continue
		}
		if near = e.version; e.number.compare(n) < 0 {
			break
		}
	}
	return near
}

// List is every known version of a runtime, newest first.
func (d *Data) List(runtime Runtime) []string {
	list := make([]string, len(d.sorted[runtime]))
	for i, e := range d.sorted[runtime] {
		list[i] = e.version
	}
	return list
}

// Default is the version for a new cluster of a distribution: the recommended one, or else the newest;
// "" where no version of it is known.
func (d *Data) Default(runtime Runtime) string {
	if v := d.recommended[runtime]; v != "" {
		return v
	}
	if list := d.sorted[runtime]; len(list) > 0 {
		return list[0].version
	}
	return ""
}

// Upgrades are the known versions that a cluster at a version may be upgraded to: higher
// ones of the same distribution, of the same minor line or the next one, newest first.
func (d *Data) Upgrades(from string) []string {
	n, ok := parse(from)
	if !ok {
		return nil
	}
	list := []string{}
	for _, e := range d.sorted[RuntimeOf(from)] {
		if e.number.compare(n) > 0 && !n.skipsMinor(e.number) {
			list = append(list, e.version)
		}
	}
	return list
}

// Nearest are the known versions of the same minor line, newest first, or the newest of each line when there are none.
func (d *Data) Nearest(version string) []string {
	wanted, _ := parse(version)
	var same, newest []string
	lastLine := [2]int{-1}
	for _, e := range d.sorted[RuntimeOf(version)] {
		line := [2]int{e.number[0], e.number[1]}
		if line == [2]int{wanted[0], wanted[1]} {
			same = append(same, e.version)
		}
		if line != lastLine {
			newest = append(newest, e.version)
			lastLine = line
		}
	}
	if len(same) > 0 {
		return same
	}
	return newest
}
