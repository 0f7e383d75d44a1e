// Where a state may be, and which of several is taken.

package adopt

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/desired"
	"github.com/drover-project/drover/rke1/kube"
	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/snapshots"
	"github.com/drover-project/drover/rke1/state"
)

const (
	// kubernetesDir is where hosts have certificates and files, below their prefix.
	kubernetesDir = "/etc/kubernetes"
	apiPort       = "6443"
	// answerWithin bounds the question for the state that the cluster keeps, at one host.
	answerWithin = 20 * time.Second
)

// candidate is what may be the state.
type candidate struct {
	text []byte
	// from says what it is, for sentences. at is when it was written by the clock of its host; zero for the one that the cluster keeps.
	from string
	at   time.Time
	// failed is why there is no text.
	failed error
}

// prefix stands before the paths on the host.
func (h *host) prefix() string { return strings.TrimSuffix(h.dir, kubernetesDir) }

// file is the text of a file of every host's; nil when this one does not have it.
func (h *host) file(name string) []byte { return h.files[path.Join("/", h.prefix(), name)].Contents }

// askCluster asks the API servers for the state, host after host, until one answers.
func askCluster(ctx context.Context, hosts []*host) []candidate {
	var all []candidate
	for _, h := range hosts {
		c := kube.Credentials{CA: h.file(pki.Path(pki.CA)), Certificate: h.file(pki.Path(pki.ControllerManager)), Key: h.file(pki.KeyPath(pki.ControllerManager))}
		if c.CA == nil || c.Certificate == nil || c.Key == nil {
			continue
		}
		one := candidate{from: fmt.Sprintf("the state that the cluster keeps (Secret %s/%s), asked for at host %s", state.SecretNamespace, state.SecretName, h.Address)}
		one.text, one.failed = ask(ctx, h, c)
		all = append(all, one)
		if one.failed == nil {
			break
		}
	}
	if len(all) == 0 {
		all = append(all, candidate{
			from:   fmt.Sprintf("the state that the cluster keeps (Secret %s/%s)", state.SecretNamespace, state.SecretName),
			failed: errors.New("none of the hosts looked at has the certificate of a controller manager to ask for it with: name one of the control plane"),
		})
	}
	return all
}

func ask(ctx context.Context, h *host, c kube.Credentials) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	dial := func(ctx context.Context) (net.Conn, error) {
		return h.OpenTCP(ctx, net.JoinHostPort("localhost", apiPort))
	}
	conn, err := dial(ctx)
	if err != nil { // a cluster that has stopped is not waited for
		return nil, err
	}
	conn.Close()
	api, err := kube.Open(c, dial)
	if err != nil {
		return nil, err
	}
	return api.ReadState(ctx)
}

// search finds the states in files and in archives of snapshots, the newest first, and says what could not be looked at.
func search(ctx context.Context, hosts []*host) (all []candidate, failed []string, err error) {
	var mu sync.Mutex
	_ = onhost.Each(ctx, hosts, parallel, func(ctx context.Context, h *host) error {
		mine, err := h.search(ctx)
		mu.Lock()
		defer mu.Unlock()
		all = append(all, mine...)
		if err != nil {
			failed = append(failed, fmt.Sprintf("the snapshots of host %s were not looked at: %v", h.Address, err))
		}
		return nil
	})
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	slices.SortFunc(all, func(a, b candidate) int {
		if order := b.at.Compare(a.at); order != 0 {
			return order
		}
		return strings.Compare(a.from, b.from)
	})
	slices.Sort(failed)
	if len(all) == 0 && len(failed) == 0 {
		failed = append(failed, "no host looked at has a snapshot with the state in it below "+snapshots.Dir+", or a file *.rkestate in "+kubernetesDir)
	}
	return all, failed, nil
}

func (h *host) search(ctx context.Context) ([]candidate, error) {
	var all []candidate
	for name, f := range h.files {
		if path.Dir(name) == h.dir && strings.HasSuffix(name, ".rkestate") {
			all = append(all, candidate{text: f.Contents, at: f.Changed, from: fmt.Sprintf("the state in %s of host %s", name, h.Address)})
		}
	}
	if h.tools == "" {
		return all, nil
	}
	tools := func(name string, binds []string, script string, args ...string) nodeconfig.Process {
		return nodeconfig.Process{Name: name, Image: h.tools, NetworkMode: "none", Binds: binds, Command: append([]string{"sh", "-c", script}, args...)}
	}
	newest, err := snapshots.Newest(ctx, h.Host, tools)
	if newest != nil {
		all = append(all, candidate{text: newest.State, at: newest.Changed, from: fmt.Sprintf("the state in snapshot %s of host %s", newest.Name, h.Address)})
	}
	return all, err
}

