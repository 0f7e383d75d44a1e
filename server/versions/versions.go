// Package versions knows which Kubernetes versions drover can install and which
// settings each of them takes. The data is embedded, so a server without a network
// knows its versions; a file of the administrator adds to it.
//
// The shape follows Rancher's release metadata (KDM): a version lists the arguments
// of its servers and agents with their types, and a key that is not listed does
// not reach a host.
package versions

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

//go:embed data.json
var embedded []byte

// Runtime is a Kubernetes distribution.
type Runtime string

// The distributions that a version text can name.
const (
	K3s  Runtime = "k3s"
	RKE2 Runtime = "rke2"
)

// RuntimeOf returns the distribution of a version: one that contains "k3s" is k3s, anything else RKE2.
func RuntimeOf(version string) Runtime {
	if strings.Contains(version, "k3s") {
		return K3s
	}
	return RKE2
}

// ArgType is what a setting takes: string, boolean, array, int or enum.
type ArgType string

// Arg is one setting.
type Arg struct {
	Type    ArgType  `json:"type"`
	Options []string `json:"options,omitempty"`
}

// Release is one version with its settings.
type Release struct {
	Version string
	Runtime Runtime
	// ServerArgs are taken by machines with the etcd or control-plane role only, AgentArgs by all.
	ServerArgs map[string]Arg
	AgentArgs  map[string]Arg
}

// document is the layout of data.json. Sets of arguments are named once and extend each other.
type document struct {
	Date string         `json:"date"`
	Sets map[string]set `json:"sets"`
	// Releases lists versions by runtime and by the name of their set.
	Releases map[Runtime]map[string][]string `json:"releases"`
}

type set struct {
	Extends    string         `json:"extends,omitempty"`
	ServerArgs map[string]Arg `json:"serverArgs,omitempty"`
	AgentArgs  map[string]Arg `json:"agentArgs,omitempty"`
}

// Data is everything known, in one value that never changes.
type Data struct {
	Date     string
	releases map[string]Release
}

// Load reads the embedded data and, when a file is named, that file's on top of it, release by release.
func Load(file string) (*Data, error) {
	d := &Data{releases: map[string]Release{}}
	if err := d.add("the built-in version data", embedded); err != nil {
		return nil, err
	}
	if file == "" {
		return d, nil
	}
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read version data: %w", err)
	}
	if err := d.add(file, b); err != nil {
		return nil, err
	}
	return d, nil
}

func (d *Data) add(source string, b []byte) error {
	var doc document
	if err := json.Unmarshal(b, &doc); err != nil {
		return fmt.Errorf("read version data of %s: %w", source, err)
	}
	for runtime, bySet := range doc.Releases {
		for name, list := range bySet {
			server, agent, err := doc.resolve(name, 0)
			if err != nil {
				return fmt.Errorf("read version data of %s: %w", source, err)
			}
			for _, version := range list {
				if _, ok := parse(version); !ok || RuntimeOf(version) != runtime {
					return fmt.Errorf("read version data of %s: %q is no %s version", source, version, runtime)
				}
				d.releases[version] = Release{Version: version, Runtime: runtime, ServerArgs: server, AgentArgs: agent}
			}
		}
	}
	d.Date = doc.Date
	return nil
}

func (doc document) resolve(name string, depth int) (server, agent map[string]Arg, err error) {
	s, ok := doc.Sets[name]
	if !ok || depth > 20 {
		return nil, nil, fmt.Errorf("no set of arguments %q", name)
	}
	server, agent = map[string]Arg{}, map[string]Arg{}
	if s.Extends != "" {
		if server, agent, err = doc.resolve(s.Extends, depth+1); err != nil {
			return nil, nil, err
		}
	}
	for k, v := range s.ServerArgs {
		server[k] = v
	}
	for k, v := range s.AgentArgs {
		agent[k] = v
	}
	return server, agent, nil
}

// Release looks a version up.
func (d *Data) Release(version string) (Release, bool) {
	r, ok := d.releases[version]
	return r, ok
}

// List is every known version of a runtime, newest first.
func (d *Data) List(runtime Runtime) []string {
	var list []string
	for v, r := range d.releases {
		if r.Runtime == runtime {
			list = append(list, v)
		}
	}
	slices.SortFunc(list, func(a, b string) int { return Compare(b, a) })
	return list
}

// Nearest are the known versions of the same minor line, newest first, or the newest of each line when there are none.
func (d *Data) Nearest(version string) []string {
	wanted, ok := parse(version)
	var same, newest []string
	lastMinor := -1
	for _, v := range d.List(RuntimeOf(version)) {
		n, _ := parse(v)
		if ok && n[0] == wanted[0] && n[1] == wanted[1] {
			same = append(same, v)
		}
		if n[1] != lastMinor {
			newest = append(newest, v)
			lastMinor = n[1]
		}
	}
	if len(same) > 0 {
		return same
	}
	return newest
}

// Compare orders two versions; texts that are no versions come first.
func Compare(a, b string) int {
	x, _ := parse(a)
	y, _ := parse(b)
	return slices.Compare(x[:], y[:])
}

// parse reads v1.34.4+k3s1 as 1, 34, 4, 1.
func parse(version string) (n [4]int, ok bool) {
	core, build, hasBuild := strings.Cut(strings.TrimPrefix(version, "v"), "+")
	parts := strings.Split(core, ".")
	if !strings.HasPrefix(version, "v") || !hasBuild || len(parts) != 3 {
		return n, false
	}
	for i, part := range parts {
		v, err := strconv.Atoi(part)
		if err != nil || v < 0 {
			return n, false
		}
		n[i] = v
	}
	build = strings.TrimPrefix(strings.TrimPrefix(build, "k3s"), "rke2r")
	v, err := strconv.Atoi(build)
	n[3] = v
	return n, err == nil
}
