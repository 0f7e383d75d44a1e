package steps

import (
	"fmt"
	"path"
	"strings"

	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
)

// kinds are the kinds of operations that are done in steps: what each is called, of a cluster or fleet, and its steps in their order; the error
// is why it cannot begin.
var kinds = map[operations.Kind]struct {
	title string
	plan  func(planning) ([]on, error)
}{
	operations.KindSnapshot:           {"take a snapshot of the etcd of %s", planning.snapshot},
	operations.KindRestore:            {"restore snapshot %[2]s of %[1]s on %[3]s", planning.restore},
	operations.KindRotateCertificates: {"renew the certificates of %s", planning.rotateCertificates},
	operations.KindRotateKeys:         {"rotate the encryption key of %s", planning.rotateKeys},
	operations.KindRotateToken:        {"give %s another server token", planning.rotateToken},
	operations.KindRotateCA:           {"give %s new CAs", planning.rotateCA},
	operations.KindUpdateAgents:       {"update agents of %s to %s", planning.updateAgents},
}

// Title is what a request of a kind is called, for people.
func Title(k operations.Kind, of records.ClusterKey, r Request) string {
	with := []any{of.Home()}
	switch {
	case k == operations.KindRestore:
		with = append(with, path.Base(r.Snapshot), r.Target)
	case k == operations.KindUpdateAgents:
		with = append(with, r.Agent.Release)
	case k == operations.KindRotateCertificates && len(r.Services) > 0:
		with[0] = strings.Join(r.Services, ", ") + " in " + of.Home()
	}
	return fmt.Sprintf(kinds[k].title, with...)
}
