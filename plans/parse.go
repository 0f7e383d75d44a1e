// Parsing is where a plan from outside is trusted or refused: everything that
// could fail half-way through an apply for a reason written in the plan itself is
// refused here, with the field's name, before the host is touched.

package plans

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"slices"
	"sort"
	"strings"
)

// MaxSize is the largest plan that Parse reads, in bytes. A plan in a Secret is
// below 1 MiB; dropped files may be somewhat larger.
const MaxSize = 4 << 20

// maxObjects bounds the objects of one document: an empty one takes three bytes of JSON,
// but a hundred times that in memory.
const maxObjects = 100_000

// FieldError says which field of a plan is wrong and why.
type FieldError struct {
	Field  string // for example files[2].permissions
	Reason string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return "plan: " + e.Reason
	}
	return "plan field " + e.Field + ": " + e.Reason
}

// Checksum is the identity of a plan: lower-case hex SHA-256 of the exact bytes received.
func Checksum(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// shortDigits is how many digits of a checksum people are shown.
const shortDigits = 12

// Short is the beginning of a checksum, enough to distinguish plans in logs and messages:
// the same digits on the server and on the host.
func Short(checksum string) string { return checksum[:min(len(checksum), shortDigits)] }

// Parse reads and checks a plan. Field names match in any case and unknown fields
// are ignored, as the original agent does, so that newer servers can add fields.
// Every error is a *FieldError.
func Parse(b []byte) (*Plan, error) {
	if len(b) > MaxSize {
		return nil, &FieldError{Reason: fmt.Sprintf("%d bytes are more than the %d allowed", len(b), MaxSize)}
	}
	if n := bytes.Count(b, []byte{'{'}); n > maxObjects {
		return nil, &FieldError{Reason: fmt.Sprintf("%d opening braces are more than the %d allowed", n, maxObjects)}
	}
	var p Plan
	if err := json.Unmarshal(b, &p); err != nil {
		return nil, jsonError(err)
	}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return &p, nil
}

func jsonError(err error) error {
	var wrongType *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrongType):
		return &FieldError{Field: wrongType.Field, Reason: fmt.Sprintf("is %s where %s belongs", article(wrongType.Value), kind(wrongType.Type))}
	case errors.As(err, &syntax):
		return &FieldError{Reason: fmt.Sprintf("not JSON, at byte %d: %v", syntax.Offset, syntax)}
	default:
		return &FieldError{Reason: fmt.Sprintf("not JSON: %v", err)}
	}
}

// kind is the JSON name of what a Go type is read from.
func kind(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "an array"
	case reflect.Struct, reflect.Map:
		return "an object"
	default:
		return "a whole number"
	}
}

func article(noun string) string {
	if strings.HasPrefix(noun, "a") || strings.HasPrefix(noun, "o") {
		return "an " + noun
	}
	return "a " + noun
}

// Validate checks everything that can be checked without a host. Its error is a *FieldError.
func (p Plan) Validate() error {
	for i, f := range p.Files {
		if field, reason := f.fault(); reason != "" {
			return &FieldError{Field: fmt.Sprintf("files[%d].%s", i, field), Reason: reason}
		}
	}
	saved := map[string]int{}
	for i, in := range p.Instructions {
		at := fmt.Sprintf("instructions[%d]", i)
		if err := in.fault(at); err != nil {
			return err
		}
		if !in.SaveOutput {
			continue
		}
		if in.Name == "" {
			return &FieldError{Field: at + ".name", Reason: "is empty, but saveOutput needs a name to save under"}
		}
		if first, taken := saved[in.Name]; taken {
			return &FieldError{Field: at + ".name", Reason: fmt.Sprintf("%q is the name of instructions[%d] too; saved outputs need different names", in.Name, first)}
		}
		saved[in.Name] = i
	}
	recorded := map[string]int{}
	for i, in := range p.PeriodicInstructions {
		at := fmt.Sprintf("periodicInstructions[%d]", i)
		if err := in.fault(at); err != nil {
			return err
		}
		if first, taken := recorded[in.Name]; taken && in.Name != "" {
			return &FieldError{Field: at + ".name", Reason: fmt.Sprintf("%q is the name of periodicInstructions[%d] too; their records need different names", in.Name, first)}
		}
		recorded[in.Name] = i
	}
	for _, name := range sortedKeys(p.Probes) {
		if field, reason := p.Probes[name].fault(); reason != "" {
			return &FieldError{Field: fmt.Sprintf("probes[%s].%s", name, field), Reason: reason}
		}
	}
	return nil
}

