package signin

import (
	"bytes"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/api/route"
)

// TestFailuresAreForTheLog: what failed inside the server is nothing for the person who tries to log in.
func TestFailuresAreForTheLog(t *testing.T) {
	var log bytes.Buffer
	p := &Pages{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	status, fault := p.loginFault(errors.New("etcd at 192.0.2.7 is away"), &route.Call{W: httptest.NewRecorder()})
	if status != http.StatusInternalServerError || strings.Contains(fault, "192.0.2.7") || !strings.Contains(log.String(), "192.0.2.7") {
		t.Errorf("%d %q, and the log has %q", status, fault, log.String())
	}
}
