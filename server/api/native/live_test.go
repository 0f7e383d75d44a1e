package native_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/test/apibed"
)

func TestOutputOfAMachine(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	const path = "/v1-drover/machines/fleet-default/custom-000000000001"
	asked := ""
	says := func(status int, body io.Reader) {
		b.AskAgent = func(_ context.Context, key records.Subject, path string) (*http.Response, error) {
			asked = string(key) + " " + path
			return &http.Response{StatusCode: status, Status: fmt.Sprint(status), Header: http.Header{"Content-Type": {"application/x-ndjson"}}, Body: io.NopCloser(body)}, nil
		}
	}
	for _, tt := range []struct {
		name, target string
		status       int
		body         io.Reader
		want         int
		holds        string
	}{
		{"output", path + "/output?follow=1&offset=7&odd=x", 200, strings.NewReader("{}\n"), 200, "{}\n"},
		{"status", path + "/status", 200, strings.NewReader("{}\n"), 200, "{}\n"},
		{"a host that is lost", path + "/output", 200, halfway{strings.NewReader("{}\n{")}, 200, "{}\n{\n{\"kind\":\"lost\",\"text\":\"the way to the host was lost: the tunnel ended\"}\n"},
		{"a status that is lost", path + "/status", 200, halfway{strings.NewReader("{}")}, 200, "{}"}, // whose JSON has no further line
		{"a parameter that the agent refuses", path + "/output?offset=x", 400, strings.NewReader(`offset "x" is not a number of bytes`), 422, "offset"},
		{"an old agent", path + "/output", 404, strings.NewReader("404 page not found"), 404, "update it"},
		{"a busy agent", path + "/output", 503, strings.NewReader("16 others look on already"), 503, "16 others"},
		{"no machine", "/v1-drover/machines/fleet-default/none/output", 200, strings.NewReader(""), 404, "none"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			says(tt.status, tt.body)
			answer := b.Get(tt.target)
			if answer.Status != tt.want || !strings.Contains(string(answer.Raw), tt.holds) {
				t.Errorf("%d %s", answer.Status, answer.Raw)
			}
		})
	}
	says(200, strings.NewReader(""))
	b.Want(200, "GET", path+"/output?follow=1&offset=7&odd=x", "")
	if asked != "fleet-default/custom-000000000001 /v1/output?follow=1&offset=7" {
		t.Errorf("asked %s", asked)
	}
}

// TestWhatHostsAnswerIsNoPage: a host cannot have a browser run what it answers, in the session of the viewer.
func TestWhatHostsAnswerIsNoPage(t *testing.T) {
	b := apibed.New(t)
	apibed.Harbour(b)
	b.AskAgent = func(context.Context, records.Subject, string) (*http.Response, error) {
		header := http.Header{"Content-Type": {"text/html"}, "Content-Security-Policy": {"script-src *"}, "Set-Cookie": {"R_SESS=mine"}}
		return &http.Response{StatusCode: 200, Status: "200", Header: header, Body: io.NopCloser(strings.NewReader(`{"x": "<script>alert(1)</script>"}`))}, nil
	}
	for what, kind := range map[string]string{
		"logs": "text/plain; charset=utf-8", "output": "application/x-ndjson", "status": "application/json", "containers": "application/json",
	} {
		r := b.Request("GET", "/v1-drover/machines/fleet-default/custom-000000000001/"+what, "", "", "Cookie", auth.SessionCookie+"="+b.Admin, "Accept", "text/html")
		if r.Status != 200 || r.Header.Get("Content-Type") != kind || r.Header.Get("X-Content-Type-Options") != "nosniff" || r.Header.Get("Content-Security-Policy") != "sandbox; default-src 'none'" || strings.Contains(fmt.Sprint(r.Header["Set-Cookie"]), "mine") {
			t.Errorf("%s: status %d, %v", what, r.Status, r.Header)
		}
	}
}

// halfway is a body that breaks off at its end.
type halfway struct{ r io.Reader }

func (h halfway) Read(p []byte) (int, error) {
	n, err := h.r.Read(p)
	if errors.Is(err, io.EOF) {
		err = errors.New("the tunnel ended")
	}
	return n, err
}
