// Charts of how costs grow with the number of machines and clusters.

package main

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// costs are what something took, by a name with its unit.
type costs map[string]float64

// growth is what each number of things took, by the name of a cost.
type growth map[string]plotter.XYs

func (g growth) add(n int, all costs) {
	for name, value := range all {
		g[name] = append(g[name], plotter.XY{X: float64(n), Y: value})
	}
}

// drawCharts writes what was measured of several numbers of machines and clusters.
func (b *bench) drawCharts() error {
	if b.charts == "" {
		return nil
	}
	return errors.Join(
		b.machines.draw(filepath.Join(b.charts, "growth-machines.svg"), "One cluster of so many machines", "machines"),
		b.clusters.draw(filepath.Join(b.charts, "growth-clusters.svg"), "So many clusters of 5 machines", "clusters"))
}

// draw writes a chart with logarithmic axes, on which what grows in proportion rises like the diagonal; nothing where there is nothing.
func (g growth) draw(path, title, of string) error {
	if len(g) == 0 {
		return nil
	}
	p := plot.New()
	p.Title.Text, p.X.Label.Text = title, of
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker, p.Y.Tick.Marker = plot.LogTicks{Prec: -1}, plot.LogTicks{Prec: -1}
	p.Legend.Top, p.Legend.Left, p.Legend.Padding = true, true, vg.Points(2)
	p.Add(plotter.NewGrid())
	var lines []any
	for _, name := range slices.Sorted(maps.Keys(g)) {
		lines = append(lines, name, g[name])
	}
	if err := plotutil.AddLinePoints(p, lines...); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	p.Y.Max *= 30 // room for the legend
	if err := p.Save(22*vg.Centimeter, 13*vg.Centimeter, path); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	return nil
}
