// Package config reads the server's configuration file: YAML, read strictly, whose keys are the names of the flags of drover server.
// A flag on the command line wins over the file.
package config

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/drover-project/drover/cmd/drover/usageerr"
	"github.com/drover-project/drover/plans/durable"
	"github.com/drover-project/drover/plans/strictyaml"
)

// Path is where the packaged unit and drover server install keep the file.
const Path = "/etc/drover/drover.yaml"

// maxSize is how many bytes of a file are read.
const maxSize = 256 << 10

// most is how many values a list may have.
const most = 1000

// File is what a configuration file says.
type File struct {
	// Path is where it is; empty when there is none.
	Path    string
	entries []entry
}

// entry is one key with its values, of which a flag that is no list has one.
type entry struct {
	name   string
	line   int
	values []string
}

// Read reads a file. Where there is none it is empty, unless it has to be there. The errors are those of reading, and name file and
// line of what is not a text, a number, true, false, or a list of these.
func Read(path string, required bool) (File, error) {
	text, err := durable.ReadFile(path, maxSize)
	if errors.Is(err, fs.ErrNotExist) && !required {
		return File{}, nil
	}
	if err != nil {
		return File{}, fmt.Errorf("read the server's configuration: %w", err)
	}
	f := File{Path: path}
	document, err := strictyaml.ReadOne(strictyaml.Source{File: path, Private: true}, text)
	if err != nil {
		return File{}, fmt.Errorf("read the server's configuration: %w", err)
	}
	err = document.Root().Pairs(func(key string, at, value *strictyaml.Node) error {
		e := entry{name: key, line: at.Line()}
		one := func(n *strictyaml.Node) error {
			text, err := n.Text()
			e.values = append(e.values, text)
			return err
		}
		if err := value.Items(most, one); err != nil {
			if e.values = nil; one(value) != nil {
				return err
			}
		}
		f.entries = append(f.entries, e)
		return nil
	})
	if err != nil {
		return File{}, fmt.Errorf("read the server's configuration: %s: %w", path, err)
	}
	return f, nil
}

// Text is the value of a key that has one; "" when the file does not have it.
func (f File) Text(name string) string {
	for _, e := range f.entries {
		if e.name == name && len(e.values) == 1 {
			return e.values[0]
		}
	}
	return ""
}

// Into sets the flags that the command line has not set. The errors name file and line of a key that is no flag of the server, and of a
// value that its flag does not take.
func (f File) Into(flags *pflag.FlagSet, isKey func(*pflag.Flag) bool) error {
	for _, e := range f.entries {
		flag := flags.Lookup(e.name)
		if flag == nil || !isKey(flag) {
			return fmt.Errorf("%s:%d: there is no key %.80q; %s", f.Path, e.line, e.name, usageerr.Hint(e.name, keys(flags, isKey), "drover server --help"))
		}
		if flag.Changed {
			continue
		}
		if err := set(flag, e.values); err != nil {
			return fmt.Errorf("%s:%d: %s: %w", f.Path, e.line, e.name, err)
		}
	}
	return nil
}

func set(flag *pflag.Flag, values []string) error {
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return list.Replace(values)
	}
	if len(values) != 1 {
		return errors.New("one value belongs here, and not a list")
	}
	if flag.Value.Set(values[0]) != nil {
		return fmt.Errorf("%.80q is no %s", values[0], flag.Value.Type()) // the flag's own error names a function of Go
	}
	return nil
}

func keys(flags *pflag.FlagSet, isKey func(*pflag.Flag) bool) (all []string) {
	flags.VisitAll(func(flag *pflag.Flag) {
		if isKey(flag) {
			all = append(all, flag.Name)
		}
	})
	return all
}

// Value is one setting of a server that would start now.
type Value struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// From is where the value comes from: "flag", "default", or file and line.
	From string `json:"from"`
}

// Effective are all settings in the order of their names, after Into.
func (f File) Effective(flags *pflag.FlagSet, isKey func(*pflag.Flag) bool) []Value {
	from := map[string]string{}
	for _, e := range f.entries {
		from[e.name] = fmt.Sprintf("%s:%d", f.Path, e.line)
	}
	var all []Value
	for _, name := range keys(flags, isKey) {
		flag := flags.Lookup(name)
		v := Value{Name: name, Value: flag.Value.String(), From: "default"}
		if list, ok := flag.Value.(pflag.SliceValue); ok {
			v.Value = strings.Join(list.GetSlice(), ",")
		}
		if flag.Changed {
			v.From = "flag"
		} else if at, ok := from[name]; ok {
			v.From = at
		}
		all = append(all, v)
	}
	slices.SortFunc(all, func(a, b Value) int { return strings.Compare(a.Name, b.Name) })
	return all
}
