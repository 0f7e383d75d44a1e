//go:build e2e

package ui

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a Chromium with nothing in it yet.
type browser struct {
	t   *testing.T
	ctx context.Context
	// shots is where pictures go.
	shots string

	mu sync.Mutex
	// faults are what no page may bring about: dialogs, errors of scripts, and what the policy of content refused.
	faults []string
}

func open(t *testing.T) *browser {
	t.Helper()
	process, end := chromedp.NewRemoteAllocator(t.Context(), startChromium(t, "--headless", "--no-sandbox", "--no-first-run", "--window-size=1280,1000", "--hide-scrollbars",
		"--mute-audio", "--force-color-profile=srgb", "--ignore-certificate-errors", "--disable-background-networking", "--disable-dev-shm-usage",
		"--disable-sync", "--disable-extensions", "--password-store=basic", "--disable-popup-blocking"), chromedp.NoModifyURL)
	t.Cleanup(end)
	ctx, end := chromedp.NewContext(process)
	t.Cleanup(end)
	b := &browser{t: t, ctx: ctx, shots: os.Getenv("DROVER_SHOTS")}
	if b.shots == "" {
		b.shots = t.TempDir()
	}
	must(t, os.MkdirAll(b.shots, 0o755))
	must(t, chromedp.Run(ctx)) // starts it, without a limit that would end it
	chromedp.ListenTarget(ctx, b.watch)
	t.Cleanup(func() {
		for _, fault := range b.noticed() {
			t.Error(fault)
		}
	})
	return b
}

// watch notes faults.
func (b *browser) watch(event any) {
	note := func(format string, args ...any) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.faults = append(b.faults, fmt.Sprintf(format, args...))
	}
	switch e := event.(type) {
	case *page.EventJavascriptDialogOpening:
		note("a dialog at %s: %s", e.URL, e.Message)
		go func() { _ = chromedp.Run(b.ctx, page.HandleJavaScriptDialog(false)) }() // the page may be gone
	case *runtime.EventExceptionThrown:
		note("a script failed: %s", e.ExceptionDetails.Error())
	case *log.EventEntryAdded:
		// What a server refuses is there, too, and is what tests ask for.
		if e.Entry.Level == log.LevelError && e.Entry.Source != log.SourceNetwork {
			note("the browser says of %s: %s", e.Entry.URL, e.Entry.Text)
		}
	}
}

// noticed are the faults until now, which are forgotten.
func (b *browser) noticed() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	found := b.faults
	b.faults = nil
	return found
}

// navigate goes to an address. Chromium gives a page up when the machine gets or loses a network, as it does when other tests make
// hosts: it is asked again then.
func navigate(url string) chromedp.Action {
	return chromedp.ActionFunc(func(ctx context.Context) error {
		err := chromedp.Navigate(url).Do(ctx)
		for range 5 {
			if err == nil || !strings.Contains(err.Error(), "ERR_NETWORK_CHANGED") {
				break
			}
			err = chromedp.Navigate(url).Do(ctx)
		}
		return err
	})
}

// visit opens a page and waits for its heading.
func (b *browser) visit(url string) {
	b.t.Helper()
	b.do(navigate(url), chromedp.WaitVisible("h1", chromedp.ByQuery))
}

// press clicks on a link or a button of the content by its text.
func (b *browser) press(text string) {
	b.t.Helper()
	b.do(chromedp.Click(`//main//*[self::a or self::button][normalize-space()=`+quote(text)+`]`, chromedp.BySearch))
}

// clickUntil clicks until something is true in the page: a page that is drawn anew between the look for the place and the click moves what
// was to be clicked away from there, as it does under a person's hand. It is for what can be clicked twice.
func (b *browser) clickUntil(selector, condition string) {
	b.t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		b.do(chromedp.Click(selector))
		for soon := time.Now().Add(3 * time.Second); time.Now().Before(soon); time.Sleep(30 * time.Millisecond) {
			if b.is(condition) {
				return
			}
		}
		if time.Now().After(end) {
			b.t.Fatalf("%s is not true a minute after the first click on %s:\n%s", condition, selector, b.text())
		}
	}
}

