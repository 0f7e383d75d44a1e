// Pages that are open in browsers while a roll-out runs: how much slower it is by them.

package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	openPages = 500
	// pageRounds is how often the same change is made without pages, and with them, in turns.
	pageRounds = 4
	maxSlower  = 1.05
)

// besidePages changes a file of all machines, again and again, every other time with pages open that show the cluster.
func (b *bench) besidePages(ctx context.Context, f *fleet) error {
	var alone, beside []time.Duration
	for round := range 2 * pageRounds {
		with := round%2 == 1
		took, err := b.changeBeside(ctx, f, round, with)
		if err != nil {
			return err
		}
		if with {
			beside = append(beside, took)
		} else {
			alone = append(alone, took)
		}
	}
	slices.Sort(alone)
	slices.Sort(beside)
	middle := func(all []time.Duration) time.Duration { return (all[len(all)/2-1] + all[len(all)/2]) / 2 }
	ratio := float64(middle(beside)) / float64(middle(alone))
	name := fmt.Sprintf("the same change beside %d open pages of that cluster and of all: ", openPages)
	b.table.note(name+"without pages; with them", fmt.Sprintf("%.2f s; %.2f s", middle(alone).Seconds(), middle(beside).Seconds()))
	b.table.measure(name+"time", fmt.Sprintf("%.2f times", ratio), ratio, fmt.Sprintf("≤ %.2f", maxSlower), maxSlower)
	return nil
}

// changeBeside makes one change and says how long it took until all agents had reported.
func (b *bench) changeBeside(ctx context.Context, f *fleet, round int, with bool) (time.Duration, error) {
	if with {
		shut, err := f.server.openPages(ctx)
		if err != nil {
			return 0, err
		}
		defer shut()
	}
	if err := quiet(ctx, f.server.process.PID(), nil); err != nil {
		return 0, err
	}
	b.say("%d machines: changing a file, pages open: %v", changeAgents, with)
	began := time.Now()
	if err := f.server.apply(ctx, fmt.Sprintf(changeObject, fmt.Sprint("round ", round))); err != nil {
		return 0, err
	}
	reported, err := f.outcomes(ctx)
	if err != nil {
		return 0, err
	}
	return reported.Sub(began), quiet(ctx, f.server.process.PID(), nil)
}

// openPages opens pages as browsers do, and reads what comes. Each has a connection of its own.
func (s *server) openPages(ctx context.Context) (shut func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	shut = func() { cancel(); reading.Wait() }
	for i := range openPages {
		path := "/dashboard/clusters"
		if i%2 == 0 {
			path += "/fleet-default/" + clusterName
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
		if err != nil {
			shut()
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+s.admin)
		request.Header.Set("Accept", "text/event-stream")
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots, MinVersion: tls.VersionTLS12}}}
		response, err := client.Do(request)
		if err != nil {
			shut()
			return nil, fmt.Errorf("open page %d: %w", i, err)
		}
		lines := bufio.NewReader(response.Body)
		if line, err := lines.ReadString('\n'); err != nil || !strings.HasPrefix(line, "event: hello") {
			response.Body.Close()
			shut()
			return nil, fmt.Errorf("open page %d: %s: %q: %w", i, response.Status, line, err)
		}
		reading.Go(func() {
			defer response.Body.Close()
			_, _ = io.Copy(io.Discard, lines) // until it is shut
		})
	}
	return shut, nil
}
