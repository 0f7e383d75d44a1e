package addons

// pods.go says which pods a changed text replaces, before it is applied.

import (
	"reflect"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/versions"
)

// workload is as much of an object as decides whether its pods are replaced.
type workload struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Template any `json:"template"`
	} `json:"spec"`
}

// Replaced says, a sentence for each workload, whose pods go and come again when one text of an add-on takes the place of another:
// workloads that are in both with other pods. Of a text that cannot be read nothing is known.
func Replaced(before, after string) []string {
	was, is := workloads(before), workloads(after)
	var all []string
	for name, pods := range is {
		if old, there := was[name]; there && !reflect.DeepEqual(old, pods) {
			all = append(all, name+": its pods are replaced")
		}
	}
	slices.Sort(all)
	return all
}

// workloads are the templates of pods in a text by the names of their workloads.
func workloads(text string) map[string]any {
	docs, err := strictyaml.Read(strictyaml.Source{File: "add-on", Private: true, Limits: strictyaml.Limits{Bytes: maxText, Values: maxValues}}, []byte(text))
	if err != nil {
		return nil
	}
	all := map[string]any{}
	for _, doc := range docs {
		var w workload
		if errs := doc.Decode(&w, strictyaml.Options{Ignore: strictyaml.IgnoreAll}); len(errs) > 0 {
			continue
		}
		switch w.Kind {
		case "DaemonSet", "Deployment", "StatefulSet", "ReplicaSet":
			all[w.Kind+" "+w.Metadata.Namespace+"/"+w.Metadata.Name] = w.Spec.Template
		}
	}
	return all
}

// OwnTexts are the names of the add-ons that have texts of drover's own, as the version data have no template for them. The rke command
// line has others, so that the pods of these add-ons are replaced when a cluster goes from one to the other. c is filled.
func OwnTexts(c *config.Cluster, v *versions.Data) []string {
	dns, names := "coreDNS", []string(nil)
	if dnsOf(c).Provider == "kube-dns" {
		dns = "kubeDNS"
	}
	for _, a := range []struct {
		name, template string
		there          bool
	}{
		{Network, c.Network.Plugin, c.Network.Plugin != config.PluginNone},
		{chosenDNS(c), dns, dnsOf(c).Provider != config.None},
		{NodeLocal, "nodelocal", dnsOf(c).Provider != config.None && dnsOf(c).NodeLocal != nil && dnsOf(c).NodeLocal.IPAddress != ""},
		{Metrics, "metricsServer", c.Monitoring.Provider != config.None},
		{Ingress, "nginxIngress", c.Ingress.Provider != config.None},
	} {
		if _, theirs := v.Template(a.template, c.KubernetesVersion); a.there && !theirs {
			names = append(names, a.name)
		}
	}
	return names
}

// Instead says how the pods of add-ons with texts of drover's own stay as the rke command line made them; nothing without such texts.
func Instead(c *config.Cluster, v *versions.Data) []string {
	own := OwnTexts(c, v)
	if len(own) == 0 {
		return nil
	}
	return []string{"where the rke command line applied " + strings.Join(own, ", ") + ", give its data by RANCHER_METADATA_URL (data.json of KDM): " +
		"they have its texts, and pods of these add-ons are not replaced"}
}
