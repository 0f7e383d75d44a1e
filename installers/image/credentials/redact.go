// What others say is shown to people without what could be a credential.

package credentials

import (
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
)

const (
	// maxSaid bounds what is repeated of one text, in bytes.
	maxSaid = 400
	// minSecret is the shortest secret that is looked for; a shorter one is in any text.
	minSecret = 3
)

var (
	// queries of URLs hold signatures when a registry redirects to where its blobs are.
	queries  = regexp.MustCompile(`(https?://[^\s"'?]*)\?[^\s"']*`)
	userInfo = regexp.MustCompile(`(https?://)[^\s"'/@]*@`)
	control  = regexp.MustCompile(`[[:cntrl:]]+`)
)

// Redact makes one line of a text, without credentials and not too long.
func Redact(text string, secrets []string) string {
	longest := slices.SortedFunc(slices.Values(secrets), func(a, b string) int { return len(b) - len(a) })
	for _, secret := range longest {
		if len(secret) >= minSecret {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	text = userInfo.ReplaceAllString(text, "$1")
	text = queries.ReplaceAllString(text, "$1")
	text = plans.SafeLine(strings.TrimSpace(control.ReplaceAllString(text, " ")))
	if len(text) > maxSaid {
		text = strings.ToValidUTF8(text[:maxSaid], "") + "…"
	}
	return text
}
