// Whether a registration may take the place of an existing machine. The ID of a machine is no secret, and many people have a registration token: a host
// with both must not take the place of a machine whose host still works. Only the machine's token proves that a host is the machine's own. The functions
// here are pure: they take records and return a decision.

package registration

import (
	"crypto/subtle"
	"fmt"
	"slices"
	"time"

	"github.com/drover-project/drover/server/randomid"
	"github.com/drover-project/drover/server/records"
)

// ProofHeader is where install.sh sends the proof. Rancher's knows nothing of it.
const ProofHeader = "X-Drover-Machine-Proof"

// rejoinLasts is how long a registration without proof stays allowed.
const rejoinLasts = time.Hour

// claimsOften is the least time between two records of claims, so that no host fills the store with them.
const claimsOften = time.Minute

// Proof shows that a host has the machine's token with this hash. The token itself is not sent,
// and the proof holds for one registration token: a server that the host is moved to learns
// nothing that its old server would take.
func Proof(tokenHash, registrationToken string) string {
	return randomid.Hash(tokenHash + "." + registrationToken)
}

// claim is a registration for the place of a machine.
type claim struct {
	Proof             string // as sent; empty when none was
	RegistrationToken string
	Source            string // where it came from, as records.Origin has it
}

// proves says whether the registration has a proof for one of the tokens with these hashes.
func (a claim) proves(hashes ...string) (hash string, ok bool) {
	for _, one := range hashes {
		if one != "" && subtle.ConstantTimeCompare([]byte(a.Proof), []byte(Proof(one, a.RegistrationToken))) == 1 {
			return one, true
		}
	}
	return "", false
}

// settled says whether the machine's host has used its token ever. Until then the answer with the
// token may have been lost, and the host asks again without it.
func settled(m records.Machine) bool {
	never := func(s records.MachineState) bool { return s == "" || s == records.Registering }
	return !never(m.Status.State) || slices.ContainsFunc(m.Status.History, func(t records.Transition) bool { return !never(t.State) })
}

// claimed is the machine after a registration was taken: the claim is answered, and what was allowed is used up.
func claimed(m records.Machine) records.Machine {
	m.Claim, m.RejoinUntil = nil, time.Time{}
	return m
}

// refuseClaim is the machine with the claim that its owner has to see; news says whether it is worth storing.
func refuseClaim(m records.Machine, a claim, now time.Time) (next records.Machine, news bool) {
	if m.Claim != nil && now.Sub(m.Claim.At) < claimsOften {
		return m, false
	}
	with := "without this machine's token"
	if a.Proof != "" {
		with = "with a wrong token of this machine"
	}
	m.Claim = &records.Claim{Source: a.Source, At: now}
	m.Refused = fmt.Sprintf("%s asked for this machine's place at %s %s. If that was its host: `drover machines rejoin %s`, then run the join command "+
		"there again within the hour. If not: replace the cluster's registration token", a.Source, now.Format(time.RFC3339), with, m.Name)
	return m, true
}

// refusal is what the host that was refused prints.
func refusal(m records.Machine) string {
	return fmt.Sprintf("machine %s has a host already, whose token this registration does not have: run it on that host with the agent's files in place, "+
		"or first allow it once by `drover machines rejoin %s`", m.Name, m.Name)
}
