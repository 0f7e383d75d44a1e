// What a person has to know who takes the cluster over, in the order in which it matters.

package export

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/drover-project/drover/rke1/addons"
	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/state"
	"github.com/drover-project/drover/rke1/versions"
)

// readme is the README of an export. It has no secrets in it.
func readme(s *state.State, v *versions.Data, differences []string) string {
	c := s.Desired.Config
	points := []string{
		"This directory has EVERY PRIVATE KEY of the cluster in it: those of its authorities, the key that signs tokens of service accounts," + encryption(s) +
			" and an administrator's kubeconfig. Keep it encrypted, and delete copies that are not needed.",
		"Stop what manages the cluster now before you run rke: drover, and any Rancher. Two of them overwrite each other's certificates, state and containers. " +
			"Remove their agents as well, or they put their own containers back: on each host `docker rm -f cattle-node-agent share-mnt` and the container of " +
			"the agent; in the cluster the workloads cattle-node-agent and cattle-cluster-agent of the namespace cattle-system.",
		"Take a snapshot of etcd (`rke etcd snapshot-save --name before-rke`) and copy it off the hosts before the first `rke up`.",
		"Kubernetes is " + c.KubernetesVersion + ". " + rkeFor(c, v.Info(c.KubernetesVersion)),
		"Write into " + ConfigFile + " how SSH gets to the hosts: user, key, and bastion_host if they have private addresses. " + filledIn(c) +
			" The user has to be in the group docker of each host; on hosts of the RHEL family it cannot be root. sshd needs AllowTcpForwarding yes. " +
			"With OpenSSH 8.8 and later take an ed25519 key, or a late release of rke. Log in to every host once by hand, and see point 10: the hosts are listed below.",
		"Run rke only in this directory, with " + ConfigFile + " and " + StateFile + " both there, whole and under these names. Where the state is missing, renamed or " +
			"cut off, rke makes NEW CERTIFICATES without a word, and that breaks the cluster. First: `sha256sum --check --strict " + SumsFile + "`; " +
			"only what you changed in " + ConfigFile + " yourself may differ.",
		"Leave the order and the addresses of the nodes as they are: both are part of certificates and flags. Tidy " + ConfigFile + " up after the first run that " +
			"succeeds, not before. It names every image: take system_images out before you upgrade Kubernetes, or the old images stay.",
		"The first run: `rke up --ignore-docker-version --disable-port-check`. The first of these flags does not work as a field of " + ConfigFile +
			". To be expected: nodes that were cordoned take pods again, the job of your own add-ons runs again," + snapshots(c) + " and kube-admin gets a new certificate." + otherwise(c, v),
		"If a member was ever added to this cluster's etcd, the first run makes the etcd containers anew, one after the other, " +
			"because the flags with which a member begins are among those that rke compares.",
		"Every host has to be up at the first run. One that is down is taken out of what rke remembers, and is treated as a new one later.",
		"What ends: access through drover (its users, their roles, its kubeconfigs), the snapshots that drover schedules, and add-ons of drover's own. " +
			KubeconfigFile + " goes to the cluster directly.",
	}
	var text strings.Builder
	fmt.Fprintf(&text, "The cluster %s (%s, %d hosts), for the rke command line\n\n", cmp.Or(c.ClusterName, "local"), c.KubernetesVersion, len(c.Nodes))
	if len(differences) > 0 {
		fmt.Fprintf(&text, "ATTENTION: a run was interrupted. What should be and what was deployed differ in\n%s\n"+
			"The first run of rke finishes it, and changes containers while it does.\n\n", indented(differences))
	}
	for i, p := range points {
		fmt.Fprintf(&text, "%2d. %s\n\n", i+1, wrapped(p, "    "))
	}
	fmt.Fprintf(&text, "The hosts:\n%s\n\n", hosts(c))
	text.WriteString(wrapped("The way back: `drover rke import --config cluster.yml --state cluster.rkestate` says whether the cluster is as these files say, "+
		"and changes nothing.", "") + "\n")
	return text.String()
}

