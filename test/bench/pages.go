// The web page of a server with hundreds of clusters and thousands of machines: how soon it is there, what comes over the
// wire, when a change is on the screens of hundreds of people, what their pages cost, and what a roll-out notices of them.

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
)

// Budgets of the page, with 200 clusters of 25 machines.
const (
	pageClusters = 200
	pageMachines = 5000
	openPages    = 500

	maxFirstPage   = 300 * time.Millisecond
	maxFirstBytes  = 250_000
	maxShown       = 500 * time.Millisecond
	maxOpenPage    = 256 << 10
	maxSlower      = 1.05
	pageLoads      = 20
	pageChanges    = 10
	pageRounds     = 3 // of the same roll-out without pages and with them, in turns
	pageChangeRest = 1500 * time.Millisecond
)

const allClusters = "/dashboard/clusters"

// pages measures it.
func (b *bench) pages(ctx context.Context) (err error) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // as for fleets
	if err := enoughFiles(2*pageMachines + openPages); err != nil {
		return err
	}
	dir := filepath.Join(b.dir, "pages")
	s, err := b.startServer(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.stop(ctx), os.RemoveAll(dir)) }()
	f := &fleet{server: s, agents: make([]*simulated, pageMachines), failed: make(chan error, 1)}
	if f.shared, err = newShared(s, pageMachines); err != nil {
		return err
	}
	f.shared.lasts = 1800
	if f.shared.outcome[plans.KeyProbeStatuses], err = allHealthy(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer f.group.Wait()
	defer f.close()
	defer cancel()
	if err := b.manyClusters(ctx, f); err != nil {
		return err
	}
	look := &onlookers{bench: b, fleet: f, name: fmt.Sprintf("the page, %d clusters of %d machines: ", pageClusters, pageMachines/pageClusters)}
	if look.token, err = s.login(ctx); err != nil {
		return fmt.Errorf("log in: %w", err)
	}
	for _, step := range []func(context.Context) error{look.first, look.alone, look.beside, look.different, look.rollOuts} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// pageCluster is the name of one of the clusters.
func pageCluster(i int) string {
	if i == 0 {
		return clusterName
	}
	return fmt.Sprintf("%s-%03d", clusterName, i)
}

// pageObject is the file of all machines of all clusters, with a content.
func pageObject(content string) string {
	names := make([]string, pageClusters)
	for i := range names {
		names[i] = pageCluster(i)
	}
	return strings.Replace(fmt.Sprintf(changeObject, content), "for-clusters: "+clusterName, "for-clusters: '"+strings.Join(names, ",")+"'", 1)
}

// manyClusters brings clusters of one server and many workers each to where nothing is left to do.
func (b *bench) manyClusters(ctx context.Context, f *fleet) error {
	var documents strings.Builder
	documents.WriteString(pageObject("before"))
	for i := range pageClusters {
		documents.WriteString("---\n" + strings.Replace(changeCluster, "name: "+clusterName+"}", "name: "+pageCluster(i)+"}", 1))
	}
	if err := f.server.apply(ctx, documents.String()); err != nil {
		return err
	}
	tokens, err := f.server.tokens(ctx)
	if err != nil {
		return err
	}
	if len(tokens) != pageClusters {
		return fmt.Errorf("%d clusters have %d registration tokens", pageClusters, len(tokens))
	}
	b.say("%d machines of %d clusters: registering", pageMachines, pageClusters)
	if err := inParallel(pageMachines, registerAtOnce, func(i int) error {
		roles := []string{workerRole}
		if i < pageClusters {
			roles = []string{workerRole, etcdRole, planeRole}
		}
		m, err := f.server.register(ctx, tokens[i%pageClusters], fmt.Sprint("page-", i), roles...)
		f.agents[i] = &simulated{machine: m, shared: f.shared, dialer: f.shared.dialer.agent()}
		return err
	}); err != nil {
		return fmt.Errorf("register: %w", err)
	}
	if err := b.watchFleet(ctx, f); err != nil {
		return err
	}
	b.say("%d machines of %d clusters: joining", pageMachines, pageClusters)
	if _, err := f.outcomes(ctx); err != nil {
		return fmt.Errorf("the first plans: %w", err)
	}
	f.server.http.CloseIdleConnections()
	return quiet(ctx, f.server.process.PID(), nil)
}

// onlookers are those who look at the page while the clusters do what they do.
type onlookers struct {
	*bench
	*fleet
	name  string
	token string // of a user whose pages are open
	made  int    // how many clusters were added, each a change that everybody sees
}

// login makes an administrator who has chosen a password, as pages are for no other user, and logs them in.
func (s *server) login(ctx context.Context) (token string, err error) {
	const name, password = "onlooker", "a password of some length"
	post := func(path, body string, into any) error {
		answer, err := s.ask(ctx, http.MethodPost, path, "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		return json.Unmarshal(answer, into)
	}
	var made struct {
		ID string `json:"id"`
	}
	var session struct {
		Token string `json:"token"`
	}
	if err := post("/v3/users", fmt.Sprintf(`{"username":%q,"password":%q}`, name, password), &made); err != nil {
		return "", err
	}
	if err := post("/v3/globalRoleBindings", fmt.Sprintf(`{"globalRoleId":"admin","userId":%q}`, made.ID), &struct{}{}); err != nil {
		return "", err
	}
	err = post("/v3-public/localProviders/local?action=login", fmt.Sprintf(`{"username":%q,"password":%q}`, name, password), &session)
	return session.Token, err
}

// counted counts what comes over a connection, TLS and all.
type counted struct {
	net.Conn
	n int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.n += int64(n)
	return n, err
}

var assetsOf = regexp.MustCompile(`(?:src|href)="(/dashboard/assets/[^"]+)"`)

// load loads the page with its style, script and picture by a new connection, as a browser does that has none of it.
func (o *onlookers) load(ctx context.Context) (took time.Duration, size int64, err error) {
	var wire *counted
	transport := &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{RootCAs: o.server.roots, MinVersion: tls.VersionTLS12}}
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := new(net.Dialer).DialContext(ctx, network, address)
		wire = &counted{Conn: conn}
		return wire, err
	}
	defer transport.CloseIdleConnections()
	get := func(path string) ([]byte, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, o.server.url+path, nil)
		if err != nil {
			return nil, err
		}
		for name, value := range map[string]string{"Authorization": "Bearer " + o.token, "Accept": "text/html", "Accept-Encoding": "gzip"} {
			request.Header.Set(name, value)
		}
		response, err := transport.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		defer response.Body.Close()
		packed, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK {
			return nil, errors.Join(fmt.Errorf("load %s: %s", path, response.Status), err)
		}
		return packed, nil
	}
	began := time.Now()
	packed, err := get(allClusters)
	if err != nil {
		return 0, 0, err
	}
	text, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return 0, 0, fmt.Errorf("load the page: %w", err)
	}
	page, err := io.ReadAll(text)
	if err != nil {
		return 0, 0, fmt.Errorf("load the page: %w", err)
	}
	var assets []string
	for _, m := range assetsOf.FindAllSubmatch(page, -1) {
		assets = append(assets, string(m[1]))
	}
	slices.Sort(assets)
	for _, path := range slices.Compact(assets) {
		if _, err := get(path); err != nil {
			return 0, 0, err
		}
	}
	return time.Since(began), wire.n, nil
}

