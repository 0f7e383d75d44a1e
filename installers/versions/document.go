// The two forms of version data: drover's own, which names sets of arguments once, and
// Rancher's.
//
// Wire source: rancher/kontainer-driver-metadata data.json; rancher/channelserver pkg/model.

package versions

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

//go:embed data.json
var embedded []byte

// maxReleases bounds a document; the whole history of both distributions has about 1,500.
const maxReleases = 20_000

// document is the layout of both forms.
type document struct {
	// Of drover's own: sets of arguments are named once and extend each other, and Releases lists
	// versions by runtime and by the name of their set.
	Date        string                          `json:"date"`
	Recommended map[Runtime]string              `json:"recommended"`
	Sets        map[string]set                  `json:"sets"`
	Releases    map[Runtime]map[string][]string `json:"releases"`

	// Of Rancher's: everything is written out for each release.
	K3s  *metadata `json:"k3s"`
	RKE2 *metadata `json:"rke2"`
}

type set struct {
	Extends    string         `json:"extends"`
	ServerArgs map[string]Arg `json:"serverArgs"`
	AgentArgs  map[string]Arg `json:"agentArgs"`
	Charts     []string       `json:"charts"`
}

type metadata struct {
	Channels []struct {
		Name   string `json:"name"`
		Latest string `json:"latest"`
	} `json:"channels"`
	Releases []struct {
		Version    string            `json:"version"`
		ServerArgs map[string]Arg    `json:"serverArgs"`
		AgentArgs  map[string]Arg    `json:"agentArgs"`
		Charts     map[string]Chart  `json:"charts"`
		Features   map[string]string `json:"featureVersions"`
	} `json:"releases"`
}

// builtIn names the embedded data where its source is shown.
const builtIn = "the built-in version data"

// Load reads the embedded data and, when a file is named, that file's on top of it. The error names the file, and what in it is not of the form.
func Load(file string) (*Data, error) {
	d, err := (&Data{}).with(builtIn, embedded)
	if err != nil || file == "" {
		return d, err
	}
	text, err := readFile(file)
	if err != nil {
		return nil, err
	}
	return d.with(file, text)
}

// with is the data with those of a document on top, release by release. A document that is
// not right as a whole adds nothing.
func (d *Data) with(source string, text []byte) (*Data, error) {
	next := &Data{Date: d.Date, releases: maps.Clone(d.releases), recommended: maps.Clone(d.recommended)}
	if next.releases == nil {
		next.releases, next.recommended = map[string]Release{}, map[Runtime]string{}
	}
	var doc document
	err := json.Unmarshal(text, &doc)
	if err == nil {
		err = next.add(doc)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", source, located(text, err))
	}
	next.index()
	return next, nil
}

// located gives an error of the JSON parser its line.
func located(text []byte, err error) error {
	offset := int64(-1)
	if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
		offset = syntax.Offset
	}
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		offset = wrong.Offset
	}
	if offset < 0 || offset > int64(len(text)) {
		return err
	}
	return fmt.Errorf("line %d: %w", 1+strings.Count(string(text[:offset]), "\n"), err)
}

func (d *Data) add(doc document) error {
	added, err := d.addSets(doc)
	if err != nil {
		return err
	}
	for _, runtime := range Runtimes() {
		from := doc.K3s
		if runtime == RKE2 {
			from = doc.RKE2
		}
		if from == nil {
			continue
		}
		n, err := d.addMetadata(runtime, from)
		if err != nil {
			return err
		}
		added += n
	}
	if added == 0 {
		return errors.New("it has no release with arguments; expected releases by runtime and set, or k3s.releases and rke2.releases as in Rancher's metadata")
	}
	d.Date = doc.Date
	for _, runtime := range slices.Sorted(maps.Keys(doc.Recommended)) {
		version := doc.Recommended[runtime]
		if r, ok := d.releases[version]; !ok || r.Runtime != runtime {
			return fmt.Errorf("recommended.%s: %q is not one of its releases", runtime, version)
		}
		d.recommended[runtime] = version
	}
	return nil
}

