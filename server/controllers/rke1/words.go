// What the engine advises, as it is done here.

package rke1

import (
	"strings"

	"github.com/drover-project/drover/rke1/advice"
)

// wordsOf say a step for a cluster.
func wordsOf(cluster string) advice.Words {
	return func(s advice.Step) string {
		switch s.Kind {
		case advice.BringUp:
			return "wait until it is provisioned"
		case advice.ResumeRestore:
			return "`drover snapshots restore " + cluster + " " + s.Snapshot + "` comes first, which goes on with it"
		case advice.ResumeCA:
			return "`drover clusters rotate certificates " + cluster + " --ca` comes first, which goes on with it"
		case advice.ResumeCertificates:
			return "`" + strings.Join(append([]string{"drover clusters rotate certificates " + cluster}, s.Services...), " --service ") + "` comes first, which goes on with it"
		case advice.ResumeKey:
			return "`drover clusters rotate encryption-keys " + cluster + "` goes on with it"
		case advice.DropLostHosts:
			return "hosts that are lost are removed with `drover machines rm NAME --force`"
		case advice.OtherName:
			return "take it under another name"
		case advice.KeepState:
			return "with --keep-state the one that the server has is used"
		case advice.SnapshotsState:
			return "without --keep-state the one in the snapshot is taken"
		case advice.Encrypt:
			return "set services.kube-api.secrets_encryption_config.enabled: true in the document, and apply it"
		case advice.EncryptMeanwhile:
			return "set enabled: true there for the restore, and take it out afterwards"
		case advice.TakeSnapshot:
			return "`drover snapshots create " + cluster + "` takes one at once"
		case advice.RenewCertificates:
			return "`drover clusters rotate certificates " + cluster + "` issues new ones"
		}
		return "" // the others are of flags that a server does not have
	}
}
