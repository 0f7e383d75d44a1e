package judge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/server/decide/judge"
)

func TestLostQuorum(t *testing.T) {
	up := func(name string) judge.Member { return judge.Member{Name: name} }
	off := func(name string) judge.Member {
		return judge.Member{Name: name, Gone: "its agent is gone since noon"}
	}
	for name, tc := range map[string]struct {
		members     []judge.Member
		cause, next string
	}{
		"none is known":   {},
		"all are there":   {members: []judge.Member{up("a"), up("b"), up("c")}},
		"one of three":    {members: []judge.Member{up("a"), off("b"), up("c")}},
		"two of five":     {members: []judge.Member{up("a"), off("b"), up("c"), off("d"), up("e")}},
		"two of three":    {members: []judge.Member{off("a"), up("b"), off("c")}, cause: "etcd has lost its quorum: 2 of its 3 members have to be there, and a (its agent is gone since noon), c (its agent is gone since noon) are gone", next: "switch on 1 of a, c; if they do not come back, drover machines rm NAME --force --yes for each of them, and drover snapshots restore on b: docs/how-to/restore-a-cluster.md#some-servers-are-lost-and-etcd-has-no-quorum"},
		"one of two":      {members: []judge.Member{up("a"), off("b")}, cause: "2 of its 2 members have to be there, and b (its agent is gone since noon) is gone", next: "switch on 1 of b; "},
		"all are gone":    {members: []judge.Member{off("a"), off("b"), off("c")}, cause: "2 of its 3 members have to be there", next: "docs/how-to/restore-a-cluster.md#all-servers-are-lost"},
		"the only one is": {members: []judge.Member{off("a")}, cause: "1 of its 1 members have to be there, and a (", next: "docs/how-to/restore-a-cluster.md#all-servers-are-lost"},
	} {
		cause, next := judge.LostQuorum(tc.members)
		if (cause == "") != (tc.cause == "") || !strings.Contains(cause, tc.cause) || !strings.Contains(next, tc.next) {
			t.Errorf("%s: %q, %q", name, cause, next)
		}
	}
}

func TestHost(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	of := func(r plans.HostReport) judge.Host {
		data := map[string][]byte{plans.KeyPlan: []byte("{}")}
		r.Plan = plans.Checksum(data[plans.KeyPlan])
		var err error
		if data[plans.KeyHostReport], err = plans.EncodeHostReport(r); err != nil {
			t.Fatal(err)
		}
		return judge.Of(data, "rke2-server")
	}
	pod := plans.PodReport{Name: "kube-apiserver", Restarts: 4, Since: noon, Lines: []string{"Error: unknown flag: --x"}}
	unit := plans.UnitReport{Name: "rke2-server", State: "activating (start)", Lines: []string{"noise"}}
	for name, tc := range map[string]struct {
		report            plans.HostReport
		words, next, down string
	}{
		"nothing":      {},
		"another unit": {report: plans.HostReport{Units: []plans.UnitReport{{Name: "rke2-agent", State: "failed (x)"}}}},
		"a pod before its unit": {
			plans.HostReport{Units: []plans.UnitReport{unit}, Pods: []plans.PodReport{pod}},
			"; the static pod kube-apiserver was started again 4 times, and ended last at 2026-11-21T12:00:00Z: Error: unknown flag: --x; rke2-server.service is activating (start): noise",
			"drover machines logs pier-1 --pod kube-apiserver; correct the cluster and apply it", "",
		},
		"a unit that ended": {
			plans.HostReport{Units: []plans.UnitReport{{Name: "rke2-server", State: "failed (failed)"}}},
			"; rke2-server.service is failed (failed)", "on the host: journalctl -u rke2-server; correct the cluster and apply it with --replace: a newer plan is taken as soon as the instruction waits", "rke2-server.service is failed (failed)",
		},
		"a pod that was never started": {
			plans.HostReport{Units: []plans.UnitReport{unit}, Pods: []plans.PodReport{{Name: "etcd", Since: noon, Lines: []string{"ErrImagePull: no such host"}}}},
			"; the kubelet cannot start the static pod etcd, tried last at 2026-11-21T12:00:00Z: ErrImagePull: no such host; rke2-server.service is activating (start): noise",
			"on the host: agent/logs/kubelet.log in the data directory of RKE2 has more; correct the cluster and apply it with --replace", "",
		},
		"hostile":         {report: plans.HostReport{Pods: []plans.PodReport{{Name: "x; reboot", Restarts: 2}}}},
		"escape sequence": {report: plans.HostReport{Pods: []plans.PodReport{{Name: "etcd", Restarts: 1, Lines: []string{"a\x1b[2Jb"}}}}, words: "; the static pod etcd was started again: a [2Jb", next: "drover machines logs pier-1 --pod etcd; correct the cluster and apply it"},
	} {
		h := of(tc.report)
		if h.Words(false) != tc.words || h.Next("pier-1") != tc.next || h.Down() != tc.down {
			t.Errorf("%s: %q, %q, %q", name, h.Words(false), h.Next("pier-1"), h.Down())
		}
	}
}
