package render_test

import (
	"strings"
	"testing"

	"github.com/drover-project/drover/plans/objects"
	"github.com/drover-project/drover/server/decide/render"
	"github.com/drover-project/drover/server/records"
)

var server = records.Roles{Etcd: true, ControlPlane: true}

// TestObjectsThatCannotBeUsed: a plan that would lack what its cluster asks for is not made, and the error says what to do,
// and nothing of what is in the object.
func TestObjectsThatCannotBeUsed(t *testing.T) {
	change := func(key string, f func(*objects.Object)) func(*render.Input) {
		return func(in *render.Input) {
			o := in.Objects[key]
			f(&o)
			in.Objects[key] = o
		}
	}
	const files, mirror, tls, docker = "Secret/fleet-default/host-files", "Secret/fleet-default/mirror", "Secret/fleet-default/mirror-tls", "Secret/fleet-default/docker"
	for _, c := range []struct {
		name, text string
		change     func(*render.Input)
		want       string
	}{
		{"missing", "", func(in *render.Input) { delete(in.Objects, files) }, "there is no secret fleet-default/host-files that cluster fleet-default/harbour may use; apply it"},
		{"missing for a registry", "", func(in *render.Input) { delete(in.Objects, mirror) }, "registry mirror.lan of cluster fleet-default/harbour: there is no secret fleet-default/mirror"},
		{"no cloud settings", "", func(in *render.Input) { delete(in.Objects, "Secret/fleet-default/vsphere") }, "there is no secret fleet-default/vsphere that cluster fleet-default/harbour may use"},
		{"cloud settings without their key", "", change("Secret/fleet-default/vsphere", func(o *objects.Object) { o.Data = nil }), "no key credential"},
		{"a missing key", "", change(files, func(o *objects.Object) { o.Data = map[string][]byte{"note": []byte("read me\n")} }), "has no key key.pem, which is to become /etc/app/key.pem"},
		{"another hash", "", change(files, func(o *objects.Object) {
			o.Data = map[string][]byte{"key.pem": nil, "note": []byte("mark-value")}
		}), "does not have the hash"},
		{"TLS of another type", "", change(tls, func(o *objects.Object) { o.Type = "Opaque" }), "has the type Opaque where kubernetes.io/tls belongs"},
		{"a login of another type", "", change(mirror, func(o *objects.Object) { o.Type = "kubernetes.io/tls" }), "its type kubernetes.io/tls is none of"},
		{"no entry of the registry", "", change(docker, func(o *objects.Object) {
			o.Data = map[string][]byte{".dockerconfigjson": []byte(`{"auths":{"docker.lan":{"password":"mark-value"}}}`)}
		}), "it has no entry for docker.lan:5000"},
		{"an unreadable entry", "", change(docker, func(o *objects.Object) {
			o.Data = map[string][]byte{".dockerconfigjson": []byte(`{"auths":{"docker.lan:5000":{"auth":"mark-value"}}}`)}
		}), "auth is not base64 of user:password"},
		{"an unreadable config", "", change(docker, func(o *objects.Object) {
			o.Data = map[string][]byte{".dockerconfigjson": []byte(`{"auths":"mark-value"}`)}
		}), "is not that of a Docker config.json"},
		{"a file of drover's", strings.Replace(full(t, "rke2-full.yaml"), "path: /etc/app/app.conf", "path: /etc/rancher/rke2/registries.yaml", 1), nil,
			"/etc/rancher/rke2/registries.yaml of cluster fleet-default/harbour is a file that drover writes"},
		{"half a reference", strings.Replace(full(t, "rke2-full.yaml"), "secret://fleet-default:vsphere", "secret://vsphere", 1), nil, "is not of the form secret://<namespace>:<name>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := c.text
			if text == "" {
				text = full(t, "rke2-full.yaml")
			}
			in := input(t, text, server)
			if c.change != nil {
				c.change(&in)
			}
			_, err := render.Plan(in, 1)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("err = %v, want one with %q", err, c.want)
			}
			if strings.Contains(err.Error(), "mark-value") {
				t.Errorf("a value is in the error: %v", err)
			}
		})
	}
}

// TestOnlyWhatIsNotDynamicRestarts holds which changes of an object restart the machines that have its files.
func TestOnlyWhatIsNotDynamicRestarts(t *testing.T) {
	text := strings.Replace(full(t, "rke2-full.yaml"), `, hash: "Zc4B/MPiLni2NBnvD0STsJUNqsfO6XMptCj1yv05XNo="`, "", 1)
	before := stamp(t, input(t, text, server))
	for _, c := range []struct {
		name, from, to string
		restart        bool
	}{
		{"a dynamic file", `note: "read me\n"`, `note: "read this\n"`, false},
		{"a file", "a2V5Cg==", "a2V5Mgo=", true},
		{"a ConfigMap's", "a = 1", "a = 2", true},
		{"a registry's password", "password: q", "password: r", true},
		{"cloud settings", "user = pier", "user = mole", true},
		{"what no file is of", "metadata: {name: basic}", "metadata: {name: basic, labels: {a: b}}", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if !strings.Contains(text, c.from) {
				t.Fatalf("%q is not in the text", c.from)
			}
			if after := stamp(t, input(t, strings.Replace(text, c.from, c.to, 1), server)); (after != before) != c.restart {
				t.Errorf("restart = %v, want %v", after != before, c.restart)
			}
		})
	}
}

func stamp(t *testing.T, in render.Input) string {
	t.Helper()
	p, err := render.Plan(in, 1)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range p.Instructions[0].Env {
		if value, ok := strings.CutPrefix(e, "RESTART_STAMP="); ok {
			return value
		}
	}
	t.Fatal("no stamp")
	return ""
}

// TestDockerHub: the one registry that has another name in a Docker config.json.
func TestDockerHub(t *testing.T) {
	p, err := render.Plan(input(t, full(t, "k3s-full.yaml"), server), 1)
	if err != nil {
		t.Fatal(err)
	}
	if got := text(t, p.Files[0]); !strings.Contains(got, `"username":"pier","password":"secret"`) {
		t.Error(got)
	}
}
