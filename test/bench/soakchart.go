// What servers hold over the hours of a soak, as figures and as a chart.

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// Figures of /metrics.
const (
	leads       = `drover_worker_running{worker="clusters"}`
	residentNow = "process_resident_memory_bytes"
	goroutines  = "go_goroutines"
	descriptors = "process_open_fds"
)

// figures are the numbers of a server's /metrics by their names with labels. A server that hangs has none.
func (s *server) figures(ctx context.Context) (map[string]float64, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	text, err := s.ask(ctx, http.MethodGet, "/metrics", "", nil)
	if err != nil {
		return nil, err
	}
	all := map[string]float64{}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok {
			if n, err := strconv.ParseFloat(value, 64); err == nil {
				all[name] = n
			}
		}
	}
	if all[residentNow] == 0 {
		return nil, errors.New("/metrics does not show the server's memory")
	}
	return all, nil
}

// history is what was seen, by panel and line of the chart; times are in hours.
type history struct {
	mu     sync.Mutex
	began  time.Time
	panels [soakPanels]map[string]plotter.XYs
	missed int // looks at a server that did not answer
}

// Panels of the chart, from the top.
const (
	panelMemory = iota
	panelGoroutines
	panelDescriptors
	panelStore
	panelAnswer
	panelRollOut
	soakPanels
)

var panelTitles = [soakPanels]string{"resident memory, MiB", "goroutines", "descriptors", "store, MiB", "a list of clusters, ms", "roll-out to all, s"}

func (h *history) add(panel int, line string, value float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.began.IsZero() {
		h.began = time.Now()
	}
	if h.panels[panel] == nil {
		h.panels[panel] = map[string]plotter.XYs{}
	}
	h.panels[panel][line] = append(h.panels[panel][line], plotter.XY{X: time.Since(h.began).Hours(), Y: value})
}

func (h *history) miss() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.missed++
}

// look takes the figures until ctx ends.
func (s *soak) look(ctx context.Context) {
	for rest(ctx, soakLook) == nil {
		both := map[string]float64{}
		answered := 0
		for i, one := range s.servers {
			figures, err := one.figures(ctx)
			if err != nil {
				s.history.miss()
				continue
			}
			line := fmt.Sprint("server ", i+1)
			s.history.add(panelMemory, line, figures[residentNow]/(1<<20))
			s.history.add(panelGoroutines, line, figures[goroutines])
			s.history.add(panelDescriptors, line, figures[descriptors])
			for name, value := range figures {
				both[name] += value
			}
			answered++
			began := time.Now()
			if _, err := one.ask(ctx, http.MethodGet, "/v1-drover/clusters", "", nil); err == nil {
				s.history.add(panelAnswer, line, millis(time.Since(began)))
			}
		}
		if answered == len(s.servers) { // agents change between servers, so that each of them has more at times
			s.history.add(panelGoroutines, "both", both[goroutines])
			s.history.add(panelDescriptors, "both", both[descriptors])
		}
		if status, err := s.store.Status(ctx, s.etcd); err == nil {
			s.history.add(panelStore, "file", mib(status.DbSize))
			s.history.add(panelStore, "in use", mib(status.DbSizeInUse))
		}
	}
}

// report compares the second quarter of the run, when all is warm, with the last one, and draws the chart.
func (s *soak) report() error {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	name := fmt.Sprintf("soak of %.1f h, %d agents on two servers: ", s.hours, len(s.has))
	s.table.note(name+"roll-outs; connections made anew; leaders that hung; copies of the store; looks without an answer",
		fmt.Sprintf("%d; %d; %d; %d; %d", s.round.Load()-1, s.again.Load(), s.leaders, s.copies, s.history.missed))
	for panel, title := range panelTitles {
		for _, line := range lines(s.history.panels[panel]) {
			all := s.history.panels[panel][line]
			early, late := median(all[len(all)/4:len(all)/2]), median(all[len(all)*3/4:])
			s.table.note(name+title+", "+line+": median of the second and of the last quarter; highest", fmt.Sprintf("%.1f, %.1f (%+.1f %%); %.1f",
				early, late, 100*(late/early-1), highest(all)))
		}
	}
	if s.charts == "" {
		return nil
	}
	return s.history.draw(filepath.Join(s.charts, "soak.svg"), fmt.Sprintf("%d agents on two servers that share an etcd", len(s.has)))
}

func lines(panel map[string]plotter.XYs) []string {
	var all []string
	for line := range panel {
		all = append(all, line)
	}
	slices.Sort(all)
	return all
}

func median(all plotter.XYs) float64 {
	var values []float64
	for _, one := range all {
		values = append(values, one.Y)
	}
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

func highest(all plotter.XYs) (most float64) {
	for _, one := range all {
		most = max(most, one.Y)
	}
	return most
}

// draw draws the panels below each other over one axis of time.
func (h *history) draw(path, title string) (err error) {
	const width, height = 22 * vg.Centimeter, 34 * vg.Centimeter
	plots := make([][]*plot.Plot, soakPanels)
	for panel, what := range panelTitles {
		p := plot.New()
		p.Title.Text = what
		if panel == 0 {
			p.Title.Text = title + ": " + what
		}
		if panel == soakPanels-1 {
			p.X.Label.Text = "hours"
		}
		p.Legend.Top, p.Legend.Left, p.Legend.Padding = false, true, vg.Points(2)
		p.Add(plotter.NewGrid())
		for i, line := range lines(h.panels[panel]) {
			drawn, err := plotter.NewLine(h.panels[panel][line])
			if err != nil {
				return fmt.Errorf("draw %s of %s: %w", what, line, err)
			}
			drawn.Color = plotutil.Color(i)
			p.Add(drawn)
			p.Legend.Add(line, drawn)
		}
		p.X.Min, p.Y.Min = 0, 0
		plots[panel] = []*plot.Plot{p}
	}
	canvas := vgsvg.New(width, height)
	tiles := draw.Tiles{Rows: soakPanels, Cols: 1, PadY: vg.Millimeter * 4, PadTop: vg.Millimeter * 2, PadBottom: vg.Millimeter * 2, PadRight: vg.Millimeter * 3}
	for panel, row := range plot.Align(plots, tiles, draw.New(canvas)) {
		plots[panel][0].Draw(row[0])
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	_, err = canvas.WriteTo(file)
	return err
}
