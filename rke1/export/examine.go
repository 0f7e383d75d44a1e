// What a person should know about files before a cluster is taken over with them.

package export

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/rke1/config"
	"github.com/drover-project/drover/rke1/pki"
	"github.com/drover-project/drover/rke1/state"
)

// Examine says, a sentence each, what is remarkable about a cluster's files, which were checked
// before (state.Check): certificates that end soon, a run that was interrupted, a config that asks for
// something else than the last run did. The config is after defaults. Sentences have no secrets in them.
func Examine(c *config.Cluster, s *state.State, known config.Versions, now time.Time) ([]string, error) {
	var remarks []string
	ending, err := pki.Warnings(s.Desired.Certificates, now)
	if err != nil {
		return nil, err
	}
	for _, w := range ending {
		remarks = append(remarks, w.Warning(now))
	}
	if s.Current.Config == nil {
		remarks = append(remarks, "the state says that nothing of the cluster was deployed yet: every host would be treated as a new one")
	} else {
		differences, err := Differences(s, known)
		if err != nil {
			return nil, err
		}
		if len(differences) > 0 {
			remarks = append(remarks, fmt.Sprintf("the last run was interrupted, or worker hosts are not in its state: desiredState and currentState differ in %s", list(differences)))
		}
	}
	changed, err := Pending(c, s, known)
	if err != nil {
		return nil, err
	}
	if len(changed) > 0 {
		remarks = append(remarks, fmt.Sprintf("the config asks for something else than the last run did, in %s", list(changed)))
	}
	return remarks, nil
}

// Pending are the paths of a config after defaults, by its json names, in which it differs from that of the
// last run. What that one left open, because an older program wrote it, is filled before. The errors are those of Differences.
func Pending(c *config.Cluster, s *state.State, known config.Versions) ([]string, error) {
	all, err := Differences(&state.State{Desired: state.Part{Config: s.Desired.Config}, Current: state.Part{Config: c}}, known)
	if err != nil {
		return nil, err
	}
	for i, path := range all {
		all[i] = strings.TrimPrefix(path, "rkeConfig.")
	}
	return all, nil
}