// first measures the first page.
func (o *onlookers) first(ctx context.Context) error {
	o.say("loading the page %d times", pageLoads)
	var took []time.Duration
	var size int64
	for range pageLoads {
		one, n, err := o.load(ctx)
		if err != nil {
			return err
		}
		took, size = append(took, one), n
	}
	o.table.latencies(o.name+"first page, with style and script, by a new connection", took, maxFirstPage)
	o.table.measure(o.name+"the same over the wire", kib(float64(size)), float64(size), fmt.Sprintf("≤ %d KB", maxFirstBytes/1000), maxFirstBytes)
	return nil
}

// alone measures a change on the only page that is open.
func (o *onlookers) alone(ctx context.Context) error {
	all, err := o.open(ctx, []string{allClusters})
	if err != nil {
		return err
	}
	defer all.close()
	return o.changes(ctx, all, "a new cluster is on the only page that is open")
}

// beside measures the memory of many pages, and a change on all of them.
func (o *onlookers) beside(ctx context.Context) error {
	before, _, err := o.server.settled(ctx)
	if err != nil {
		return err
	}
	paths := make([]string, openPages)
	for i := range paths {
		paths[i] = allClusters
	}
	all, err := o.open(ctx, paths)
	if err != nil {
		return err
	}
	defer all.close()
	after, _, err := o.server.settled(ctx)
	if err != nil {
		return err
	}
	each := float64(after.resident-before.resident) / openPages
	o.table.measure(o.name+"server memory for one open page (resident)", kib(each), each, fmt.Sprintf("≤ %d KiB", maxOpenPage>>10), maxOpenPage)
	return o.changes(ctx, all, fmt.Sprintf("the same on each of %d open pages of people with the same rights", openPages))
}

// different measures a change on many pages of which no two show the same: what happens when all people have different rights.
func (o *onlookers) different(ctx context.Context) error {
	paths := make([]string, openPages)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s?different=%d", allClusters, i)
	}
	all, err := o.open(ctx, paths)
	if err != nil {
		return err
	}
	defer all.close()
	if err := quiet(ctx, o.server.process.PID(), nil); err != nil {
		return err
	}
	word, asked, err := o.change(ctx)
	if err != nil {
		return err
	}
	if err := all.await(ctx, asked, 3*time.Minute); err != nil {
		return err
	}
	took, err := all.shown([]string{word}, []time.Time{asked})
	if err != nil {
		return err
	}
	o.table.note(o.name+fmt.Sprintf("the same on %d open pages of which no two show the same", openPages), late(took))
	return nil
}