func (d *Data) addSets(doc document) (added int, err error) {
	for _, runtime := range slices.Sorted(maps.Keys(doc.Releases)) {
		if !slices.Contains(Runtimes(), runtime) {
			return 0, fmt.Errorf("releases.%s: is not a runtime; there are k3s and rke2", runtime)
		}
		for name, list := range doc.Releases[runtime] {
			r, err := doc.resolve(name, 0)
			if err != nil {
				return 0, err
			}
			if added += len(list); added > maxReleases {
				return 0, fmt.Errorf("it has more than %d releases", maxReleases)
			}
			for _, version := range list {
				if !WellFormed(version) || RuntimeOf(version) != runtime {
					return 0, fmt.Errorf("releases.%s.%s: %q is not a version of %s", runtime, name, version, runtime)
				}
				r.Version, r.Runtime, r.Known = version, runtime, true
				d.releases[version] = r
			}
		}
	}
	return added, nil
}

// maxExtends bounds how many sets stand upon each other.
const maxExtends = 20

// resolve is a release with what its set has.
func (doc document) resolve(name string, depth int) (r Release, err error) {
	s, ok := doc.Sets[name]
	if !ok {
		return r, fmt.Errorf("there is no set of arguments %q", name)
	}
	if depth > maxExtends {
		return r, fmt.Errorf("sets.%s: more than %d sets extend each other", name, maxExtends)
	}
	r = Release{ServerArgs: map[string]Arg{}, AgentArgs: map[string]Arg{}, Charts: map[string]Chart{}}
	if s.Extends != "" {
		if r, err = doc.resolve(s.Extends, depth+1); err != nil {
			return r, err
		}
	}
	maps.Copy(r.ServerArgs, s.ServerArgs)
	maps.Copy(r.AgentArgs, s.AgentArgs)
	for _, chart := range s.Charts {
		r.Charts[chart] = Chart{}
	}
	r.ServerArgs, r.AgentArgs = settable(r.ServerArgs), settable(r.AgentArgs)
	return r, nil
}

// addMetadata takes Rancher's releases. Early ones have no arguments, and some versions are of
// another form: those are nothing that can be provisioned, and are left out.
func (d *Data) addMetadata(runtime Runtime, m *metadata) (added int, err error) {
	if len(m.Releases) > maxReleases {
		return 0, fmt.Errorf("%s.releases: has more than %d", runtime, maxReleases)
	}
	for i, r := range m.Releases {
		switch {
		case r.Version == "":
			return 0, fmt.Errorf("%s.releases[%d]: has no version", runtime, i)
		case len(r.ServerArgs) == 0 || len(r.AgentArgs) == 0, !WellFormed(r.Version):
			continue
		case RuntimeOf(r.Version) != runtime:
			return 0, fmt.Errorf("%s.releases[%d]: %q is not a version of %s", runtime, i, r.Version, runtime)
		}
		added++
		d.releases[r.Version] = Release{
			Version: r.Version, Runtime: runtime, ServerArgs: settable(r.ServerArgs), AgentArgs: settable(r.AgentArgs),
			Charts: r.Charts, Features: r.Features, Known: true,
		}
	}
	for _, c := range m.Channels {
		if _, ok := d.releases[c.Latest]; ok && c.Name == "default" && RuntimeOf(c.Latest) == runtime {
			d.recommended[runtime] = c.Latest
		}
	}
	return added, nil
}

// settable are the arguments that an owner may set: even where data list them, those that drover sets
// itself on each machine stay its own.
func settable(args map[string]Arg) map[string]Arg {
	left := maps.Clone(args)
	maps.DeleteFunc(left, func(key string, _ Arg) bool { return Reserved(key) })
	return left
}

// reserved are the keys of a machine's place in its cluster.
var reserved = []string{
	"advertise-address", "agent-token", "agent-token-file", "cluster-init", "cluster-reset", "cluster-reset-restore-path", "config", "data-dir",
	"node-external-ip", "node-ip", "node-label", "node-name", "node-taint", "private-registry", "server", "token", "token-file", "with-node-id",
}

// Reserved says whether a key of the distribution's config is drover's own to set.
func Reserved(key string) bool {
	return slices.Contains(reserved, key) || strings.HasPrefix(key, "etcd-s3")
}
