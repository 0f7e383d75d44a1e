package certificates

import (
	"fmt"
	"strings"
	"time"

	"github.com/drover-project/drover/server/records"
)

// maxYear is the last year that a time is stored with.
const maxYear = 9999

// report is what an agent answers about the certificates below a data directory.
type report struct {
	Certificates []struct {
		Name string    `json:"name"`
		End  time.Time `json:"end"`
		CA   bool      `json:"ca"`
	} `json:"certificates"`
}

// first is the certificate that ends first; its name is empty when there is none. Authorities live for ten years, and are not renewed
// with the others.
func (r report) first() (first records.CertificateEnd) {
	for _, c := range r.Certificates {
		if end := c.End.UTC(); !c.CA && !end.IsZero() && end.Year() >= 0 && end.Year() <= maxYear && (first.Name == "" || end.Before(first.End)) {
			first = records.CertificateEnd{Name: fmt.Sprintf("%.100s", strings.ToValidUTF8(c.Name, "")), End: end}
		}
	}
	return first
}