// changes makes some, one at a time, and measures when each page has it.
func (o *onlookers) changes(ctx context.Context, all *opened, what string) error {
	o.say("%d changes, %d pages open", pageChanges, len(all.pages))
	var words []string
	var asked []time.Time
	for range pageChanges {
		if err := rest(ctx, pageChangeRest); err != nil {
			return err
		}
		word, at, err := o.change(ctx)
		if err != nil {
			return err
		}
		words, asked = append(words, word), append(asked, at)
		if err := all.await(ctx, at, time.Minute); err != nil {
			return err
		}
	}
	took, err := all.shown(words, asked)
	if err != nil {
		return err
	}
	o.shown(what, took)
	return nil
}

// shown adds how long changes took to the screens.
func (o *onlookers) shown(what string, took []time.Duration) {
	text := late(took) // sorts
	value := took[len(took)*95/100]
	o.table.measure(o.name+what, text, float64(value), fmt.Sprintf("≤ %g ms p95", millis(maxShown)), float64(maxShown))
}

// late is the median and the 95th percentile.
func late(took []time.Duration) string {
	slices.Sort(took)
	return fmt.Sprintf("median %s, p95 %s, last %s", inMillis(took[len(took)/2]), inMillis(took[len(took)*95/100]), inMillis(took[len(took)-1]))
}

// change makes a cluster, which stands at the begin of the list. asked is before it was asked for, so that the commit is in
// what is measured from it.
func (o *onlookers) change(ctx context.Context) (word string, asked time.Time, err error) {
	word = fmt.Sprintf("aaa-%03d", o.made)
	o.made++
	asked = time.Now()
	return word, asked, o.server.apply(ctx, strings.Replace(clusterYAML, "name: "+clusterName+"}", "name: "+word+"}", 1))
}

// rollOuts changes a file of all machines, again and again, every other time with pages open: half of them the list, half a
// cluster each.
func (o *onlookers) rollOuts(ctx context.Context) error {
	paths := make([]string, openPages)
	for i := range paths {
		paths[i] = allClusters
		if i%2 == 0 {
			paths[i] += "/fleet-default/" + pageCluster(i/2%pageClusters)
		}
	}
	times := map[bool][]time.Duration{}
	var shown []time.Duration
	for round := range 2 * pageRounds {
		with := round%2 == 1
		var all *opened
		var err error
		if with {
			if all, err = o.open(ctx, paths); err != nil {
				return err
			}
		}
		took, late, err := o.rollOut(ctx, round, all)
		all.close()
		if err != nil {
			return err
		}
		times[with], shown = append(times[with], took), append(shown, late...)
	}
	for _, all := range times {
		slices.Sort(all)
	}
	alone, beside := times[false][pageRounds/2], times[true][pageRounds/2]
	ratio := float64(beside) / float64(alone)
	o.table.note(o.name+fmt.Sprintf("a file of all machines changes, without pages; beside %d, half of them the list, half a cluster each", openPages),
		fmt.Sprintf("%.2f s; %.2f s", alone.Seconds(), beside.Seconds()))
	o.table.measure(o.name+"the same, time beside pages", fmt.Sprintf("%.2f times", ratio), ratio, fmt.Sprintf("≤ %.2f", maxSlower), maxSlower)
	o.shown("a new cluster is on the open lists in the middle of that", shown)
	return nil
}

// rollOut makes one change of all machines, and a new cluster in the middle of it.
func (o *onlookers) rollOut(ctx context.Context, round int, all *opened) (took time.Duration, shown []time.Duration, err error) {
	pid := o.server.process.PID()
	if err := quiet(ctx, pid, nil); err != nil {
		return 0, nil, err
	}
	o.say("changing a file of all machines, pages open: %v", all != nil)
	began := time.Now()
	if err := o.server.apply(ctx, pageObject(fmt.Sprint("round ", round))); err != nil {
		return 0, nil, err
	}
	made := make(chan error, 1)
	var word string
	var asked time.Time
	go func() {
		err := rest(ctx, time.Second)
		if err == nil {
			word, asked, err = o.change(ctx)
		}
		made <- err
	}()
	reported, err := o.outcomes(ctx)
	if err := errors.Join(err, <-made); err != nil {
		return 0, nil, err
	}
	if err := quiet(ctx, pid, nil); err != nil || all == nil {
		return reported.Sub(began), nil, err
	}
	shown, err = all.shown([]string{word}, []time.Time{asked})
	return reported.Sub(began), shown, err
}
