// Reading what requests have in them.

package native

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/drover-project/drover/server/api/norman"
	"github.com/drover-project/drover/server/api/route"
)

// maxAsked is the largest body of a request that asks for something, in bytes.
const maxAsked = 64 << 10

// readAsked reads a JSON body whose fields are all known. Form says what it is.
func readAsked(c *route.Call, into any, form string) error {
	return readBody(c, maxAsked, into, form, false)
}

// readBody reads a JSON body of at most so many bytes, whose fields are all known.
func readBody(c *route.Call, limit int64, into any, form string, mayBeEmpty bool) error {
	text, err := norman.ReadBody(c.W, c.R, limit)
	if err != nil || mayBeEmpty && len(bytes.TrimSpace(text)) == 0 {
		return err
	}
	if err := decode(text, into); err != nil {
		return norman.Errorf(http.StatusUnprocessableEntity, norman.InvalidBodyContent, "the body is not %s: %.200s", form, err.Error()) // which repeats the names of fields
	}
	return nil
}

// decode reads one JSON value whose fields are all known, and nothing after it.
func decode(text []byte, into any) error {
	read := json.NewDecoder(bytes.NewReader(text))
	read.DisallowUnknownFields()
	if err := read.Decode(into); err != nil {
		return err
	}
	if _, err := read.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows after the end of the value")
	}
	return nil
}