// choose takes the first candidate that is the state of the cluster on the hosts, and says why those before it are not.
func choose(all []candidate, hosts []*host) (*Found, []string) {
	var reasons []string
	for _, c := range all {
		s, err := c.judge(hosts)
		if err != nil {
			reasons = append(reasons, fmt.Sprintf("%s: %v", c.from, err))
			continue
		}
		note := "found is " + c.from
		if !c.at.IsZero() {
			note += fmt.Sprintf(", of %s: what was changed of the cluster since is not in it, and cannot be known", c.at.UTC().Format(time.RFC3339))
		}
		return &Found{State: s, Text: c.text, Notes: []string{note}}, reasons
	}
	return nil, reasons
}

// judge decodes a candidate and says why it cannot be relied on.
func (c candidate) judge(hosts []*host) (*state.State, error) {
	if c.failed != nil {
		return nil, c.failed
	}
	s, err := state.Decode(c.text)
	if err != nil {
		return nil, fmt.Errorf("it is cut off or damaged: %w", err)
	}
	if s.Current.Config == nil || s.Desired.Config == nil {
		return nil, errors.New("it says that nothing of the cluster was deployed yet")
	}
	if err := s.Check(state.Against{}); err != nil {
		return nil, err
	}
	for _, h := range hosts {
		if ca := string(h.file(pki.Path(pki.CA))); ca != "" && !has(ca, s.Current.Certificates) && !has(ca, s.Desired.Certificates) {
			return nil, fmt.Errorf("its CA is not that of host %s (%s): it is of another cluster, or from before a rotation", h.Address, pki.Path(pki.CA))
		}
	}
	return s, nil
}

// has says that the text of a CA file has the CA of a bundle in it; while a CA is rotated there are two.
func has(text string, b pki.Bundle) bool {
	own := strings.TrimSpace(b[pki.CA].CertificatePEM)
	return own != "" && strings.Contains(text, own)
}

// remarks compare the state that is taken with the hosts, a sentence for each difference.
func remarks(s *state.State, nodes []config.Node, hosts []*host, away map[string]error) []string {
	var notes []string
	member := func(all []config.Node, address string) (config.Node, bool) {
		i := slices.IndexFunc(all, func(n config.Node) bool { return n.Address == address })
		if i < 0 {
			return config.Node{}, false
		}
		return all[i], true
	}
	for _, n := range s.Current.Config.Nodes {
		if _, named := member(nodes, n.Address); !named {
			notes = append(notes, fmt.Sprintf("host %s of the state was not named, and not looked at", n.Address))
		}
	}
	for _, address := range slices.Sorted(maps.Keys(away)) {
		notes = append(notes, fmt.Sprintf("host %s was not looked at: %v", address, away[address]))
	}
	for _, h := range hosts {
		n, is := member(s.Current.Config.Nodes, h.Address)
		switch {
		case !is:
			notes = append(notes, fmt.Sprintf("host %s is not in the state: it belongs to another cluster, or came later, and would be a new host", h.Address))
		case h.dir == "" || h.tools == "":
			notes = append(notes, fmt.Sprintf("host %s runs no containers of a cluster, though the state has it", h.Address))
		default:
			if different := h.different(s, n); len(different) > 0 {
				notes = append(notes, fmt.Sprintf("host %s has other certificates or keys than the state, and the first run would replace them: %s", h.Address, strings.Join(different, ", ")))
			}
		}
	}
	return notes
}

// different are the files of a host with certificates and keys that are not the state's, by path.
func (h *host) different(s *state.State, n config.Node) []string {
	var all []string
	for _, f := range pki.FilesFor(s.Current.Config, n, h.prefix(), s.Current.Certificates) {
		if is, there := h.files[f.Path]; there && strings.TrimSpace(string(is.Contents)) != strings.TrimSpace(string(f.Content)) {
			all = append(all, f.Path)
		}
	}
	if keys := string(h.file(desired.EncryptionFile)); keys != "" && strings.TrimSpace(keys) != strings.TrimSpace(s.Current.Encryption) {
		all = append(all, path.Join("/", h.prefix(), desired.EncryptionFile))
	}
	return all
}
