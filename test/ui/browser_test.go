//go:build e2e

package ui

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// browser is a Chromium with nothing in it yet.
type browser struct {
	t   *testing.T
	ctx context.Context
	// shots is where pictures go.
	shots string
}

func open(t *testing.T) *browser {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("/usr/bin/chromium"), chromedp.NoSandbox,
		chromedp.Flag("ignore-certificate-errors", true), chromedp.Flag("disable-background-networking", true), chromedp.UserDataDir(profile(t)))
	process, end := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(process)
	t.Cleanup(end)
	b := &browser{t: t, ctx: ctx, shots: os.Getenv("DROVER_SHOTS")}
	if b.shots == "" {
		b.shots = t.TempDir()
	}
	must(t, os.MkdirAll(b.shots, 0o755))
	must(t, chromedp.Run(ctx)) // starts it, without a limit that would end it
	return b
}

// do is steps that have a minute.
func (b *browser) do(steps ...chromedp.Action) {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, time.Minute)
	defer end()
	if err := chromedp.Run(ctx, steps...); err != nil {
		var where, text string
		_ = chromedp.Run(b.ctx, chromedp.Location(&where), chromedp.Text("body", &text))
		b.t.Fatalf("%v, at %s:\n%s", err, where, text)
	}
}

// see waits for a text in the page, wherever that leads meanwhile, without loading anything.
func (b *browser) see(text string) {
	b.t.Helper()
	b.until(`document.body && document.body.innerText.includes(` + quote(text) + `)`)
}

// until waits for something to be true in the page.
func (b *browser) until(condition string) {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, time.Minute)
	defer end()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		var is bool
		// An error is a page that is just left.
		if err := chromedp.Run(ctx, chromedp.Evaluate("!!("+condition+")", &is)); err == nil && is {
			return
		}
		select {
		case <-ctx.Done():
			var text string
			_ = chromedp.Run(b.ctx, chromedp.Text("body", &text))
			b.t.Fatalf("%s is not true after a minute:\n%s", condition, text)
		case <-tick.C:
		}
	}
}

func (b *browser) logIn(s *served, name, password string) {
	b.t.Helper()
	b.do(
		chromedp.Navigate("https://"+s.address+"/"), chromedp.SetValue("[name=username]", name), chromedp.SendKeys("[name=password]", password),
		chromedp.Click("button.main"), chromedp.WaitVisible("header nav"),
	)
}

// shot has a picture of the page in a width and a colour.
func (b *browser) shot(name string, width int64, dark bool) {
	b.t.Helper()
	colour := map[bool]string{false: "light", true: "dark"}[dark]
	var picture []byte
	b.do(
		chromedp.EmulateViewport(width, 900),
		emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colour}}),
		chromedp.FullScreenshot(&picture, 100),
	)
	file := name + "-" + colour + map[bool]string{true: "-phone", false: "-wall"}[width < 600] + ".png"
	must(b.t, os.WriteFile(filepath.Join(b.shots, file), picture, 0o644))
}

// axeVersion is what pages are checked by, and axeSum its checksum: it is not ours, so it comes by npm and is not kept here.
const (
	axeVersion = "axe-core@4.10.3"
	axeSum     = "880970c081707360e64f34cea25ff91892f5bc95675b0776925b9709dd8a68bb"
)

// profile is a directory for a browser, whose processes write there for a moment longer than the first of them lives.
func profile(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "profile-*")
	must(t, err)
	t.Cleanup(func() {
		for try := 0; ; try++ {
			err := os.RemoveAll(dir)
			if err == nil {
				return
			}
			if try == 100 {
				t.Error(err)
				return
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
	return dir
}

func axe(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, step := range [][]string{{"npm", "pack", "--silent", axeVersion}, {"sh", "-c", "tar xzf axe-core-*.tgz"}} {
		cmd := exec.CommandContext(t.Context(), step[0], step[1:]...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v: %s", step, err, out)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "package", "axe.min.js"))
	must(t, err)
	if sum := sha256.Sum256(text); hex.EncodeToString(sum[:]) != axeSum {
		t.Fatalf("%s is another file than the one that was looked at", axeVersion)
	}
	return string(text)
}

// noScripts switches the scripts of pages off.
func noScripts(ctx context.Context) error {
	return emulation.SetScriptExecutionDisabled(true).Do(ctx)
}