// wrapped is a text in lines of some hundred characters, the later ones indented. A command, which is in
// backquotes, stays on one line.
func wrapped(text, indent string) string {
	const width, space = 100, "\x00"
	parts := strings.Split(text, "`")
	for i := 1; i < len(parts); i += 2 {
		parts[i] = strings.ReplaceAll(parts[i], " ", space)
	}
	lines := []string{""}
	for word := range strings.FieldsSeq(strings.Join(parts, "`")) {
		last := &lines[len(lines)-1]
		switch {
		case *last == "":
			*last = word
		case len(*last)+1+len(word) > width:
			lines = append(lines, word)
		default:
			*last += " " + word
		}
	}
	return strings.ReplaceAll(strings.Join(lines, "\n"+indent), space, " ")
}

// rkeFor says which releases of rke take a cluster over without a container that changes. Lines before 1.5 know no checksum of the
// admission configuration, and the bound that the version data have is of what `config --list-version` lists alone.
func rkeFor(c *config.Cluster, i versions.Info) string {
	kubernetes := config.ReadVersion(c.KubernetesVersion)
	from, last := "1.5.0", ""
	least, known := versions.Parse(i.MinRKE)
	if known && least.AtLeast(1, 5) {
		from, _, _ = strings.Cut(i.MinRKE, "-")
	}
	if most, known := versions.Parse(i.MaxRKE); known {
		last = most.Line()
	}
	switch {
	case !kubernetes.AtLeast(18) && last != "":
		return "Use the last rke of the line " + last + ", which has this version."
	case !kubernetes.AtLeast(18):
		return "Use a release of rke that has this version."
	case c.Services.KubeAPI.PodSecurityPolicy && !kubernetes.AtLeast(25):
		return "Use the last rke of the line 1.4: later ones take the admission plugin PodSecurityPolicy (services.kube-api.pod_security_policy) " +
			"from the API servers. The first run makes every kube-apiserver anew, one after the other."
	}
	text := "Use rke " + from + " or later; 1.7 is the last line. It leaves the containers of the cluster as they are."
	if !known || !least.AtLeast(1, 5) {
		text += " Earlier lines make every kube-apiserver anew."
	}
	if last != "" {
		text += " `rke config --list-version --all` lists this version in releases up to " + last + " alone; later ones take it all the same."
	}
	return text
}

// otherwise says what else the first run changes, because rke makes it in another way: pods by their add-ons, and containers.
func otherwise(c *config.Cluster, v *versions.Data) string {
	text := ""
	if own := addons.OwnTexts(c, v); len(own) > 0 {
		text += " The pods of the add-ons " + strings.Join(own, ", ") + " are replaced on all nodes, as rke has texts of its own for them. " +
			"To have it done before, let drover run once with RANCHER_METADATA_URL (data.json of KDM), and export then: those texts are rke's, and rke leaves their pods alone."
	}
	if a := c.Services.KubeAPI.AdmissionConfiguration; a != nil && len(a.Plugins) > 0 {
		text += " Every kube-apiserver may be made anew, as rke leaves plugins of admission_configuration out."
	}
	if c.DNS != nil && len(c.DNS.ReverseCIDRs) > 0 {
		text += " The configuration of DNS changes, as rke writes dns.reversecidrs in another way."
	}
	return text
}

func encryption(s *state.State) string {
	if s.Desired.Encryption == "" {
		return ""
	}
	return " the keys with which Secrets are encrypted in etcd,"
}

func filledIn(c *config.Cluster) string {
	if len(placeholders(c)) == 0 {
		return "This file has them already; see that they hold on the machine from which you run rke."
	}
	return "Replace each " + Placeholder + ". With one left, rke reaches no host and stops."
}

// hosts are the nodes with their roles, a line each.
func hosts(c *config.Cluster) string {
	var lines []string
	for _, n := range c.Nodes {
		where := n.Address
		if n.InternalAddress != "" && n.InternalAddress != n.Address {
			where += " (inside " + n.InternalAddress + ")"
		}
		lines = append(lines, fmt.Sprintf("%s  %s  %s", where, cmp.Or(n.HostnameOverride, n.Address), strings.Join(slices.Sorted(slices.Values(n.Role)), ",")))
	}
	return indented(lines)
}

func indented(lines []string) string {
	return "    " + strings.Join(lines, "\n    ")
}

func snapshots(c *config.Cluster) string {
	if on := c.Services.Etcd.Snapshot; on != nil && !*on {
		return " no snapshots are scheduled (services.etcd.snapshot is false),"
	}
	return " the container etcd-rolling-snapshots is made anew,"
}
