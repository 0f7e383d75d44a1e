package render_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/installers/runtimes"
	"github.com/drover-project/drover/installers/versions"
	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/records"
)

var update = flag.Bool("update", false, "write golden files")

// input is a machine of a cluster that is described by a stream of documents.
func input(t *testing.T, text string, roles records.Roles) render.Input {
	t.Helper()
	known, err := versions.Load("")
	if err != nil {
		t.Fatal(err)
	}
	stream, err := clusterspec.ParseStream([]byte(text), known)
	if err != nil {
		t.Fatal(err)
	}
	doc := stream.Clusters[0]
	release, ok := known.Permissive(doc.Spec.KubernetesVersion)
	if !ok || !release.Known {
		t.Fatalf("there are no data of %s", doc.Spec.KubernetesVersion)
	}
	in := render.Input{
		Cluster: records.Cluster{Object: records.Object{Namespace: "fleet-default", Name: "harbour", UID: "cluster-uid"}, ID: "c-m-abcd2345", Spec: doc.Spec},
		Machine: &records.Machine{
			Object: records.Object{Namespace: "fleet-default", Name: "custom-0a1b2c3d4e5f", UID: "machine-uid", Labels: map[string]string{"rack": "a1"}},
			Roles:  roles, OS: "linux", NodeName: "pier-1", NodeLabels: map[string]string{"cattle.io/os": "linux"}, InternalAddress: []string{"10.0.0.11"},
		},
		Secrets: &records.ClusterSecrets{ServerToken: "server-token", AgentToken: "agent-token"},
		Release: &release, Objects: map[string]objects.Object{},
	}
	for _, o := range stream.Objects {
		in.Objects[o.Key()] = o
	}
	return in
}

// cases are the roles with which a machine can be in a cluster, and where it joins.
var cases = []struct {
	name  string
	roles records.Roles
	joins bool
}{
	{"all-in-one", records.Roles{Etcd: true, ControlPlane: true, Worker: true}, false},
	{"etcd", records.Roles{Etcd: true}, false},
	{"control-plane", records.Roles{ControlPlane: true}, true},
	{"etcd-control-plane", records.Roles{Etcd: true, ControlPlane: true}, true},
	{"worker", records.Roles{Worker: true}, true},
}

const dual = `
    networking: {stackPreference: dual}
    machineGlobalConfig: {cluster-cidr: "fd00:42::/56,10.42.0.0/16", service-cidr: "fd00:43::/112,10.43.0.0/16"}`

// TestGoldenPlans holds the bytes of plans: one that changes for an unchanged cluster restarts a user's fleet.
func TestGoldenPlans(t *testing.T) {
	for _, version := range []string{"v1.33.6+k3s1", "v1.34.4+k3s1", "v1.33.6+rke2r1", "v1.34.4+rke2r1"} {
		for _, c := range cases {
			for _, family := range []string{"ipv4", "dual"} {
				d := runtimes.Of(version)
				name := fmt.Sprintf("%s-%s-%s-%s", d.Name, version[1:5], c.name, family)
				t.Run(name, func(t *testing.T) {
					spec := " {networking: {stackPreference: ipv4}}"
					if family == "dual" {
						spec = dual
					}
					in := input(t, "apiVersion: provisioning.cattle.io/v1\nkind: Cluster\nmetadata: {name: harbour}\nspec:\n  kubernetesVersion: "+version+"\n  rkeConfig:"+spec+"\n", c.roles)
					if family == "dual" {
						in.Machine.InternalAddress = append(in.Machine.InternalAddress, "fd00::11")
						in.Machine.Address = []string{"203.0.113.11", "2001:db8::11", "fe80::11"}
					}
					if c.joins {
						in.Server = d.JoinURL("10.0.0.1")
					}
					golden(t, 1, name, in)
					one, _ := render.Plan(in, 1)
					if two, err := render.Plan(in, 2); err != nil || !plans.Equal(one, two) {
						t.Errorf("%v: version 2 has another plan for it", err)
					}
				})
			}
		}
	}
}

func full(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestGoldenFull holds plans of clusters that use every option that reaches a host.
func TestGoldenFull(t *testing.T) {
	for _, name := range []string{"k3s-full", "rke2-full"} {
		for _, c := range cases {
			t.Run(name+"-"+c.name, func(t *testing.T) {
				in := input(t, full(t, name+".yaml"), c.roles)
				in.Machine.Address = []string{"203.0.113.11"}
				in.Machine.NodeTaints = []records.Taint{{Key: "dedicated", Value: "infra", Effect: "NoSchedule"}}
				in.DefaultRegistry = "default.lan"
				if c.joins {
					in.Server = runtimes.Of(in.Cluster.Spec.KubernetesVersion).JoinURL("10.0.0.1")
				}
				golden(t, 1, name+"-"+c.name, in)
				golden(t, 2, name+"-"+c.name, in)
			})
		}
	}
}

// golden compares a plan with the file of its name: the plan for people, and the checksum of its bytes.
func golden(t *testing.T, version int, name string, in render.Input) {
	t.Helper()
	p, err := render.Plan(in, version)
	if err != nil {
		t.Fatal(err)
	}
	wire, err := p.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plans.Parse(wire); err != nil {
		t.Errorf("our own agent refuses the plan: %v", err)
	}
	if again, err := render.Plan(in, version); err != nil || !plans.Equal(p, again) {
		t.Error("rendering twice gave two plans")
	}
	sum := sha256.Sum256(wire)
	got := "sha256 " + hex.EncodeToString(sum[:]) + "\n" + readable(t, p)
	if lines := strings.Count(got, "\n"); lines > 300 {
		t.Errorf("the golden file has %d lines; nobody reads that", lines)
	}
	file := filepath.Join("testdata", fmt.Sprint("renderer-", version), name+".txt")
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s: a changed plan restarts nodes of every cluster of this renderer; make it a new one instead\n%s", file, diff)
	}
}

// readable is a plan for people: scripts that are the same in all plans are left to the checksum.
func readable(t *testing.T, p plans.Plan) string {
	t.Helper()
	var b strings.Builder
	for _, f := range p.Files {
		fmt.Fprintf(&b, "file %s%s%s\n", f.Path, map[bool]string{true: " dynamic"}[f.Dynamic], strings.TrimRight(" "+f.Permissions, " "))
		for line := range strings.Lines(text(t, f)) {
			fmt.Fprintf(&b, "  | %s\n", strings.TrimSuffix(line, "\n"))
		}
	}
	show := func(what string, in plans.Instruction) {
		fmt.Fprintf(&b, "%s %s\n", what, in.Name)
		if in.Image != "" {
			fmt.Fprintf(&b, "  image %s\n", in.Image)
		}
		for _, arg := range in.Args {
			if !strings.Contains(arg, "\n") {
				fmt.Fprintf(&b, "  arg %s\n", arg)
			}
		}
		for _, e := range in.Env {
			fmt.Fprintf(&b, "  env %s\n", e)
		}
	}
	for _, in := range p.Instructions {
		show("instruction", in.Instruction)
	}
	for _, in := range p.PeriodicInstructions {
		show("periodic", in.Instruction)
	}
	var names []string
	for name := range p.Probes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		get, err := json.Marshal(p.Probes[name].HTTPGetAction)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "probe %s %s\n", name, get)
	}
	return b.String()
}

func text(t *testing.T, f plans.File) string {
	t.Helper()
	content, err := f.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
