// The questions of `drover rke config`, in the order in which rke asks them.

package starter

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/rke1/config"
)

const (
	// maxHosts bounds the hosts that are asked for, maxAnswer an answer in bytes, and maxTries how often one question is asked.
	maxHosts, maxAnswer, maxTries = 500, 4096, 5
)

// asker asks a person.
type asker struct {
	in  *bufio.Scanner
	out io.Writer
	err error // why it cannot go on; answers are defaults from then on
}

func newAsker(in io.Reader, out io.Writer) *asker {
	a := &asker{in: bufio.NewScanner(in), out: out}
	a.in.Buffer(nil, maxAnswer)
	return a
}

// text asks until the answer is right, says why one is not, and takes the default for an empty one. "" as the default is shown as none.
func (a *asker) text(question, usual string, check func(string) error) string {
	shown := cmp.Or(usual, "none")
	for try := 1; a.err == nil; try++ {
		fmt.Fprintf(a.out, "[+] %s [%s]: ", question, shown)
		if !a.in.Scan() {
			a.err = fmt.Errorf("the input ended at the question %q, and nothing was written", question)
			if err := a.in.Err(); err != nil {
				a.err = fmt.Errorf("read the answer to %q: %w; nothing was written", question, err)
			}
			break
		}
		answer := cmp.Or(strings.TrimSpace(a.in.Text()), usual)
		fault := error(nil)
		if check != nil {
			fault = check(answer)
		}
		if fault == nil {
			return answer
		}
		fmt.Fprintf(a.out, "    %v\n", fault)
		if try == maxTries {
			a.err = fmt.Errorf("%s: %w; nothing was written", question, fault)
		}
	}
	return usual
}

// yes asks for y or n.
func (a *asker) yes(question string, usual bool) bool {
	letter := map[bool]string{true: "y", false: "n"}[usual]
	answer := a.text(question+" (y/n)?", letter, func(s string) error {
		switch strings.ToLower(s) {
		case "y", "yes", "n", "no":
			return nil
		}
		return errors.New("answer y or n")
	})
	return strings.HasPrefix(strings.ToLower(answer), "y")
}

// number asks for a number between two.
func (a *asker) number(question string, usual, from, to int) int {
	answer := a.text(question, strconv.Itoa(usual), func(s string) error {
		if n, err := strconv.Atoi(s); err != nil || n < from || n > to {
			return fmt.Errorf("answer a number between %d and %d", from, to)
		}
		return nil
	})
	n, _ := strconv.Atoi(answer) // it was checked
	return n
}

// oneOf accepts some words.
func oneOf(words ...string) func(string) error {
	return func(s string) error {
		if slices.Contains(words, s) {
			return nil
		}
		return fmt.Errorf("answer one of %s", strings.Join(words, ", "))
	}
}

// Ask is the whole conversation, with version as the one that is offered and known saying which there are. Nothing is decided in it: what is missing gets its default when the config is read.
// It returns an error where the input ends or cannot be read.
func Ask(in io.Reader, out io.Writer, version string, known func(string) bool) (Answers, error) {
	a := newAsker(in, out)
	all := Answers{SSHKeyPath: a.text("Cluster Level SSH Private Key Path", "~/.ssh/id_rsa", nil)}
	for i := range a.number("Number of Hosts", 1, 1, maxHosts) {
		if a.err != nil {
			break
		}
		all.Nodes = append(all.Nodes, a.host(i+1, all.Nodes))
	}
	all.NetworkPlugin = a.text("Network Plugin Type (flannel, calico, weave, canal, aci, none)", "canal", oneOf("flannel", "calico", "weave", "canal", "aci", "none"))
	all.Authentication = a.text("Authentication Strategy", "x509", nil)
	all.Authorization = a.text("Authorization Mode (rbac, none)", "rbac", oneOf("rbac", "none"))
	all.KubernetesVersion = a.text("Kubernetes version", version, func(s string) error {
		if known(s) {
			return nil
		}
		return errors.New("there are no data for it: `drover rke config --list-version` lists those that there are")
	})
	all.ClusterDomain = a.text("Cluster domain", "cluster.local", nil)
	all.ServiceRange = a.text("Service Cluster IP Range", "10.43.0.0/16", nil)
	all.PodRange = a.text("Cluster Network CIDR", "10.42.0.0/16", nil)
	all.DNSServer = a.text("Cluster DNS Service IP", "10.43.0.10", nil)
	for more := a.yes("Add addon manifest URLs or YAML files", false); more && a.err == nil; more = a.yes("Add another addon", false) {
		all.AddonsInclude = append(all.AddonsInclude, a.text("Enter the Path or URL for the manifest", "", func(s string) error {
			if s == "" {
				return errors.New("answer a path or an address")
			}
			return nil
		}))
	}
	return all, a.err
}

// host asks for one host. A role that none would have is offered to the first.
func (a *asker) host(number int, before []config.Node) config.Node {
	n := config.Node{Address: a.text(fmt.Sprintf("SSH Address of host (%d)", number), "", func(s string) error {
		for _, other := range before {
			if other.Address == s {
				return fmt.Errorf("host %s is there already", s)
			}
		}
		if s == "" {
			return errors.New("answer an address or a name by which SSH reaches the host")
		}
		return nil
	})}
	of := " of host (" + n.Address + ")"
	if port := a.number("SSH Port"+of, 22, 1, 65535); port != 22 {
		n.Port = strconv.Itoa(port)
	}
	n.SSHKeyPath = a.text("SSH Private Key Path"+of+", empty for the cluster's", "", nil)
	n.User = a.text("SSH User"+of, "ubuntu", nil)
	for _, role := range []struct {
		question, role string
		usual          bool
	}{{"a Control Plane host", config.RoleControlPlane, true}, {"a Worker host", config.RoleWorker, number == 1}, {"an etcd host", config.RoleEtcd, number == 1}} {
		if a.yes("Is host ("+n.Address+") "+role.question, role.usual) {
			n.Role = append(n.Role, role.role)
		}
	}
	n.HostnameOverride = a.text("Override Hostname"+of, "", nil)
	n.InternalAddress = a.text("Internal IP"+of, "", nil)
	if socket := a.text("Docker socket path on host ("+n.Address+")", "/var/run/docker.sock", nil); socket != "/var/run/docker.sock" {
		n.DockerSocket = socket
	}
	return n
}
