package onhost_test

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/rke1/onhost"
)

// FuzzDocker holds, for whatever a host's Docker engine answers, that its questions end, and with an answer or a reason.
func FuzzDocker(f *testing.F) {
	f.Add(`{"ID":"a","ServerVersion":"20.10.24","SystemTime":"2026-01-02T03:04:05Z"}`, `[{"Id":"c1","Names":["/kubelet"],"State":"running","Labels":{"a":"b"}}]`,
		`{"Id":"c1","Name":"/kubelet","Config":{"Image":"a"},"HostConfig":{},"State":{"Running":true}}`, "\x01\x00\x00\x00\x00\x00\x00\x02hi", "20010")
	f.Add(`{"SystemTime":"9999-12-31T23:59:59-23:59"}`, `[{"Id":"","Names":null},{"Names":[]},null]`, `null`, "\x03\xff\xff\xff\xff\xff\xff\xff", "00000")
	f.Add(`[]`, `{"message":"no"}`, `{"Config":null,"State":null,"Mounts":[{}]}`, "", "55555")
	f.Fuzz(func(t *testing.T, info, list, inspected, logs, statuses string) {
		statuses += "00000"
		status := func(i int) string {
			return fmt.Sprintf("%d Said", []int{200, 204, 301, 404, 409, 500, 101, 206, 304, 418}[statuses[i]%10])
		}
		dial := func(context.Context, string, string) (net.Conn, error) {
			here, there := net.Pipe()
			go func() {
				defer there.Close()
				for from := bufio.NewReader(there); ; {
					r, err := http.ReadRequest(from)
					if err != nil {
						return
					}
					n, body := 4, inspected
					switch path := r.URL.Path; {
					case strings.HasSuffix(path, "/_ping"):
						n, body = 0, "OK"
					case strings.HasSuffix(path, "/info"):
						n, body = 1, info
					case strings.HasSuffix(path, "/containers/json"):
						n, body = 2, list
					case strings.HasSuffix(path, "/logs"):
						n, body = 3, logs
					}
					if r.Method == http.MethodHead {
						body = ""
					}
					if _, err := fmt.Fprintf(there, "HTTP/1.1 %s\r\nApi-Version: 1.41\r\nContent-Type: application/json\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", status(n), len(body), body); err != nil {
						return
					}
				}
			}()
			return here, nil
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		host, err := onhost.Open(ctx, "192.0.2.1", "", dial, time.Now, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		defer host.Close()
		_, _, _ = host.Engine().Survey(ctx, &nodeconfig.NodeConfig{Processes: map[string]nodeconfig.Process{"kubelet": {}}}, []string{"rancher/hyperkube:v1"})
		if lines, err := host.Logs(ctx, "kubelet", 3); err == nil && len(lines) > 3 {
			t.Errorf("%d lines", len(lines))
		}
		if ctx.Err() != nil {
			t.Error("the questions did not end")
		}
	})
}
