package api_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gorilla/websocket"

	"github.com/drover-project/drover/server/api/k8sobjects"
	"github.com/drover-project/drover/server/api/subscribe"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

// frame is a frame as a client reads it.
type frame struct {
	Name         string         `json:"name"`
	ResourceType string         `json:"resourceType"`
	Revision     string         `json:"revision"`
	Data         map[string]any `json:"data"`
}

// socket opens a websocket as a user.
func socket(b *apibed.Bed, server *httptest.Server, target, token string) (*websocket.Conn, int) {
	b.T.Helper()
	header := http.Header{"Authorization": {"Bearer " + token}, "Host": {"drover.example"}}
	conn, response, err := websocket.DefaultDialer.DialContext(b.T.Context(), "ws"+strings.TrimPrefix(server.URL, "http")+target, header)
	if response == nil {
		b.T.Fatal(err)
	}
	apibed.Discard(response)
	if err != nil {
		return nil, response.StatusCode
	}
	b.T.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		b.T.Fatal(err)
	}
	return conn, response.StatusCode
}

func read(t *testing.T, conn *websocket.Conn) frame {
	t.Helper()
	_, data, err := conn.ReadMessage()
	if err != nil {
		t.Fatal(err)
	}
	var f frame
	if err := json.Unmarshal(data, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// readNamed reads until a frame of that name.
func readNamed(t *testing.T, conn *websocket.Conn, name string) frame {
	t.Helper()
	for {
		if f := read(t, conn); f.Name == name {
			return f
		}
	}
}

func serveBench(b *apibed.Bed) *httptest.Server {
	server := httptest.NewServer(b.Handler)
	b.T.Cleanup(server.Close)
	return server
}

func setState(b *apibed.Bed, key string, state records.MachineState) {
	b.T.Helper()
	if _, err := b.State.Machines.Modify(b.T.Context(), key, func(m records.Machine) (records.Machine, error) {
		m.Status.State = state
		return m, nil
	}); err != nil {
		b.T.Fatal(err)
	}
}

// TestSubscribeShowsWhatGetShows: the data of a change is the whole resource as the
// same caller reads it, links and actions included.
func TestSubscribeShowsWhatGetShows(t *testing.T) {
	b := apibed.New(t)
	server := serveBench(b)
	conn, _ := socket(b, server, "/v3/subscribe?resourceTypes=node&resourceTypes=cluster&resourceTypes=project", b.Admin)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	m := b.AddMachine(cl, "0f31c2aa9d10", nil)
	for _, want := range []string{"cluster c-m-h4rb0r55", "project", "project", "node " + k8sobjects.NodeID(m)} {
		f := read(t, conn)
		if f.Name != "resource.change" || !strings.HasPrefix(fmt.Sprint(f.Data["type"], " ", f.Data["id"]), want) || f.Revision == "" {
			t.Fatalf("frame %+v, want %s", f, want)
		}
		self, _ := f.Data["links"].(map[string]any)["self"].(string)
		got := b.Get(strings.TrimPrefix(self, "https://drover.example")).Body
		if f.Data["type"] == "cluster" { // the machine came after the frame
			got["nodeCount"], got["driver"], got["provider"], got["info"], got["conditions"] = f.Data["nodeCount"], f.Data["driver"], f.Data["provider"], f.Data["info"], f.Data["conditions"]
		}
		if diff := cmp.Diff(got, f.Data); diff != "" {
			t.Errorf("%s (-GET +frame):\n%s", want, diff)
		}
	}
	if err := b.State.Machines.Delete(t.Context(), m.Key(), 0); err != nil {
		t.Fatal(err)
	}
	if f := read(t, conn); f.Name != "resource.remove" || f.Data["id"] != k8sobjects.NodeID(m) || f.Data["type"] != "node" {
		t.Errorf("frame %+v", f)
	}
}

// TestSubscribeLosesNothing: 100 changes, the socket is cut, the client goes on where it was.
func TestSubscribeLosesNothing(t *testing.T) {
	b := apibed.New(t)
	server := serveBench(b)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	b.AddMachines(cl, 100)
	conn, _ := socket(b, server, "/v3/subscribe?resourceTypes=node", b.Admin)
	touch := func(from, to int) {
		for i := from; i < to; i++ {
			setState(b, fmt.Sprintf("fleet-default/custom-%012x", i), records.ApplyingPlan)
		}
	}
	seen, last := map[string]bool{}, ""
	note := func(f frame) {
		if f.Name != "resource.change" || f.Data["droverState"] != "Applying plan" {
			t.Fatalf("frame %+v", f)
		}
		seen[fmt.Sprint(f.Data["id"])], last = true, f.Revision
	}
	touch(0, 60)
	for range 30 {
		note(read(t, conn))
	}
	_ = conn.Close()
	touch(60, 100)
	conn, _ = socket(b, server, "/v3/subscribe?resourceTypes=node&since="+last, b.Admin)
	for len(seen) < 100 {
		note(read(t, conn))
	}
}

func TestSubscribeResync(t *testing.T) {
	b := apibed.New(t)
	server := serveBench(b)
	for _, since := range []string{"1", "999999999"} {
		conn, _ := socket(b, server, "/v3/subscribe?since="+since, b.Admin)
		if f := read(t, conn); f.Name != "resync" || f.Revision == "" {
			t.Errorf("since %s: frame %+v", since, f)
		}
	}
	if _, status := socket(b, server, "/v3/subscribe?since=soon", b.Admin); status != 422 {
		t.Errorf("status %d", status)
	}
}

// TestSubscribeResyncsAfterRights: what came by rights while a client was away is not among the changes.
func TestSubscribeResyncsAfterRights(t *testing.T) {
	b := apibed.New(t)
	apibed.Administrated(b)
	server := serveBench(b)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	id, token := b.Person("ann", "user-base")
	listed := b.State.Store.Revision()
	b.Bind("clusterroletemplatebindings", fmt.Sprintf(`{"clusterId":%q,"roleTemplateId":"cluster-member","userId":%q}`, cl.ID, id))
	conn, _ := socket(b, server, fmt.Sprint("/v3/subscribe?since=", listed), token)
	if f := read(t, conn); f.Name != "resync" {
		t.Errorf("frame %+v", f)
	}
	conn, _ = socket(b, server, "/v1/subscribe", token)
	for _, c := range []struct {
		since int64
		want  string
	}{{listed, "resource.error"}, {b.State.Store.Revision(), "resource.stop"}} {
		for _, say := range []string{fmt.Sprintf(`{"resourceType":"management.cattle.io.clusters","resourceVersion":"%d"}`, c.since), `{"resourceType":"management.cattle.io.clusters","stop":true}`} {
			if err := conn.WriteMessage(websocket.TextMessage, []byte(say)); err != nil {
				t.Fatal(err)
			}
		}
		if f := read(t, conn); f.Name != "resource.start" {
			t.Errorf("frame %+v", f)
		}
		if f := read(t, conn); f.Name != c.want {
			t.Errorf("after what was listed at %d: frame %+v, want %s", c.since, f, c.want)
		}
		for c.want == "resource.error" {
			if f := read(t, conn); f.Name == "resource.stop" {
				break
			}
		}
	}
}

func TestSubscribeSelection(t *testing.T) {
	b := apibed.New(t)
	server := serveBench(b)
	one := b.AddCluster("one", "c-m-11111111", apibed.Active)
	two := b.AddCluster("two", "c-m-22222222", apibed.Active)
	m1, m2 := b.AddMachine(one, "000000000001", nil), b.AddMachine(two, "000000000002", nil)
	for _, c := range []struct {
		target string
		status int
		want   []string // ids of what is seen, in order
	}{
		{"/v3/subscribe?resourceTypes=nothing", 404, nil},
		{"/v3/subscribe?resourceTypes=node", 101, []string{k8sobjects.NodeID(m1), k8sobjects.NodeID(m2)}},
		{"/v3/subscribe?resourceTypes=nodes&clusterId=c-m-22222222", 101, []string{k8sobjects.NodeID(m2)}},
		{"/v3/subscribe?resourceTypes=node&state=error", 101, nil},
		{"/v3/clusters/c-m-11111111/subscribe", 101, []string{k8sobjects.NodeID(m1), "c-m-11111111"}},
		{"/v3/clusters/c-m-none/subscribe", 404, nil},
		{"/v3/subscribe", 101, []string{k8sobjects.NodeID(m1), k8sobjects.NodeID(m2), "c-m-11111111", "c-m-22222222"}},
	} {
		t.Run(c.target, func(t *testing.T) {
			conn, status := socket(b, server, c.target, b.Admin)
			if status != c.status {
				t.Fatalf("status %d", status)
			}
			if conn == nil {
				return
			}
			for _, m := range []records.Machine{m1, m2} {
				setState(b, m.Key(), records.WaitingForPlan)
				setState(b, m.Key(), records.ApplyingPlan)
			}
			for _, cl := range []records.Cluster{one, two} {
				modifyCluster(t, b, cl.Key(), func(x *records.Cluster) { x.Status.Message = c.target })
			}
			// The last change is seen by every subscriber that sees its own token.
			var got []string
			stop := make(chan struct{})
			go func() {
				defer close(stop)
				for {
					_, data, err := conn.ReadMessage()
					if err != nil {
						return
					}
					var f frame
					if json.Unmarshal(data, &f) != nil {
						return
					}
					id := fmt.Sprint(f.Data["id"])
					if len(got) == 0 || got[len(got)-1] != id {
						got = append(got, id)
					}
					if len(got) == len(c.want) {
						return
					}
				}
			}()
			if len(c.want) == 0 {
				_ = conn.Close()
			}
			<-stop
			if fmt.Sprint(got) != fmt.Sprint(c.want) {
				t.Errorf("seen %v, want %v", got, c.want)
			}
		})
	}
}

func modifyCluster(t *testing.T, b *apibed.Bed, key string, change func(*records.Cluster)) {
	t.Helper()
	if _, err := b.State.Clusters.Modify(t.Context(), key, func(c records.Cluster) (records.Cluster, error) { change(&c); return c, nil }); err != nil {
		t.Fatal(err)
	}
}

// TestSubscribeHidesWhatIsForeign: a user without rights sees only their own tokens.
func TestSubscribeHidesWhatIsForeign(t *testing.T) {
	b := apibed.New(t)
	server := serveBench(b)
	conn, status := socket(b, server, "/v3/subscribe", b.User)
	if status != 101 {
		t.Fatalf("status %d", status)
	}
	apibed.Harbour(b)
	b.Token("user-admin", records.Token{Name: "token-xxxxx"})
	b.Token("u-bob", records.Token{Name: "token-mine1"})
	if f := read(t, conn); f.Data["id"] != "token-mine1" {
		t.Errorf("frame %+v", f)
	}
	for _, name := range []string{"token-xxxxx", "token-mine1"} {
		if err := b.Auth.RevokeToken(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if f := read(t, conn); f.Name != "resource.remove" || f.Data["id"] != "token-mine1" {
		t.Errorf("frame %+v", f)
	}
}

func TestSubscribeEndsWithTheToken(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(b *apibed.Bed)
		code int
	}{
		{"revoked", func(b *apibed.Bed) { _ = b.Auth.RevokeToken(b.T.Context(), "token-watch") }, subscribe.CloseExpired},
		{"expired", func(b *apibed.Bed) { b.Pass(2 * time.Hour) }, subscribe.CloseExpired},
		{"no longer an administrator", func(b *apibed.Bed) {
			_, _ = b.State.Users.Modify(b.T.Context(), "user-admin", func(u records.User) (records.User, error) { u.Admin = false; return u, nil })
		}, subscribe.CloseDenied},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := apibed.NewWith(t, apibed.Options{ServerURL: "https://drover.example", Ping: 10 * time.Millisecond})
			token := b.Token("user-admin", records.Token{Name: "token-watch", TTLMillis: time.Hour.Milliseconds()})
			conn, _ := socket(b, serveBench(b), "/v3/subscribe?resourceTypes=node", token)
			readNamed(t, conn, "ping")
			c.do(b)
			for {
				_, _, err := conn.ReadMessage()
				if end, ok := errors.AsType[*websocket.CloseError](err); ok {
					if end.Code != c.code {
						t.Errorf("code %d, want %d", end.Code, c.code)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

func TestSubscribeSteve(t *testing.T) {
	b := apibed.New(t)
	server := serveBench(b)
	cl := b.AddCluster("harbour", "c-m-h4rb0r55", apibed.Active)
	listed := b.Get("/v1/cluster.x-k8s.io.machines").Text("revision")
	m := b.AddMachine(cl, "0f31c2aa9d10", nil)
	conn, _ := socket(b, server, "/v1/subscribe", b.Admin)
	say := func(text string) {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	expect := func(name, typ, id string) {
		t.Helper()
		if f := read(t, conn); f.Name != name || f.ResourceType != typ || id != "" && f.Data["id"] != id {
			t.Fatalf("frame %+v, want %s %s %s", f, name, typ, id)
		}
	}
	const machines, clusters = "cluster.x-k8s.io.machine", "provisioning.cattle.io.clusters"
	say(`{"resourceType":"` + machines + `","resourceVersion":"` + listed + `"}`)
	expect("resource.start", machines, "")
	// The revision that was listed comes again, since a transaction may be seen in part.
	expect("resource.create", machines, m.Key())
	say(`{"resourceType":"` + clusters + `"}`)
	expect("resource.start", clusters, "")
	modifyCluster(t, b, cl.Key(), func(c *records.Cluster) { c.Status.Message = "x" })
	expect("resource.change", clusters, cl.Key())
	say(`{"resourceType":"endpoints"}`)
	expect("resource.error", "endpoints", "")
	say(`[`)
	expect("resource.error", "", "")
	say(`{"resourceType":"` + clusters + `","stop":true}`)
	expect("resource.stop", clusters, "")
	modifyCluster(t, b, cl.Key(), func(c *records.Cluster) { c.Status.Message = "y" })
	if err := b.State.Machines.Delete(t.Context(), m.Key(), 0); err != nil {
		t.Fatal(err)
	}
	expect("resource.remove", machines, m.Key())
	say(`{"resourceType":"management.cattle.io.clusters","id":"c-m-h4rb0r55","resourceVersion":"1"}`)
	expect("resource.start", "management.cattle.io.clusters", "")
	expect("resource.error", "management.cattle.io.clusters", "")
	if err := b.State.Clusters.Delete(t.Context(), cl.Key(), 0); err != nil {
		t.Fatal(err)
	}
	expect("resource.remove", "management.cattle.io.clusters", "c-m-h4rb0r55")
}

// TestSubscribeByCurl is the test of websockets that is in many guides, with its key of 13 bytes.
func TestSubscribeByCurl(t *testing.T) {
	b := apibed.NewWith(t, apibed.Options{ServerURL: "https://drover.example", Ping: 10 * time.Millisecond})
	conn, err := net.Dial("tcp", strings.TrimPrefix(serveBench(b).URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(conn, "GET /v3/subscribe HTTP/1.1\r\nHost: drover.example\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Key: SGVsbG8sIHdvcmxkIQ==\r\nSec-WebSocket-Version: 13\r\nAuthorization: Bearer %s\r\n\r\n", b.Admin)
	br := bufio.NewReader(conn)
	response, err := http.ReadResponse(br, nil)
	if err != nil || response.StatusCode != http.StatusSwitchingProtocols || response.Header.Get("Sec-WebSocket-Accept") != "qGEgH3En71di5rrssAZTmtRTyFk=" {
		t.Fatalf("%v %v", response, err)
	}
	line, err := br.ReadString('}')
	if err != nil || !strings.Contains(line, `{"name":"ping","revision":"`) {
		t.Errorf("%q %v", line, err)
	}
}
