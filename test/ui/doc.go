// Package ui drives a real browser, Debian's Chromium, over the page of a server: first start, logins, all pages that links
// and forms lead to in both colours and two widths, what axe-core says of them, what people do on them with scripts and
// without, changes that appear without a reload, and a server that was killed and is back. No page may bring about a dialog, an
// error of a script, or something that the policy of its content refuses. Its tests carry the build tag e2e; `make e2e` runs
// them. Pictures of all pages are in the directory that DROVER_SHOTS names, or in a temporary one. `make e2e-full` has the
// whole way too, from the first start to a restored snapshot, over a real server process, a real host and the real k3s.
package ui
