// Package liar plays hosts and clusters that answer the server's questions with lies. The programs lyinghost and
// lyingcluster run it; test/abuse starts them against a real server.
package liar

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A Lie is a way to answer any question. It writes until the other end has gone or the context of the request ends.
type Lie struct {
	Name string
	// Credible says that an API server may answer so, of a cluster without anything in it or with names of its owner's choice.
	Credible bool
	answer   func(l *lying, w http.ResponseWriter, r *http.Request)
}

// Lies are those that are answered to every question alike.
var Lies = []Lie{
	{"endless list", false, func(_ *lying, w http.ResponseWriter, r *http.Request) {
		stream(w, r, `{"kind":"NodeList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`, func(i int) string { return node(fmt.Sprintf("n-%d", i), filler) + "," })
	}},
	{"endless pages", false, func(_ *lying, w http.ResponseWriter, r *http.Request) {
		page := fmt.Sprint(time.Now().UnixNano())
		items := make([]string, 50)
		for i := range items {
			items[i] = node(fmt.Sprintf("n-%s-%d", page, i), filler)
		}
		said("application/json", `{"kind":"NodeList","apiVersion":"v1","gitVersion":"v1.34.4","metadata":{"resourceVersion":"1","continue":"`+page+`"},"items":[`+strings.Join(items, ",")+"]}")(nil, w, r)
	}},
	{"endless text", false, func(_ *lying, w http.ResponseWriter, r *http.Request) {
		stream(w, r, `{"kind":"Status","apiVersion":"v1","gitVersion":"v1.34.4","message":"`, func(int) string { return filler })
	}},
	{"endless events", false, func(_ *lying, w http.ResponseWriter, r *http.Request) {
		stream(w, r, "", func(i int) string { return `{"type":"ADDED","object":` + node(fmt.Sprintf("n-%d", i), filler) + "}\n" })
	}},
	{"endless lines", false, func(_ *lying, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		stream(w, r, "", func(i int) string { return fmt.Sprintf("%d %s\n", i, filler) })
	}},
	{"endless error", false, func(_ *lying, w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		stream(w, r, `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"`, func(int) string { return filler })
	}},
	{"a bomb of gzip", false, func(_ *lying, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(bomb())
	}},
	{"endless headers", false, func(_ *lying, w http.ResponseWriter, r *http.Request) {
		raw(w, r, "HTTP/1.1 200 OK\r\n", "X-A: "+filler+"\r\n")
	}},
	{"endless early hints", false, func(_ *lying, w http.ResponseWriter, r *http.Request) {
		raw(w, r, "", "HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n")
	}},
	{"no HTTP", false, func(_ *lying, w http.ResponseWriter, r *http.Request) { raw(w, r, "", "\x00\xff\x1b[31m"+filler) }},
	{"slow bytes", false, func(_ *lying, w http.ResponseWriter, r *http.Request) { slow(w, r) }},
	{"silence", false, func(_ *lying, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }},
	{"redirect over HTTP", false, func(l *lying, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+l.Trap+"/over-http", http.StatusTemporaryRedirect)
	}},
	{"redirect over HTTPS", false, func(l *lying, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "https://"+l.Trap+"/over-https", http.StatusFound)
	}},
	{"redirect to itself", false, func(_ *lying, w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, r.URL.String(), http.StatusTemporaryRedirect)
	}},
	{"a page", false, said("text/html", "<html><script>alert(1)</script></html>")},
	{"another kind", true, said("application/json", `{"kind":"Secret","apiVersion":"v1","metadata":{"name":"x"},"data":{"a":"Yg=="}}`)},
	{"a list for an object", false, said("application/json", `[[],{},null,1e999]`)},
	{"numbers for text", false, said("application/json", `{"kind":7,"apiVersion":{},"gitVersion":[1],"metadata":{"name":7,"resourceVersion":-1},"items":"none"}`)},
	{"null", true, said("application/json", "null")},
	{"nothing", false, said("application/json", "")},
	{"a body that is cut", false, func(_ *lying, w http.ResponseWriter, r *http.Request) {
		cut(w, r, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 999999999999\r\n\r\n{\"kind\":")
	}},
	{"depth", false, said("application/json", `{"kind":"NodeList","apiVersion":"v1","items":`+strings.Repeat("[", 200_000)+strings.Repeat("]", 200_000)+"}")},
	{"protobuf", false, said("application/vnd.kubernetes.protobuf", "k8s\x00\x0a\xff\xff\xff\xff\x0f\xff\xff\xff\x7f")},
	{"hostile names", true, func(_ *lying, w http.ResponseWriter, r *http.Request) { hostile(w, r) }},
}

// Find is a lie of Lies by its name.
func Find(name string) (Lie, error) {
	for _, l := range Lies {
		if l.Name == name {
			return l, nil
		}
	}
	return Lie{}, fmt.Errorf("there is no lie %q", name)
}

