// What can be done about an error, in the words of these commands.

package console

import (
	"github.com/spf13/cobra"

	"github.com/drover-project/drover/rke1/advice"
)

// Words say a step as commands and flags.
func Words(s advice.Step) string {
	switch s.Kind {
	case advice.BringUp:
		return "run `drover rke up` first"
	case advice.ResumeRestore:
		return "run `drover rke etcd snapshot-restore --name " + s.Snapshot + "` first, which goes on with it"
	case advice.ResumeCA:
		return "run `drover rke cert rotate --rotate-ca` first, which goes on with it"
	case advice.ResumeCertificates:
		command := "drover rke cert rotate"
		for _, service := range s.Services {
			command += " --service " + service
		}
		return "run `" + command + "` first, which goes on with it"
	case advice.ResumeKey:
		return "`drover rke encrypt rotate-key` goes on with it"
	case advice.DropLostHosts:
		return "hosts that are lost are taken out of cluster.yml, and then out of the cluster by `drover rke up`"
	case advice.OtherName:
		return "give another --name"
	case advice.KeepState:
		return "with the state of that time beside cluster.yml, give --use-local-state"
	case advice.SnapshotsState:
		return "without --use-local-state the one in the snapshot is taken"
	case advice.Encrypt:
		return "set services.kube-api.secrets_encryption_config.enabled: true in cluster.yml, and run `drover rke up`"
	case advice.EncryptMeanwhile:
		return "set enabled: true there for the restore, and take it out afterwards"
	case advice.AllHosts:
		return "run without --update-only"
	case advice.TakeSnapshot:
		return "`drover rke etcd snapshot-save` takes one at once"
	case advice.RenewCertificates:
		return "`drover rke cert rotate` issues new ones"
	}
	return ""
}

// InWords has a command and those below it say what can be done about their errors.
func InWords(cmd *cobra.Command) {
	if run := cmd.RunE; run != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error { return advice.Error(run(cmd, args), Words) }
	}
	for _, below := range cmd.Commands() {
		InWords(below)
	}
}