// send presses a button and waits for the page that comes.
func (b *browser) send(text string) {
	b.t.Helper()
	b.leave(func() { b.press(text) })
}

// submit sends the form that does something.
func (b *browser) submit() {
	b.t.Helper()
	b.leave(func() { b.do(chromedp.Click("form[data-once] button.main")) })
}

// leave does something that leads to another page, and waits for that.
func (b *browser) leave(act func()) {
	b.t.Helper()
	b.do(chromedp.Evaluate(`window.before = true`, nil))
	act()
	b.until(`!window.before && document.readyState === "complete"`)
}

// write puts a text into the editor as a person who types it does.
func (b *browser) write(text string) {
	b.t.Helper()
	b.do(chromedp.SetValue("#text", text), chromedp.Evaluate(`document.getElementById("text").dispatchEvent(new Event("input", {bubbles: true}))`, nil))
}

// is says whether something is true in the page now.
func (b *browser) is(condition string) bool {
	var is bool
	return chromedp.Run(b.ctx, chromedp.Evaluate("!!("+condition+")", &is)) == nil && is
}

// text is the content of the page.
func (b *browser) text() string {
	b.t.Helper()
	var text string
	b.do(chromedp.Text("main", &text, chromedp.ByQuery))
	return text
}

func shows(text string) string {
	return "document.body && document.body.innerText.includes(" + quote(text) + ")"
}

func quote(text string) string { return strconv.Quote(text) }

// do is steps that have a minute.
func (b *browser) do(steps ...chromedp.Action) {
	b.t.Helper()
	ctx, end := context.WithTimeout(b.ctx, time.Minute)
	defer end()
	for i, step := range steps {
		if err := chromedp.Run(ctx, step); err != nil {
			var where, text string
			_ = chromedp.Run(b.ctx, chromedp.Location(&where), chromedp.Text("body", &text, chromedp.ByQuery))
			b.t.Fatalf("step %d of %d, %T: %v, at %s:\n%s", i+1, len(steps), step, err, where, text)
		}
	}
}

// see waits for a text in the page, wherever that leads meanwhile, without loading anything.
func (b *browser) see(text string) {
	b.t.Helper()
	b.until(shows(text))
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
			_ = chromedp.Run(b.ctx, chromedp.Text("body", &text, chromedp.ByQuery))
			b.t.Fatalf("%s is not true after a minute:\n%s", condition, text)
		case <-tick.C:
		}
	}
}

func (b *browser) logIn(s *served, name, password string) {
	b.t.Helper()
	b.do(
		navigate("https://"+s.address+"/dashboard/login"), chromedp.WaitVisible("[name=password]"), chromedp.SetValue("[name=username]", name), chromedp.SendKeys("[name=password]", password),
		chromedp.Click("button.main"), chromedp.WaitVisible("header nav", chromedp.ByQuery),
	)
}

// look has the page drawn in a width and a colour.
func (b *browser) look(width int64, dark bool) (colour string) {
	b.t.Helper()
	colour = map[bool]string{false: "light", true: "dark"}[dark]
	b.do(chromedp.EmulateViewport(width, 900), emulation.SetEmulatedMedia().WithFeatures([]*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: colour}}))
	return colour
}

// shot has a picture of the page in a width and a colour.
func (b *browser) shot(name string, width int64, dark bool) {
	b.t.Helper()
	colour := b.look(width, dark)
	var picture []byte
	b.do(chromedp.ActionFunc(func(ctx context.Context) error {
		_, _, _, _, _, size, err := page.GetLayoutMetrics().Do(ctx)
		if err != nil {
			return err
		}
		whole := &page.Viewport{Width: size.Width, Height: size.Height, Scale: 1}
		picture, err = page.CaptureScreenshot().WithCaptureBeyondViewport(true).WithOptimizeForSpeed(true).WithClip(whole).Do(ctx)
		return err
	}))
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
