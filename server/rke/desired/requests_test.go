package desired

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drover-project/drover/rke1/engine/run"
	"github.com/drover-project/drover/rke1/pki/pkitest"
	"github.com/drover-project/drover/server/clusterspec"
	"github.com/drover-project/drover/server/operations"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/rke"
)

// deployed is a world that is what its document says, but for the requests in it.
func deployed(t *testing.T, config string) Snapshot {
	t.Helper()
	s := world(t, config)
	c, _, err := Config(Input{Cluster: s.Cluster, Machines: s.Machines, Versions: s.Versions})
	if err != nil {
		t.Fatal(err)
	}
	first, _, err := run.Init(run.Work{Config: c}, pkitest.Source(now, 0)) // keys that need no time
	if err != nil {
		t.Fatal(err)
	}
	r, err := rke.Record(records.RKEState{Done: stamp(t, s), Since: now.Add(-24 * time.Hour)}, first.Deployed())
	if err != nil {
		t.Fatal(err)
	}
	s.Record = &r
	return s
}

// off is a config without snapshots, with more.
func off(more string) string {
	return `{"network":{"plugin":"canal"},"services":{"etcd":{"snapshot":false}}` + more + `}`
}

func decided(t *testing.T, s Snapshot) Decision {
	t.Helper()
	d, err := Decide(s)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestRequestsOfTheDocument(t *testing.T) {
	const certificates, ca, keys, restore = `,"rotateCertificates":{"services":["","kubelet"]}`, `,"rotateCertificates":{"caCertificates":true}`, `,"rotateEncryptionKey":true`, `,"restore":{"restore":true,"snapshotName":"one"}`
	heed := func(s *Snapshot, kind operations.Kind) {
		c, err := s.Cluster.Spec.RKE1Config()
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range documentRequests(c) {
			if w.Kind == kind {
				s.Record.Carried = w.With(s.Record.Carried)
			}
		}
	}
	change := func(s *Snapshot) {
		s.Machines = append(s.Machines, machine("c", "10.0.0.3", records.Roles{Worker: true}))
	}
	for _, tc := range []struct {
		name, config string
		change       func(*Snapshot)
		want         string // of the decision: its kind, and the request in it
	}{
		{"nothing", "", nil, ""},
		{"certificates of services", certificates, nil, string(operations.KindRotateCertificates) + " rotate certificates of cluster yard: kubelet"},
		{"the CA", ca, nil, string(operations.KindRotateCertificates) + " rotate the CAs and all certificates of cluster yard"},
		{"the key", keys, nil, string(operations.KindRotateKeys) + " encrypt the Secrets of cluster yard with a new key"},
		{"a restore comes first", certificates + keys + restore, change, string(operations.KindRestore) + " restore cluster yard from snapshot one"},
		{"once", certificates, func(s *Snapshot) { heed(s, operations.KindRotateCertificates) }, ""},
		{"each once", certificates + keys, func(s *Snapshot) { heed(s, operations.KindRotateCertificates) }, string(operations.KindRotateKeys) + " encrypt the Secrets of cluster yard with a new key"},
		{"another value is another request", ca, func(s *Snapshot) {
			s.Record.Carried = Request{Kind: operations.KindRotateCertificates, Document: true}.With(nil)
		}, string(operations.KindRotateCertificates) + " rotate the CAs and all certificates of cluster yard"},
		{"taken out of the document", "", func(s *Snapshot) {
			s.Record.Carried = Request{Kind: operations.KindRotateKeys, Document: true}.With(nil)
		}, "forget"},
		{"after what else the document changes", certificates, change, string(operations.KindProvision) + " bring RKE1 cluster yard to its document and its hosts"},
		{"before it, when nothing works without", certificates, func(s *Snapshot) { change(s); s.Record.Ends["kube-node"] = now }, string(operations.KindRotateCertificates) + " rotate certificates of cluster yard: kubelet"},
		{"though the change was stopped", certificates, func(s *Snapshot) { s.Record.Done, s.Record.Halted = "", s.Record.Done }, string(operations.KindRotateCertificates) + " rotate certificates of cluster yard: kubelet"},
		{"paused", certificates, func(s *Snapshot) { s.Cluster.Paused = &records.Pause{} }, ""},
		{"a needed host is away", restore, func(s *Snapshot) { s.Connected = func(records.Machine) bool { return false } }, ""},
		{"a new cluster has new certificates", certificates + keys, func(s *Snapshot) { s.Record = nil }, string(operations.KindProvision) + " make RKE1 cluster yard"},
		{"a new cluster of an old snapshot", restore, func(s *Snapshot) { s.Record = nil }, string(operations.KindRestore) + " restore cluster yard from snapshot one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := deployed(t, off(tc.config))
			if tc.change != nil {
				tc.change(&s)
			}
			d := decided(t, s)
			got := strings.TrimSpace(string(d.Kind) + " " + d.Title)
			if d.Do == Forget && len(d.Done) == 0 {
				got = "forget"
			}
			if got != tc.want || (d.Do == Begin) != (tc.want != "" && tc.want != "forget") || d.Do == Begin && (d.Request != nil) != (d.Kind != operations.KindProvision) {
				t.Errorf("%q, want %q: %+v", got, tc.want, d)
			}
		})
	}
}

