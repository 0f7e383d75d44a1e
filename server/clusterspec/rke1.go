// The config of an RKE1 cluster in its document: read and refused as a cluster.yml is, and kept in the
// words of the management API.

package clusterspec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
)

// RancherKubernetesEngineConfig is the config of an RKE1 cluster as its owner wrote it, as JSON in the words of the
// management API: without defaults, and without nodes, which are the registered hosts. Nil is an empty one. It may hold
// passwords.
type RancherKubernetesEngineConfig json.RawMessage

// MarshalJSON writes the config.
func (c RancherKubernetesEngineConfig) MarshalJSON() ([]byte, error) {
	if len(c) == 0 {
		return []byte("{}"), nil
	}
	return c, nil
}

// UnmarshalJSON keeps a config as it is.
func (c *RancherKubernetesEngineConfig) UnmarshalJSON(text []byte) error {
	*c = nil
	var compact bytes.Buffer
	if err := json.Compact(&compact, text); err != nil {
		return err
	}
	if compact.String() != "{}" {
		*c = compact.Bytes()
	}
	return nil
}

// RKE1Config is the config of a cluster whose spec is RKE1's, as its owner wrote it, without nodes.
func (s Spec) RKE1Config() (config.Cluster, error) {
	var c config.Cluster
	if !s.RKE1() {
		return c, nil
	}
	if err := json.Unmarshal(*s.RancherKubernetesEngineConfig, &c); err != nil {
		return c, fmt.Errorf("read spec.rancherKubernetesEngineConfig as it is stored: %w", err)
	}
	return c, nil
}

// NewRKE1Config is a config in the form of the spec. Its nodes are left out.
func NewRKE1Config(c config.Cluster) (*RancherKubernetesEngineConfig, error) {
	c.Nodes = nil
	if reflect.ValueOf(c).IsZero() {
		return new(RancherKubernetesEngineConfig), nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write the config of an RKE1 cluster: %w", err)
	}
	out := RancherKubernetesEngineConfig(text)
	return &out, nil
}

const engineConfig = "spec.rancherKubernetesEngineConfig"

// readRKE1 reads the config of an RKE1 cluster, in the words of the management API or in those of a cluster.yml, and puts it
// into the document. Notes are about what was left out.
func readRKE1(text *strictyaml.Document, doc *Document) (notes []string, bad strictyaml.Errors) {
	at, ok := text.At(engineConfig)
	if !ok {
		return nil, nil // an alias or a key in an unusual form leads nowhere; the usual way does
	}
	file, err := config.ParseDocument(at)
	if err != nil {
		for _, e := range err {
			bad = append(bad, below(e))
		}
		return nil, bad
	}
	for _, w := range file.Warnings {
		// A field that is taken and does nothing is worse than none.
		w.Reason = "is not a field of an RKE1 config"
		bad = append(bad, below(w))
	}
	if len(file.Cluster.Nodes) > 0 {
		notes = append(notes, engineConfig+".nodes: is left out, as the hosts of the cluster are those whose node agents register")
	}
	kept, fault := NewRKE1Config(file.Cluster)
	if fault != nil {
		return notes, append(bad, strictyaml.Error{Path: engineConfig, Line: at.Line(), Reason: fault.Error()})
	}
	doc.Spec.RancherKubernetesEngineConfig = kept
	return notes, bad
}

// below is an error of the config as one of the document.
func below(e strictyaml.Error) strictyaml.Error {
	if e.Path == "" {
		e.Path = engineConfig
	} else {
		e.Path = engineConfig + "." + e.Path
	}
	return e
}
