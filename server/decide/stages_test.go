package decide

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/pass"
	"github.com/drover-project/drover/server/observed"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// sets are the fields that each stage sets: of the pass, and of a machine, which are named with a dot before.
var sets = map[string][]string{
	"elect":   {"Init", "Began", "Gate", ".Next.Init", ".Next.JoinURL"},
	"desired": {"Verdict.Renderer", ".Server", ".Wanted", ".DrainHashes", ".Change", ".Next.Relabelled", ".Next.Restarts", ".Finding"},
	"judge":   {".Finding", ".Text", ".Next.Member"},
	"leave":   {".Finding", ".Deliver", ".Retry", ".Order", ".Remove", ".Next.Leaves", ".Next.Cleared"},
	"rollout": {
		"NextOperation", "Saved", "NewSpec", "Again", "NextSecrets", "Unguarded", "Verdict.Restoring", "Verdict.Halted",
		".Finding", ".Text", ".Deliver", ".Retry", ".Order", ".Server", ".Wanted", ".Next.JoinedTo", ".Next.Drain", ".Next.Given", ".Next.Member", ".Next.Restarts",
	},
	"explain": {"NextOperation", "Again", "Verdict"},
}

// fieldsOf are the fields that stages may set, as text: "Verdict.State", or "m0.Next.JoinURL".
func fieldsOf(p *pass.Pass) map[string]string {
	all := map[string]string{}
	var add func(name string, v reflect.Value)
	add = func(name string, v reflect.Value) {
		switch is := v.Interface().(type) {
		case *pass.Member:
			if is != nil {
				all[name] = is.Name
			}
			return
		case []byte:
			if len(is) > 0 {
				all[name] = "plan " + plans.Short(plans.Checksum(is))
			}
			return
		case pass.Verdict, pass.Place, pass.Finding, records.Condition:
			for i := range v.NumField() {
				add(name+"."+v.Type().Field(i).Name, v.Field(i))
			}
			return
		}
		if v.IsZero() {
			return
		}
		b, err := json.Marshal(v.Interface())
		if err != nil {
			panic(err)
		}
		all[name] = string(b)
	}
	each := func(prefix string, v reflect.Value, except ...string) {
		for i := range v.NumField() {
			if name := v.Type().Field(i).Name; !slices.Contains(except, name) {
				add(prefix+name, v.Field(i))
			}
		}
	}
	each("", reflect.ValueOf(*p), "Snapshot", "Distribution", "Members", "Staying", "Servers", "Window", "Fleet")
	for _, m := range p.Members {
		each(m.Name+".", reflect.ValueOf(*m), "Machine", "Report", "Details", "Draft", "Leaving", "Kept")
		each(m.Name+".", reflect.ValueOf(m.Draft))
	}
	return all
}

// changes are the fields that differ, sorted.
func changes(before, after map[string]string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(merged(before, after))) {
		if before[name] != after[name] {
			names = append(names, name)
		}
	}
	return names
}

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// staged takes a snapshot through all stages. It fails where a stage sets what is not its own, and gives what each has set.
func staged(t testing.TB, s pass.Snapshot) map[string]string {
	t.Helper()
	s.Machines = slices.Clone(s.Machines)
	slices.SortFunc(s.Machines, func(a, b pass.Machine) int { return strings.Compare(a.Name, b.Name) })
	p := pass.New(s)
	text := map[string]string{}
	before := fieldsOf(p)
	for _, stage := range stages {
		stage.run(p)
		after := fieldsOf(p)
		for _, name := range changes(before, after) {
			field := name
			if first, rest, found := strings.Cut(name, "."); found && slices.ContainsFunc(p.Members, func(m *pass.Member) bool { return m.Name == first }) {
				field = "." + rest
			}
			if !slices.ContainsFunc(sets[stage.name], func(own string) bool { return field == own || strings.HasPrefix(field, own+".") }) {
				t.Errorf("stage %s sets %s, which is not its own: %s", stage.name, name, after[name])
			}
			text[stage.name] += fmt.Sprintf("%s: %s\n", name, after[name])
		}
		before = after
	}
	return text
}

// TestStages: what each stage sets in the same seven situations, as golden files: testdata/stages/<stage>/<situation>.
func TestStages(t *testing.T) {
	all := records.Roles{Etcd: true, ControlPlane: true, Worker: true}
	worker := records.Roles{Worker: true}
	three := func(t *testing.T) *world {
		w := newWorld(t, 7, minimal, all, all, all, worker)
		w.settle()
		w.active()
		return w
	}
	for name, scene := range map[string]func(t *testing.T) *world{
		"first-hosts": func(t *testing.T) *world { return newWorld(t, 7, minimal, all, all, worker) },
		"hosts-join": func(t *testing.T) *world {
			w := newWorld(t, 7, minimal, all, all, worker)
			w.happens(12)
			return w
		},
		"a-role-is-missing": func(t *testing.T) *world { return newWorld(t, 7, minimal, worker) },
		"a-change-restarts": func(t *testing.T) *world {
			w := three(t)
			w.spec(changed)
			w.begin(operations.KindChange)
			return w
		},
		"a-host-is-lost": func(t *testing.T) *world {
			w := three(t)
			w.hosts["m1"].dead, w.hosts["m1"].up = true, false
			w.machine("m1").Agent = observed.Presence{Since: w.s.Now}
			w.s.Now = w.s.Now.Add(observed.AgentGrace + 1)
			return w
		},
		"a-machine-leaves": func(t *testing.T) *world {
			w := three(t)
			gone := *w.machine("m2").Machine
			gone.Deleting = w.s.Now
			w.machine("m2").Machine = &gone
			w.begin(operations.KindRemoval)
			return w
		},
		"a-snapshot-is-taken": func(t *testing.T) *world {
			w := three(t)
			w.begin(operations.KindSnapshot)
			w.s.Operation.Params = json.RawMessage(`{"ask":{"name":"before"}}`)
			return w
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := scene(t)
			w.observe()
			said := staged(t, w.s)
			for _, stage := range stages {
				file := filepath.Join("testdata", "stages", stage.name, name+".golden")
				if *update {
					if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
						t.Fatal(err)
					}
					if err := os.WriteFile(file, []byte(said[stage.name]), 0o644); err != nil {
						t.Fatal(err)
					}
				}
				want, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(string(want), said[stage.name]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", file, diff)
				}
			}
		})
	}
}
