// Package dropcap rewrites what a container engine hands to runc so that containers also start on machines that
// withhold CAP_SYS_RESOURCE.
//
// A privileged container asks for every capability there is. On a machine whose capability bounding set lacks
// CAP_SYS_RESOURCE the kernel refuses that, and runc fails with "unable to apply caps". The same machine also refuses
// resource limits above the present hard limits and an OOM score below the present one, which need that capability.
// This package takes these requests out of the OCI runtime specification (the config.json of a bundle for `create`, the
// process file for `exec`); everything else in the document stays as it was.
package dropcap

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Capability is the name, in OCI documents, of the capability that is taken out.
const Capability = "CAP_SYS_RESOURCE"

// maxSpec bounds what is read of a specification; real ones are a few dozen KiB.
const maxSpec = 16 << 20

// Kind says which OCI document a runc command reads.
type Kind int

const (
	// None: the command reads neither document, or leaves it to runc's own defaults.
	None Kind = iota
	// Bundle: the command reads a whole runtime specification (config.json in the bundle).
	Bundle
	// Process: the command reads only the process part of one (runc exec --process FILE).
	Process
)

// Limits are the bounds of the calling process, which containers cannot exceed without the capability.
type Limits struct {
	// Hard returns the hard limit of an OCI rlimit name ("RLIMIT_NOFILE"); false for names it does not know.
	Hard func(name string) (uint64, bool)
	// OOMScoreAdj is the lowest OOM score adjustment a child may have.
	OOMScoreAdj int64
}

// Target finds the document the runc command line args (without the program's name) reads. workDir resolves a bundle
// or process path that is relative, and is the bundle's place when none is given.
func Target(args []string, workDir string) (string, Kind) {
	command, rest := splitCommand(args)
	switch command {
	case "create", "run", "restore":
		bundle, ok := flagValue(rest, "b", "bundle")
		if !ok {
			bundle = workDir
		}
		return filepath.Join(absolute(bundle, workDir), "config.json"), Bundle
	case "exec":
		process, ok := flagValue(rest, "p", "process")
		if !ok {
			return "", None
		}
		return absolute(process, workDir), Process
	default:
		return "", None
	}
}

// splitCommand skips runc's global flags and returns the sub-command and what follows it.
func splitCommand(args []string) (string, []string) {
	for i := 0; i < len(args); i++ {
		if !strings.HasPrefix(args[i], "-") {
			return args[i], args[i+1:]
		}
		switch strings.TrimLeft(args[i], "-") {
		case "root", "log", "log-format", "criu", "rootless":
			i++ // the value is the next argument
		}
	}
	return "", nil
}

// flagValue returns the value of the flag with one of the given names, in the forms -n v, --name v and --name=v.
func flagValue(args []string, names ...string) (string, bool) {
	for i, arg := range args {
		if !strings.HasPrefix(arg, "-") {
			continue
		}
		name, value, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		for _, want := range names {
			switch {
			case name != want:
			case inline:
				return value, true
			case i+1 < len(args):
				return args[i+1], true
			}
		}
	}
	return "", false
}

func absolute(path, workDir string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(workDir, path)
}

// RewriteFile applies Rewrite to the file at path and replaces it atomically, with the same mode. A file that needs no
// change is left alone.
func RewriteFile(path string, kind Kind, limits Limits) error {
	before, mode, err := read(path)
	if err != nil {
		return err
	}
	after, err := Rewrite(before, kind, limits)
	if err != nil {
		return fmt.Errorf("rewrite %s: %w", path, err)
	}
	if bytes.Equal(before, after) {
		return nil
	}
	temp, err := os.CreateTemp(filepath.Dir(path), ".dropcap-*")
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	defer os.Remove(temp.Name()) // gone already after the rename
	_, err = temp.Write(after)
	if chmodErr := temp.Chmod(mode); err == nil {
		err = chmodErr
	}
	if closeErr := temp.Close(); err == nil {
		err = closeErr
	}
	if err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("replace %s: %w", path, err)
	}
	return nil
}

func read(path string) ([]byte, os.FileMode, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, 0, fmt.Errorf("read the specification: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, 0, fmt.Errorf("read the specification: %w", err)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxSpec+1))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", path, err)
	}
	if len(data) > maxSpec {
		return nil, 0, fmt.Errorf("read %s: larger than %d bytes", path, maxSpec)
	}
	return data, info.Mode().Perm(), nil
}

// Rewrite returns the document without the requests that need the capability. A document without such requests comes
// back byte for byte.
func Rewrite(document []byte, kind Kind, limits Limits) ([]byte, error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber() // sizes and limits exceed what a float64 holds
	var root map[string]any
	if err := decoder.Decode(&root); err != nil {
		return nil, fmt.Errorf("parse the specification: %w", err)
	}
	process := root
	if kind == Bundle {
		process, _ = root["process"].(map[string]any)
	}
	changed := dropCapability(process)
	changed = clampRlimits(process, limits) || changed
	changed = raiseOOMScore(process, limits) || changed
	if !changed {
		return document, nil
	}
	out, err := json.Marshal(root)
	if err != nil {
		return nil, fmt.Errorf("encode the specification: %w", err)
	}
	return out, nil
}

// dropCapability removes the capability from all five sets.
func dropCapability(process map[string]any) bool {
	sets, _ := process["capabilities"].(map[string]any)
	changed := false
	for name, value := range sets {
		set, _ := value.([]any)
		kept := make([]any, 0, len(set))
		for _, capability := range set {
			if capability != Capability {
				kept = append(kept, capability)
			}
		}
		if len(kept) != len(set) {
			sets[name] = kept
			changed = true
		}
	}
	return changed
}

// clampRlimits lowers each limit to the hard limit of this process.
func clampRlimits(process map[string]any, limits Limits) bool {
	list, _ := process["rlimits"].([]any)
	changed := false
	for _, entry := range list {
		rlimit, _ := entry.(map[string]any)
		name, _ := rlimit["type"].(string)
		ceiling, known := limits.Hard(name)
		if !known {
			continue
		}
		for _, key := range []string{"hard", "soft"} {
			number, _ := rlimit[key].(json.Number)
			var value uint64
			if err := json.Unmarshal([]byte(number), &value); err != nil || value <= ceiling {
				continue // not a number: runc says so better than we can
			}
			rlimit[key] = ceiling
			changed = true
		}
	}
	return changed
}

// raiseOOMScore lifts an OOM score adjustment below this process's own to this process's own.
func raiseOOMScore(process map[string]any, limits Limits) bool {
	number, ok := process["oomScoreAdj"].(json.Number)
	if !ok {
		return false
	}
	value, err := number.Int64()
	if err != nil || value >= limits.OOMScoreAdj {
		return false
	}
	process["oomScoreAdj"] = limits.OOMScoreAdj
	return true
}
