package console

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/rke1/advice"
)

// Every step that the engine advises of has words here, in errors of commands and in warnings.
func TestWords(t *testing.T) {
	for kind := advice.BringUp; kind <= advice.RenewCertificates; kind++ {
		if Words(advice.Step{Kind: kind}) == "" {
			t.Errorf("step %d has no words", kind)
		}
	}
	step := advice.Step{Kind: advice.ResumeCertificates, Services: []string{"kubelet", "etcd"}}
	open := advice.With(errors.New("it is open"), step)
	inner := &cobra.Command{Use: "inner", SilenceUsage: true, SilenceErrors: true, RunE: func(*cobra.Command, []string) error { return open }}
	outer := &cobra.Command{Use: "outer"}
	outer.AddCommand(inner)
	InWords(outer)
	outer.SetArgs([]string{"inner"})
	const want = "it is open: run `drover rke cert rotate --service kubelet --service etcd` first, which goes on with it"
	if err := outer.Execute(); err == nil || err.Error() != want || !errors.Is(err, open) {
		t.Errorf("%v", err)
	}
	var out bytes.Buffer
	New(&out).Warn("it is open", step)
	if !strings.HasSuffix(out.String(), "] "+want+"\n") {
		t.Errorf("%q", out.String())
	}
}
