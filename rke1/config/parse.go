package config

// parse.go reads a config in either of its forms and says what of it is not understood.

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/strictyaml"
)

// File is a config as its author wrote it: without defaults, and with the way back to its lines.
type File struct {
	Cluster Cluster
	// Warnings are about keys that nothing reads, with line and path. The rke command line
	// passes over them in silence.
	Warnings strictyaml.Errors

	source strictyaml.Source
	doc    *strictyaml.Document
	json   bool // the keys are those of the management API
}

// Parse reads a cluster.yml. The error is a strictyaml.Errors with everything that is wrong in
// the text's form, by line and path; it repeats no values, because many of them are secrets.
// What the values mean together, package check says.
//
// As the rke command line does, it takes 22 and true where text belongs, YAML 1.1's yes and no,
// and "<<". Unlike it, it refuses a key that is there twice.
func Parse(source strictyaml.Source, text []byte) (*File, error) {
	return parse(source, text, false)
}

// ParseManagement is Parse for the rancherKubernetesEngineConfig of a management cluster, in YAML
// or JSON, whose keys are the json tags. Its errors are those of Parse.
func ParseManagement(source strictyaml.Source, text []byte) (*File, error) {
	return parse(source, text, true)
}

// ParseDocument is ParseManagement of a value that was read already, such as a part of another document; a mapping with
// keys of cluster.yml is read as Parse does. An empty mapping is a config without anything.
func ParseDocument(doc *strictyaml.Document) (*File, strictyaml.Errors) {
	written := false // as cluster.yml
	// What is not a mapping is refused below.
	_ = doc.Root().Pairs(func(key string, _, _ *strictyaml.Node) error {
		written = written || strings.Contains(key, "_")
		return nil
	})
	return (&File{json: !written}).read(doc)
}

func parse(source strictyaml.Source, text []byte, json bool) (*File, error) {
	doc, err := strictyaml.ReadOne(source, text)
	if err != nil {
		return nil, tabbed(err, text)
	}
	if doc.Empty() {
		return nil, strictyaml.Errors{{File: source.File, Line: 1, Reason: "is empty; a config has at least nodes"}}
	}
	f, errs := (&File{source: source, json: json}).read(doc)
	if len(errs) > 0 {
		return nil, errs
	}
	return f, nil
}

// read fills a file from its document.
func (f *File) read(doc *strictyaml.Document) (*File, strictyaml.Errors) {
	f.doc = doc
	o := strictyaml.Options{AsWritten: true, YesNo: true, MergeKeys: true, Private: true}
	if f.json {
		// Clients of that API send back the type of each object, and fields that they never set.
		o.Ignore = func(path string) bool { return path == "type" || strings.HasSuffix(path, ".type") }
		o.IgnoreZero = strictyaml.IgnoreAll
	} else {
		o.Tag, o.Unknown = "yaml", retired
	}
	found := doc.Decode(&f.Cluster, o)
	var wrong strictyaml.Errors
	for _, e := range found {
		switch e.Kind {
		case strictyaml.Unknown:
			e.Reason += "; it is ignored"
			f.Warnings = append(f.Warnings, e)
		case strictyaml.Type:
			if e.Want == "IntOrText" {
				e.Want = "a whole number or a percentage"
			}
			e.Reason = fmt.Sprintf("is %s where %s belongs", e.Got, e.Want)
			if e.Got == strictyaml.Quoted && slices.Contains([]string{"true or false", "a whole number", "a number"}, e.Want) {
				e.Reason += "; write it without quotes"
			}
			wrong = append(wrong, e)
		default:
			wrong = append(wrong, e)
		}
	}
	if len(found) >= maxProblems { // reading ended there
		return nil, found
	}
	if len(wrong) > 0 {
		return nil, wrong
	}
	f.Cluster.Network.ACI = f.Cluster.Network.ACI.FromYAML()
	f.fillDrain()
	return f, nil
}

// retired are keys that have been fields, or that are fields elsewhere.
func retired(path string) string {
	switch path {
	case "rancher_kubernetes_engine_config", "rancherKubernetesEngineConfig":
		return "is what a management server shows of a cluster; a cluster.yml has what is below it"
	}
	return ""
}

// maxProblems is how many errors strictyaml reports before it stops to read.
const maxProblems = 100

// tabbed says of a syntax error that it is one of tabs, where the parser speaks of characters
// and tokens. The parser names the line of the tab or the one before.
func tabbed(err error, text []byte) error {
	errs, ok := errors.AsType[strictyaml.Errors](err)
	if !ok || len(errs) != 1 || errs[0].Kind != strictyaml.Syntax {
		return err
	}
	lines := strings.Split(string(text), "\n")
	for n := max(errs[0].Line, 1); n <= min(errs[0].Line+1, len(lines)); n++ {
		line := lines[n-1]
		if indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]; strings.Contains(indent, "\t") {
			e := errs[0]
			e.Line, e.Reason = n, "not YAML: the line is indented with a tab; indent it with spaces"
			return strictyaml.Errors{e}
		}
	}
	return err
}

// fillDrain fills what a drain input does not say. It is done here, where a grace period of 0
// can be told from none.
func (f *File) fillDrain() {
	if f.Cluster.UpgradeStrategy == nil || f.Cluster.UpgradeStrategy.DrainInput == nil {
		return
	}
	has := map[string]bool{}
	note := func(n *strictyaml.Node) error {
		return n.Pairs(func(key string, _, value *strictyaml.Node) error {
			has[key] = !value.Empty()
			return nil
		})
	}
	input := func(n *strictyaml.Node) error {
		return n.Fields(strictyaml.Readers{"node_drain_input": note, "nodeDrainInput": note})
	}
	// Decode has read these mappings, so that they are some.
	_ = f.doc.Root().Fields(strictyaml.Readers{"upgrade_strategy": input, "upgradeStrategy": input})
	in, standard := f.Cluster.UpgradeStrategy.DrainInput, defaultDrain()
	if in.IgnoreDaemonSets == nil {
		in.IgnoreDaemonSets = standard.IgnoreDaemonSets
	}
	in.Timeout = cmp.Or(in.Timeout, standard.Timeout)
	if !has["grace_period"] && !has["gracePeriod"] {
		in.GracePeriod = standard.GracePeriod
	}
}

// At is an error at a field, which is named by its yaml names: nodes[0].hostname_override. A nil
// File has no lines.
func (f *File) At(path, reason string) strictyaml.Error {
	e := strictyaml.Error{Path: path, Reason: reason}
	if f == nil {
		return e
	}
	if f.json {
		e.Path = jsonPath(path)
	}
	e.File, e.Line = f.source.File, f.doc.LineOf(e.Path)
	return e
}

// jsonPath is a path of yaml names in json names. Steps that are no fields stay as they are.
func jsonPath(path string) string {
	t := reflect.TypeFor[Cluster]()
	steps := strings.Split(path, ".")
	for i, step := range steps {
		name, index, _ := strings.Cut(step, "[")
		for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
			t = t.Elem()
		}
		if t.Kind() == reflect.Map {
			t = t.Elem()
			continue
		}
		if t.Kind() != reflect.Struct {
			break
		}
		for _, field := range reflect.VisibleFields(t) {
			if tagName(field, "yaml") == name && !field.Anonymous {
				steps[i], t = tagName(field, "json"), field.Type
				if index != "" {
					steps[i] += "[" + index
				}
				break
			}
		}
	}
	return strings.Join(steps, ".")
}

func tagName(f reflect.StructField, tag string) string {
	name, _, _ := strings.Cut(f.Tag.Get(tag), ",")
	return name
}
