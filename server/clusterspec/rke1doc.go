// The config of an RKE1 cluster as its document has it: read and refused as a cluster.yml is, and kept in
// the words of the management API.

package clusterspec

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/drover-project/drover/plans/strictyaml"
	"github.com/drover-project/drover/rke1/config"
)

// RKE1Path is where the config is in a document.
const RKE1Path = "spec.rancherKubernetesEngineConfig"

// RKE1Config is the config of an RKE1 cluster as its owner wrote it, as JSON in the words of the
// management API: without defaults, and without nodes, which are the registered hosts. Nil is an empty one. It may hold
// passwords.
type RKE1Config json.RawMessage

// MarshalJSON writes the config.
func (c RKE1Config) MarshalJSON() ([]byte, error) {
	if len(c) == 0 {
		return []byte("{}"), nil
	}
	return c, nil
}

// UnmarshalJSON keeps a config as it is.
func (c *RKE1Config) UnmarshalJSON(text []byte) error {
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

// Cluster is the config as a value. Nodes are not in it. The error says that a stored config cannot be read.
func (c RKE1Config) Cluster() (config.Cluster, error) {
	var cluster config.Cluster
	if len(c) == 0 {
		return cluster, nil
	}
	if err := json.Unmarshal(c, &cluster); err != nil {
		return cluster, fmt.Errorf("read %s as it is stored: %w", RKE1Path, err)
	}
	return cluster, nil
}

// NewRKE1Config is a config of a value. Its nodes are left out. It returns an error where JSON cannot be made of it.
func NewRKE1Config(c config.Cluster) (RKE1Config, error) {
	c.Nodes = nil
	if reflect.ValueOf(c).IsZero() {
		return nil, nil
	}
	text, err := json.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("write the config of an RKE1 cluster: %w", err)
	}
	return text, nil
}

// readRKE1Config reads the config of a document, in the words of the management API or in those of a cluster.yml. Notes are about what
// was left out. A document in which there is none has an empty one.
func readRKE1Config(text *strictyaml.Document) (c RKE1Config, notes []string, bad strictyaml.Errors) {
	at, ok := text.At(RKE1Path)
	if !ok {
		return nil, nil, nil
	}
	file, errs := config.ParseDocument(at)
	for _, e := range errs {
		bad = append(bad, below(e))
	}
	if file == nil {
		return nil, nil, bad
	}
	for _, w := range file.Warnings {
		// A field that is taken and does nothing is worse than none.
		w.Reason = "is not a field of an RKE1 config"
		bad = append(bad, below(w))
	}
	if len(file.Cluster.Nodes) > 0 {
		notes = append(notes, RKE1Path+".nodes: is left out, as the hosts of the cluster are those whose node agents register")
	}
	c, err := NewRKE1Config(file.Cluster)
	if err != nil {
		bad = append(bad, strictyaml.Error{Path: RKE1Path, Line: at.Line(), Reason: err.Error()})
	}
	return c, notes, bad
}

// below is an error of the config as one of the document.
func below(e strictyaml.Error) strictyaml.Error {
	if e.Path == "" {
		e.Path = RKE1Path
	} else {
		e.Path = RKE1Path + "." + e.Path
	}
	return e
}
