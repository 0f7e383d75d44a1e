package kubectl

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTheGateIsForOneLine: another process of this host that finds it has nothing of it.
func TestTheGateIsForOneLine(t *testing.T) {
	reached := 0
	asked := httptest.NewRequest("POST", "/", nil)
	asked.Header.Set("Authorization", "Bearer of-the-person")
	handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		reached++
		if got := r.Header.Get("Authorization"); got != "Bearer of-the-person" || r.URL.EscapedPath() != "/k8s/clusters/c-1/a%2Fb" {
			t.Errorf("%s, %q", r.URL, got)
		}
	})
	g, err := open(t.Context(), handler, Line{Cluster: "c-1", Asked: asked})
	if err != nil {
		t.Fatal(err)
	}
	other, err := open(t.Context(), handler, Line{Cluster: "c-2", Asked: asked})
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	ask := func(authorization string) (int, string) {
		r, err := http.NewRequestWithContext(t.Context(), "GET", g.address()+"/a%2Fb", nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return answer.StatusCode, string(text)
	}
	for _, given := range []string{"", "Bearer ", "Bearer x", "Basic " + g.secret, "Bearer of-the-person", "Bearer " + other.secret} {
		if status, text := ask(given); status != http.StatusUnauthorized || !strings.Contains(text, "one command") || strings.Contains(text, g.secret) {
			t.Errorf("%q: %d: %s", given, status, text)
		}
	}
	if status, _ := ask("Bearer " + g.secret); status != http.StatusOK || reached != 1 {
		t.Errorf("the line itself: %d, reached %d times", status, reached)
	}
	if host, _, _ := net.SplitHostPort(g.listener.Addr().String()); host != "127.0.0.1" {
		t.Errorf("it listens at %s", host)
	}
	g.close()
	if c, err := net.Dial("tcp", g.listener.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("it is there after its line")
	}
}