// filler is 16 KiB of letters.
var filler = strings.Repeat("abcdefghijklmnop", 1<<10)

// node is a node of a cluster with an annotation.
func node(name, annotation string) string {
	return fmt.Sprintf(`{"kind":"Node","apiVersion":"v1","metadata":{"name":%q,"uid":%q,"resourceVersion":"1","annotations":{"a":%q}}}`, name, name, annotation)
}

// perSecond bounds what one answer writes, in bytes: what is measured is the server, not who is quicker.
const perSecond = 48 << 20

// stream writes a beginning and then parts without end.
func stream(w http.ResponseWriter, r *http.Request, begin string, part func(i int) string) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	if _, err := io.WriteString(w, begin); err != nil {
		return
	}
	p := pace{began: time.Now()}
	for i := 0; ; i++ {
		n, err := io.WriteString(w, part(i))
		if err != nil || p.wrote(r.Context(), n) != nil {
			return
		}
	}
}

// pace holds a stream to perSecond.
type pace struct {
	began time.Time
	total int64
}

func (p *pace) wrote(ctx context.Context, n int) error {
	p.total += int64(n)
	ahead := time.Duration(p.total)*time.Second/perSecond - time.Since(p.began)
	if ahead < 10*time.Millisecond {
		return ctx.Err()
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(ahead):
		return nil
	}
}

// raw takes the connection and repeats a text on it.
func raw(w http.ResponseWriter, r *http.Request, begin, again string) {
	c, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := io.WriteString(c, begin); err != nil {
		return
	}
	p := pace{began: time.Now()}
	for {
		n, err := io.WriteString(c, again)
		if err != nil || p.wrote(r.Context(), n) != nil {
			return
		}
	}
}

// cut writes a text and closes the connection.
func cut(w http.ResponseWriter, _ *http.Request, text string) {
	if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
		_, _ = io.WriteString(c, text)
		c.Close()
	}
}

// slow writes a byte a second.
func slow(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(w, " "); err != nil || http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

func said(contentType, body string) func(*lying, http.ResponseWriter, *http.Request) {
	return func(_ *lying, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

// bomb is 2 GiB of spaces in 2 MiB of gzip.
var bomb = sync.OnceValue(func() []byte {
	var packed bytes.Buffer
	z, _ := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	spaces := bytes.Repeat([]byte(" "), 1<<20)
	for range 2 << 10 {
		_, _ = z.Write(spaces)
	}
	_ = z.Close()
	return packed.Bytes()
})

// Hostile are texts that names, labels and messages are made of.
var Hostile = []string{
	"\x1b[2J\x1b]0;owned\x07", "\u009b31m", "\u202egpj.exe", "a\r\nHTTP/1.1 200 OK", "../../../../etc/passwd", "<script>alert(1)</script>",
	"';drop table nodes;--", "$(touch /tmp/owned)", "%s%n%x", "\u2028\u2029\ufeff", "-rf",
}

// hostile answers as asked, with hostile texts wherever there may be one.
func hostile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	all := []any{map[string]any{"kind": "Node", "apiVersion": "v1", "metadata": map[string]any{"name": strings.Repeat("n", 1<<20)}}}
	for i, text := range Hostile {
		all = append(all, map[string]any{
			"kind": "Node", "apiVersion": "v1",
			"metadata": map[string]any{"name": text, "namespace": text, "uid": text, "resourceVersion": "1", "labels": map[string]string{text: text}, "annotations": map[string]string{text: text}},
			"spec":     map[string]any{"providerID": text, "nodeName": text, "taints": []any{map[string]any{"key": text, "value": text, "effect": text}}},
			"status": map[string]any{
				"nodeInfo":   map[string]any{"kubeletVersion": text, "operatingSystem": text},
				"addresses":  []any{map[string]any{"type": "InternalIP", "address": text}, map[string]any{"type": "Hostname", "address": text}},
				"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": text, "message": text}},
				"capacity":   map[string]any{"cpu": "1e18", "memory": "-1"},
			},
			"gitVersion": text, "message": text, "items": []any{}, "number": i,
		})
	}
	if r.URL.Query().Get("watch") != "" {
		for _, one := range all {
			writeJSON(w, map[string]any{"type": "ADDED", "object": one})
		}
		<-r.Context().Done()
		return
	}
	writeJSON(w, map[string]any{
		"kind": "NodeList", "apiVersion": "v1", "metadata": map[string]any{"name": Hostile[0], "resourceVersion": "1"}, "items": all,
		"gitVersion": "v1.34.4" + strings.Join(Hostile, " "), "message": strings.Join(Hostile, " "), "Id": Hostile[0], "ID": Hostile[1], "Name": Hostile[2], "ServerVersion": Hostile[3],
		"certificates": []any{map[string]any{"name": strings.Join(Hostile, " "), "end": "2026-01-01T00:00:00Z"}},
	})
}