// What hosts are to have does not depend on requests, and the engine does not take them for work that was begun.
func TestWishesAreNotOfTheHosts(t *testing.T) {
	plain, wishing := world(t, off("")), world(t, off(`,"rotateCertificates":{},"rotateEncryptionKey":true,"restore":{"restore":true,"snapshotName":"one"}`))
	if stamp(t, plain) != stamp(t, wishing) {
		t.Error("a request asks for other hosts")
	}
	c, _, err := Config(Input{Cluster: wishing.Cluster, Machines: wishing.Machines, Versions: wishing.Versions})
	if err != nil || c.RotateCertificates != nil || c.RotateEncryptionKey || c.Restore.Restore {
		t.Errorf("%v: %+v", err, c)
	}
	done := Fresh(Input{Cluster: wishing.Cluster}, nil)
	if len(done) != 2 || done[operations.KindRestore] != "" {
		t.Errorf("done of a new cluster: %v", done)
	}
}

func TestCarryingOnWithAWish(t *testing.T) {
	request := &Request{Kind: operations.KindRotateCertificates, CA: true}
	for _, tc := range []struct {
		name   string
		params Params
		change func(*Snapshot)
		want   Do
		also   func(Decision) bool
	}{
		{"begun by somebody", Params{Request: request}, nil, Run, func(d Decision) bool { return d.Request.CA }},
		{"by a leader that is gone", Params{Request: request, Stamp: "x"}, nil, Run, nil},
		{"between two tries, whatever the document has become", Params{Request: request, Stamp: "x", Tries: 1, Next: now.Add(time.Minute)}, nil, Nothing, func(d Decision) bool { return d.Again == time.Minute }},
		{"somebody asks for a try", Params{Request: request, Stamp: "x", Tries: 1, Next: now.Add(time.Minute)}, func(s *Snapshot) { s.Operations[0].Retry = 1 }, Run, nil},
		{"stopped", Params{Request: request, Stamp: "x"}, func(s *Snapshot) { s.Operations[0].State = operations.Stopping }, End, func(d Decision) bool {
			return d.State == operations.Aborted && !d.Halted && strings.Contains(d.Reason, "`drover clusters rotate certificates yard --ca`")
		}},
		{"its cluster goes", Params{Request: request}, func(s *Snapshot) { s.Cluster.Deleting, s.Cluster.Leave.Uninstall = now, true }, End, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := deployed(t, off(""))
			o, err := tc.params.With(operations.Operation{ID: "op-1", Kind: operations.KindRotateCertificates, Subject: "fleet-default/yard", State: operations.Running, Created: now, Started: now})
			if err != nil {
				t.Fatal(err)
			}
			if s.Operations = []operations.Operation{o}; tc.change != nil {
				tc.change(&s)
			}
			if d := decided(t, s); d.Do != tc.want || tc.also != nil && !tc.also(d) {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestWishCheck(t *testing.T) {
	for _, tc := range []struct {
		request Request
		want    string
	}{
		{Request{Kind: operations.KindSnapshot, Snapshot: "one"}, ""},
		{Request{Kind: operations.KindRestore, Snapshot: "../one"}, "is not a valid name"},
		{Request{Kind: operations.KindRestore}, "is not a valid name"},
		{Request{Kind: operations.KindRemoveSnapshot, Snapshot: "one"}, ""},
		{Request{Kind: operations.KindRemoveSnapshot, Snapshot: "a/one"}, "is not a valid name"},
		{Request{Kind: operations.KindRotateCertificates, Services: []string{"etcd", "kubelet"}}, ""},
		{Request{Kind: operations.KindRotateCertificates, Services: []string{"dns"}}, `"dns" is not a service with certificates; there are kube-apiserver,`},
		{Request{Kind: operations.KindRotateCertificates, CA: true, Services: []string{"etcd"}}, "leave the services out"},
		{Request{Kind: operations.KindRotateKeys}, ""},
		{Request{Kind: operations.KindProvision}, `"provision" is not a kind of operation that can be asked for`},
	} {
		if err := tc.request.Check(); (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v", tc.request, err)
		}
	}
}

func TestSchedule(t *testing.T) {
	const hour = time.Hour
	for _, tc := range []struct {
		name, etcd string
		before     bool // the cluster has the container that takes snapshots
		want       Schedule
		on         bool
	}{
		{"by itself", "{}", false, Schedule{12 * hour, 6}, true},
		{"as the document says", `{"backupConfig":{"intervalHours":2,"retention":3}}`, false, Schedule{2 * hour, 3}, true},
		{"as management servers write it", `{"snapshot":false,"backupConfig":{"enabled":true,"intervalHours":2,"retention":3}}`, false, Schedule{2 * hour, 3}, true},
		{"in the older words", `{"creation":"6h","retention":"24h"}`, false, Schedule{6 * hour, 4}, true},
		{"switched off", `{"backupConfig":{"enabled":false}}`, false, Schedule{}, false},
		{"no snapshots", `{"snapshot":false}`, false, Schedule{}, false},
		{"by the container", `{"snapshot":true}`, false, Schedule{}, false},
		{"by the container that is there", "{}", true, Schedule{}, false},
		{"somebody else's etcd", `{"externalUrls":["https://e"]}`, false, Schedule{}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := world(t, `{"services":{"etcd":`+tc.etcd+`}}`)
			in := Input{Cluster: s.Cluster, Machines: s.Machines, Versions: s.Versions}
			if tc.before {
				in.Before = made(t, world(t, `{"services":{"etcd":{"snapshot":true}}}`)).Deployed()
			}
			got, on := ScheduleOf(in)
			if got != tc.want || on != tc.on {
				t.Errorf("%+v, %t", got, on)
			}
			c, err := in.written()
			if err != nil {
				t.Fatal(err)
			}
			if container := c.Services.Etcd.Snapshot == nil || *c.Services.Etcd.Snapshot; container && tc.on {
				t.Error("the server and a container take snapshots")
			}
		})
	}
}

func TestWhenSnapshotsAreTaken(t *testing.T) {
	taken := func(ago time.Duration, failure string) []records.RKESnapshot {
		return []records.RKESnapshot{{ID: "1", Scheduled: true, At: now.Add(-ago), Failure: failure}, {ID: "2", At: now}}
	}
	for _, tc := range []struct {
		name   string
		change func(*Snapshot)
		want   Do
		again  time.Duration
	}{
		{"soon after the cluster came about", func(s *Snapshot) { s.Record.Since = now.Add(-10 * time.Minute) }, Nothing, 50 * time.Minute},
		{"the first", func(s *Snapshot) {}, Save, 0},
		{"between two", func(s *Snapshot) { s.Record.Snapshots = taken(11*time.Hour, "") }, Nothing, time.Hour},
		{"the next", func(s *Snapshot) { s.Record.Snapshots = taken(12*time.Hour, "") }, Save, 0},
		{"after one that failed", func(s *Snapshot) { s.Record.Snapshots = taken(time.Minute, "no space") }, Nothing, 9 * time.Minute},
		{"once more", func(s *Snapshot) { s.Record.Snapshots = taken(10*time.Minute, "no space") }, Save, 0},
		{"paused", func(s *Snapshot) { s.Cluster.Paused = &records.Pause{} }, Nothing, 0},
		{"its host is away", func(s *Snapshot) { s.Connected = func(records.Machine) bool { return false } }, Nothing, 0},
		{"what is wanted comes first", func(s *Snapshot) { s.Record.Done = "other" }, Begin, 0},
		{"between the tries of what does not come to an end", func(s *Snapshot) {
			o, err := Params{Stamp: stamp(t, *s), Tries: 9, Next: now.Add(5 * time.Minute)}.With(operations.Operation{ID: "op-1", Kind: operations.KindProvision, Subject: "fleet-default/yard", State: operations.Running})
			if err != nil {
				t.Fatal(err)
			}
			s.Operations = []operations.Operation{o}
		}, Save, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := deployed(t, plain)
			tc.change(&s)
			if d := decided(t, s); d.Do != tc.want || d.Again != tc.again || d.Do == Save && d.Config == nil {
				t.Errorf("%+v", d)
			}
		})
	}
}

func TestNoted(t *testing.T) {
	names := func(all []records.RKESnapshot) (names []string) {
		for _, s := range all {
			names = append(names, s.ID)
		}
		return names
	}
	before := []records.RKESnapshot{{ID: "s1", Scheduled: true}, {ID: "m1"}, {ID: "s2", Scheduled: true}, {ID: "f1", Scheduled: true, Failure: "x"}}
	all, gone := Noted(before, records.RKESnapshot{ID: "s3", Scheduled: true}, 2)
	if diff := cmp.Diff([]string{"m1", "s2", "s3"}, names(all)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"s1"}, names(gone)); diff != "" {
		t.Error(diff)
	}
	// One that failed takes no other's place, and one that a user asked for removes none.
	if all, gone = Noted(before, records.RKESnapshot{ID: "f2", Scheduled: true, Failure: "y"}, 1); len(gone) != 1 || names(all)[len(all)-1] != "f2" {
		t.Errorf("%v, gone %v", names(all), names(gone))
	}
	if all, gone = Noted(before, records.RKESnapshot{ID: "m1"}, 0); len(gone) != 0 || len(all) != 4 {
		t.Errorf("%v, gone %v", names(all), names(gone))
	}
	var many []records.RKESnapshot
	for range MaxSnapshots + 5 {
		many, _ = Noted(many, records.RKESnapshot{ID: time.Duration(len(many)).String() + "x"}, 0)
	}
	if len(many) != MaxSnapshots {
		t.Errorf("%d are remembered", len(many))
	}
}

func TestNameSnapshot(t *testing.T) {
	for config, want := range map[string]string{
		`{"services":{"etcd":{"backupConfig":{}}}}`:                       "c-abcde-rl-x1y2z_2026-11-22T12:00:00Z",
		`{"services":{"etcd":{"backupConfig":{"safeTimestamp":true}}}}`:   "c-abcde-rl-x1y2z_2026-11-22T12-00-00Z",
		`{"services":{"etcd":{"backupConfig":{"s3BackupConfig":{}}}}}`:    "c-abcde-rs-x1y2z_2026-11-22T12:00:00Z",
		`{"services":{"etcd":{"snapshot":false}},"network":{"mtu":1450}}`: "c-abcde-rl-x1y2z_2026-11-22T12:00:00Z",
	} {
		spec := clusterspec.RancherKubernetesEngineConfig(config)
		in := Input{Cluster: records.Cluster{ID: "c-abcde", Spec: clusterspec.Spec{RancherKubernetesEngineConfig: &spec}}}
		if id, name := NameSnapshot(in, true, now, "x1y2z"); name != want || !strings.HasPrefix(name, id+"_") {
			t.Errorf("%s: %s, %s", config, id, name)
		}
	}
}
