package clusterspec

import (
	"strings"
	"testing"
)

func TestSchedule(t *testing.T) {
	for _, good := range []string{"0 */6 * * *", "15 3 * * mon-fri", "0,30 1-5/2 1 JAN ?", "59 23 31 12 6", "@daily", "@every 90m", "CRON_TZ=Europe/Oslo 0 4 * * *"} {
		if faults := (&ETCD{SnapshotScheduleCron: good}).Faults("v1.33.6+k3s1"); len(faults) > 0 {
			t.Errorf("%q: %v", good, faults)
		}
	}
	for _, bad := range []string{`0 \*/6 \* \* \*`, "every night", "0 0 */6 * * *", "60 * * * *", "0 24 * * *", "0 0 0 * *", "0 0 * 13 *", "0 0 * * 7", "5-1 * * * *",
		"*/0 * * * *", "*/x * * * *", ", * * * *", "@often", "@every day", "@every 0s", "@every -5m", "TZ= 0 4 * * *", "@"} {
		faults := (&ETCD{SnapshotScheduleCron: bad}).Faults("v1.33.6+rke2r1")
		if len(faults) != 1 || faults[0].At != "etcd.snapshotScheduleCron" || !strings.Contains(faults[0].Reason, "is not a schedule that rke2 reads") {
			t.Errorf("%q: %v", bad, faults)
		}
	}
}

func FuzzSchedule(f *testing.F) {
	f.Add("0 */6 * * mon-fri")
	f.Add("@every 1h")
	f.Fuzz(func(t *testing.T, text string) {
		if schedule(text) && strings.TrimSpace(text) == "" {
			t.Errorf("%q is a schedule", text)
		}
	})
}
