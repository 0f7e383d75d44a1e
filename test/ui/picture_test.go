//go:build e2e

package ui

import (
	"bytes"
	"cmp"
	"context"
	"image"
	"image/color"
	"image/png"
	"os"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
)

// pictureSize bounds the picture of README.md, in bytes.
const pictureSize = 150 << 10

// TestPicture makes the picture of README.md: a cluster with an operation under way and a machine in trouble. It is written
// to the file that DROVER_PICTURE names: docs/page.png, when the page looks different.
func TestPicture(t *testing.T) {
	s, b := serve(t), open(t)
	s.user("admin", true)
	s.fill()
	b.look(1400, false)
	b.logIn(s, "admin", password)
	b.visit(s.at(harbour))
	var shot []byte
	var height float64
	b.do(chromedp.Evaluate(`Math.ceil(document.querySelectorAll(".causes > li")[1].getBoundingClientRect().bottom + scrollY) + 5`, &height), chromedp.ActionFunc(func(ctx context.Context) (err error) {
		shot, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithClip(&page.Viewport{Width: 1400, Height: height, Scale: 1}).Do(ctx)
		return err
	}))
	whole, err := png.Decode(bytes.NewReader(shot))
	must(t, err)
	var small bytes.Buffer
	must(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&small, fewColours(whole)))
	if small.Len() > pictureSize || whole.Bounds().Dx() != 1400 {
		t.Errorf("the picture has %d bytes and is %d wide", small.Len(), whole.Bounds().Dx())
	}
	if file := os.Getenv("DROVER_PICTURE"); file != "" {
		must(t, os.WriteFile(file, small.Bytes(), 0o644))
	}
}

// fewColours is a picture with the colours that it has most of, and the nearest of them for all others.
func fewColours(whole image.Image) *image.Paletted {
	bounds, count := whole.Bounds(), map[color.RGBA]int{}
	at := func(x, y int) color.RGBA {
		c, _ := color.RGBAModel.Convert(whole.At(x, y)).(color.RGBA)
		return c
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	all := make([]color.RGBA, 0, len(count))
	for c := range count {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b color.RGBA) int {
		return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a.R, b.R), cmp.Compare(a.G, b.G), cmp.Compare(a.B, b.B))
	})
	palette := make(color.Palette, 0, 64)
	for _, c := range all[:min(len(all), cap(palette))] {
		palette = append(palette, c)
	}
	small, index := image.NewPaletted(bounds, palette), map[color.RGBA]uint8{}
	for _, c := range all {
		index[c] = uint8(palette.Index(c))
	}
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			small.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	return small
}
