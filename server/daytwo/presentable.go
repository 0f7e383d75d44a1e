// What a cluster says of its snapshots is a stranger's word.

package daytwo

import (
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/drover-project/drover/server/records"
)

// maxYear is the last one that a time is stored with.
const maxYear = 9999

// presentable says whether a snapshot has a file whose name can stand in a key, in a command and in a line, and a time that can be
// stored.
func presentable(s records.Snapshot) bool {
	base := path.Base(s.File)
	return base != "." && base != ".." && base != "/" && utf8.ValidString(s.File) &&
		!strings.ContainsFunc(s.File, func(r rune) bool { return !unicode.IsPrint(r) }) && s.Created.Year() >= 0 && s.Created.Year() <= maxYear
}
