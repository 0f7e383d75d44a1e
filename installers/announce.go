// How the first server of a cluster without an API server announces its address.

package installers

import (
	"fmt"

	"github.com/drover-project/drover/plans"
)

// Names of the periodic instructions that Announce makes.
const (
	AddressName  = "capture-address"
	EtcdNameName = "etcd-name"
)

// announceEvery is in seconds.
const announceEvery = 600

// Announce are periodic instructions that report the members of the machine's own etcd and its name
// among them, as soon as etcd runs. Names and commands are those of Rancher's planner (rancher/rancher pkg/capr/planner).
func (d Distribution) Announce(dataDir string) []plans.PeriodicInstruction {
	info := fmt.Sprintf(`script=$(curl --silent --fail --max-time 10 --cacert "$1/server/tls/server-ca.crt" https://localhost:%d/db/info) || exit 1
case $script in *clientURLs*) printf '%%s' "$script" ;; *) echo "no clientURLs in the answer of /db/info" >&2; exit 1 ;; esac`, d.JoinPort)
	every := func(name, script string) plans.PeriodicInstruction {
		return plans.PeriodicInstruction{
			Instruction:   plans.Instruction{Name: name, Command: "sh", Args: []string{"-c", script, name, dataDir}},
			PeriodSeconds: announceEvery,
		}
	}
	return []plans.PeriodicInstruction{every(AddressName, info), every(EtcdNameName, `cat "$1/server/db/etcd/name"`)}
}