// maxUnitName is the longest name that systemd takes, in bytes. It is not part of the expression,
// which every process of the agent would take half a millisecond to compile then.
const maxUnitName = 255

// unitName is the full name of a systemd unit, as systemd.unit(5) has it.
var unitName = regexp.MustCompile(`^[A-Za-z0-9:_.\\@-]+\.(service|socket|device|mount|automount|swap|target|path|timer|slice|scope)$`)

// unitStates are the values of ActiveState that systemd has.
var unitStates = []string{"active", "reloading", "inactive", "failed", "activating", "deactivating", "maintenance", "refreshing"}

func (p Probe) fault() (field, reason string) {
	switch unit := p.Systemd; {
	case unit == nil && p.HTTPGetAction.URL == "":
		return "httpGet.url", "is empty"
	case unit == nil:
		return "", ""
	case p.HTTPGetAction != HTTPGet{}:
		return "systemd", "stands beside httpGet; a probe has one of the two"
	case len(unit.Unit) > maxUnitName || !unitName.MatchString(unit.Unit):
		return "systemd.unit", fmt.Sprintf("%.100q is not the full name of a unit such as k3s.service", unit.Unit)
	case !slices.Contains(unitStates, unit.Wanted()):
		return "systemd.state", fmt.Sprintf("%.100q is none of %s", unit.State, strings.Join(unitStates, ", "))
	}
	return "", ""
}

func (f File) fault() (field, reason string) {
	switch {
	case f.Path == "":
		return "path", "is empty"
	case !path.IsAbs(f.Path):
		return "path", fmt.Sprintf("%q is not absolute", f.Path)
	case strings.ContainsRune(f.Path, 0):
		return "path", "has a NUL byte"
	case path.Clean(f.Path) == "/":
		return "path", "is the root of the host"
	case kernels(f.Path):
		return "path", fmt.Sprintf("%q is below /proc, /sys or /dev, where the kernel keeps its own; an instruction can change what is there", f.Path)
	case f.UID < -1:
		return "uid", fmt.Sprintf("%d is not a user id", f.UID)
	case f.GID < -1:
		return "gid", fmt.Sprintf("%d is not a group id", f.GID)
	}
	if f.Action == ActionDelete {
		return "", ""
	}
	if _, err := f.Mode(); err != nil {
		return "permissions", err.Error()
	}
	if f.Directory {
		return "", ""
	}
	if _, err := f.Bytes(); err != nil {
		return "content", err.Error()
	}
	return "", ""
}

// kernels says whether a path is where the kernel shows itself as files: none of them can
// be replaced or removed without harm, and what is set there is gone with the next boot.
func kernels(name string) bool {
	top, _, _ := strings.Cut(strings.TrimPrefix(path.Clean(name), "/"), "/")
	return top == "proc" || top == "sys" || top == "dev"
}

func (in Instruction) fault(at string) error {
	for i, entry := range in.Env {
		if k, _, ok := strings.Cut(entry, "="); !ok || k == "" {
			return &FieldError{Field: fmt.Sprintf("%s.env[%d]", at, i), Reason: "is not of the form NAME=value"}
		}
		if strings.ContainsRune(entry, 0) {
			return &FieldError{Field: fmt.Sprintf("%s.env[%d]", at, i), Reason: "has a NUL byte"}
		}
	}
	for i, arg := range in.Args {
		if strings.ContainsRune(arg, 0) {
			return &FieldError{Field: fmt.Sprintf("%s.args[%d]", at, i), Reason: "has a NUL byte"}
		}
	}
	if strings.ContainsRune(in.Command, 0) {
		return &FieldError{Field: at + ".command", Reason: "has a NUL byte"}
	}
	return nil
}

// Equal says whether two plans ask for the same, however their bytes are laid out.
func Equal(a, b Plan) bool {
	x, errX := a.Marshal()
	y, errY := b.Marshal()
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}
