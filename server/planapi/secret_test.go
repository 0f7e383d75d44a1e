package planapi_test

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func b64(s string) *string {
	e := base64.StdEncoding.EncodeToString([]byte(s))
	return &e
}

func TestGet(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	revision := f.set(t, oneKey, "plan", "{}", "failed-output", "", "plan-state", "pending")
	a := f.get(t, onePath, one)
	var want secret
	want.Kind, want.APIVersion, want.Type = "Secret", "v1", "rke.cattle.io/machine-plan"
	want.Metadata.Name, want.Metadata.Namespace, want.Metadata.UID = one+suffix, namespace, "uid-"+one
	want.Metadata.ResourceVersion, want.Metadata.CreationTimestamp = strconv.FormatInt(revision, 10), "2026-11-21T12:00:00Z"
	want.Metadata.Labels = map[string]string{"rke.cattle.io/machine-name": one}
	want.Data = map[string]*string{"plan": b64("{}"), "failed-output": b64(""), "plan-state": b64("pending")}
	if diff := cmp.Diff(want, a.secret); diff != "" || a.HTTP != http.StatusOK || a.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%d of type %q: %s", a.HTTP, a.Header.Get("Content-Type"), diff)
	}
	if !strings.Contains(a.Text, `"failed-output":""`) {
		t.Errorf("an empty value is not \"\": %s", a.Text)
	}
}

// TestAccess is who may do what, as a table.
func TestAccess(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	twoPath := secrets + "/" + two + suffix
	for _, c := range []struct {
		name, method, path, token string
		code                      int
		reason                    string
	}{
		{"own", "GET", onePath, one, 200, ""},
		{"own list", "GET", secrets + "?" + nameQuery(one), one, 200, ""},
		{"other", "GET", twoPath, one, 403, "Forbidden"},
		{"other update", "PUT", twoPath, one, 403, "Forbidden"},
		{"that does not exist", "GET", secrets + "/nothing", one, 403, "Forbidden"},
		{"other namespace", "GET", "/api/v1/namespaces/other/secrets/" + one + suffix, one, 403, "Forbidden"},
		{"list of all", "GET", secrets, one, 403, "Forbidden"},
		{"list of another", "GET", secrets + "?" + nameQuery(two), one, 403, "Forbidden"},
		{"list of all but another", "GET", secrets + "?fieldSelector=metadata.name!%3D" + two + suffix, one, 403, "Forbidden"},
		{"watch of all", "GET", secrets + "?watch=1", one, 403, "Forbidden"},
		{"list of all namespaces", "GET", "/api/v1/secrets?" + nameQuery(one), one, 403, "Forbidden"},
		{"patch own", "PATCH", onePath, one, 403, "Forbidden"},
		{"delete own", "DELETE", onePath, one, 403, "Forbidden"},
		{"create", "POST", secrets, one, 403, "Forbidden"},
		{"delete all", "DELETE", secrets, one, 403, "Forbidden"},
		{"namespaces", "POST", "/api/v1/namespaces", one, 403, "Forbidden"},
		{"pods", "GET", "/api/v1/pods", one, 403, "Forbidden"},
		{"no token", "GET", onePath, "", 401, "Unauthorized"},
		{"unknown token", "GET", onePath, "nobody", 401, "Unauthorized"},
		{"unknown token lists", "GET", secrets, "nobody", 401, "Unauthorized"},
		{"unknown token asks for pods", "GET", "/api/v1/pods", "nobody", 401, "Unauthorized"},
		{"admin", "GET", twoPath, "admin", 200, ""},
		{"admin lists", "GET", secrets, "admin", 200, ""},
		{"admin lists all namespaces", "GET", "/api/v1/secrets", "admin", 200, ""},
		{"admin asks for nothing", "GET", secrets + "/nothing", "admin", 404, "NotFound"},
		{"admin creates", "POST", secrets, "admin", 405, "MethodNotAllowed"},
		{"admin deletes", "DELETE", onePath, "admin", 405, "MethodNotAllowed"},
		{"admin deletes all", "DELETE", secrets, "admin", 405, "MethodNotAllowed"},
		{"admin asks for pods", "GET", "/api/v1/namespaces/x/pods", "admin", 404, "NotFound"},
		{"admin makes a namespace", "POST", "/api/v1/namespaces", "admin", 405, "MethodNotAllowed"},
		{"admin removes a namespace", "DELETE", "/api/v1/namespaces/" + namespace, "admin", 405, "MethodNotAllowed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := f.do(t, c.method, c.path, c.token, "", nil)
			if a.HTTP != c.code {
				t.Fatalf("%d %s, want %d", a.HTTP, a.Text, c.code)
			}
			if c.reason == "" {
				return
			}
			if a.Kind != "Status" || a.Status != "Failure" || a.Code != c.code || a.Reason != c.reason || a.Message == "" {
				t.Errorf("no Status in %s", a.Text)
			}
		})
	}
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	for path, want := range map[string]string{
		"/version": `"gitVersion":"v1.34.0+drover"`,
		"/api":     `{"kind":"APIVersions","versions":["v1"],"serverAddressByClientCIDRs":[]}`,
		"/apis":    `{"kind":"APIGroupList","apiVersion":"v1","groups":[]}`,
		"/api/v1":  `"name":"secrets","singularName":"secret","namespaced":true,"kind":"Secret","verbs":["create","delete","get","list","patch","update","watch"]`,
	} {
		a := f.get(t, path+"?timeout=32s", "")
		if a.HTTP != http.StatusOK || !strings.Contains(a.Text, want) {
			t.Errorf("%s: %d %s, want %s", path, a.HTTP, a.Text, want)
		}
	}
}

func TestList(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.create(t, "custom-000000000003")
	f.set(t, oneKey, "plan", "{}")
	current := f.state.Store.Revision()
	names := func(t *testing.T, query string) []string {
		t.Helper()
		a := f.get(t, secrets+"?"+query, "admin")
		if a.HTTP != http.StatusOK || a.Kind != "SecretList" || a.Metadata.ResourceVersion != strconv.FormatInt(current, 10) {
			t.Fatalf("%d %s", a.HTTP, a.Text)
		}
		found := []string{}
		for name := range strings.SplitSeq(a.Text, `"metadata":{"name":"`) {
			if n, _, ok := strings.Cut(name, suffix+`"`); ok {
				found = append(found, strings.TrimPrefix(n, "custom-00000000000"))
			}
		}
		return found
	}
	for _, c := range []struct {
		name, query string
		want        []string
	}{
		{"all", "", []string{"1", "2", "3"}},
		{"a limit is not a refusal", "limit=1", []string{"1", "2", "3"}},
		{"one", nameQuery(two), []string{"2"}},
		{"none", nameQuery("custom-x"), []string{}},
		{"all but one", "fieldSelector=metadata.name!%3D" + two + suffix, []string{"1", "3"}},
		{"label", "labelSelector=rke.cattle.io/machine-name%3D" + two, []string{"2"}},
		{"labels", "labelSelector=rke.cattle.io/machine-name%20notin%20(" + two + ")", []string{"1", "3"}},
		{"label and field", nameQuery(one) + "&labelSelector=rke.cattle.io/machine-name%3D" + two, []string{}},
		{"type", "fieldSelector=type%3Drke.cattle.io/machine-plan", []string{"1", "2", "3"}},
		{"other type", "fieldSelector=type%3DOpaque", []string{}},
		{"at least this version", "resourceVersion=" + strconv.FormatInt(current, 10) + "&resourceVersionMatch=NotOlderThan", []string{"1", "2", "3"}},
		{"any version", "resourceVersion=0", []string{"1", "2", "3"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, names(t, c.query)); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, c := range []struct {
		name, query string
		code        int
	}{
		{"unknown field", "fieldSelector=metadata.uid%3Dx", 400},
		{"bad field selector", "fieldSelector=a%3D%3D%3Db!", 400},
		{"bad label selector", "labelSelector=%21%21", 400},
		{"bad version", "resourceVersion=abc", 400},
		{"bad match", "resourceVersionMatch=Sometimes", 422},
		{"bad timeout", "timeoutSeconds=soon", 400},
		{"continue", "continue=abc", 410},
		{"exactly an old version", "resourceVersion=1&resourceVersionMatch=Exact", 410},
		{"streamed list without watch", "sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 422},
	} {
		t.Run(c.name, func(t *testing.T) {
			if a := f.get(t, secrets+"?"+c.query, "admin"); a.HTTP != c.code || a.Kind != "Status" {
				t.Errorf("%d %s, want %d", a.HTTP, a.Text, c.code)
			}
		})
	}
}

// TestListFromTheFuture: after a restore from a backup clients know newer versions than
// the server; "Expired" makes them begin anew.
func TestListFromTheFuture(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	for _, query := range []string{"", "&watch=true", "&watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan"} {
		t.Run(query, func(t *testing.T) {
			t.Parallel()
			if a := f.get(t, secrets+"?"+nameQuery(one)+"&resourceVersion=999999"+query, one); a.HTTP != http.StatusGone || a.Reason != "Expired" {
				t.Errorf("%d %s", a.HTTP, a.Text)
			}
		})
	}
}

// update changes what was read and puts it back, as the agent does.
func update(a answer, pairs ...any) secret {
	s := a.secret
	data := map[string]*string{}
	maps.Copy(data, s.Data)
	for i := 0; i < len(pairs); i += 2 {
		key, _ := pairs[i].(string)
		switch v := pairs[i+1].(type) {
		case string:
			data[key] = b64(v)
		case nil:
			data[key] = nil
		}
	}
	s.Data = data
	return s
}

func TestPutByMachine(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.set(t, oneKey, "plan", "{}", "plan-state", "pending")
	read := f.get(t, onePath, one)
	s := update(read, "plan", "stolen", "plan-state", "in-progress", "plan-revision", "1", "failed-output", nil, "applied-output", "")
	s.Metadata.Labels, s.Metadata.Annotations = map[string]string{"x": "y"}, map[string]string{"x": "y"}
	written := f.do(t, http.MethodPut, onePath, one, "application/json", s)
	if written.HTTP != http.StatusOK {
		t.Fatalf("%d %s", written.HTTP, written.Text)
	}
	want := read.secret
	want.Metadata.ResourceVersion = written.Metadata.ResourceVersion
	want.Data = map[string]*string{
		"plan": b64("{}"), "plan-state": b64("in-progress"), "plan-revision": b64("1"), "failed-output": b64(""), "applied-output": b64(""),
	}
	if diff := cmp.Diff(want, written.secret); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(written.Text, "null") {
		t.Errorf("null in %s", written.Text)
	}
	before, _ := strconv.Atoi(read.Metadata.ResourceVersion)
	after, _ := strconv.Atoi(written.Metadata.ResourceVersion)
	if after <= before || int64(after) != f.stored(t, oneKey).Revision {
		t.Errorf("resourceVersion %s after %s", written.Metadata.ResourceVersion, read.Metadata.ResourceVersion)
	}

	stale := f.do(t, http.MethodPut, onePath, one, "application/json", update(read, "plan-state", "in-progress"))
	if stale.HTTP != http.StatusConflict || stale.Reason != "Conflict" || stale.Code != 409 {
		t.Errorf("a stale update: %d %s", stale.HTTP, stale.Text)
	}
	same := f.do(t, http.MethodPut, onePath, one, "application/json", written.secret)
	if same.HTTP != http.StatusOK || same.Metadata.ResourceVersion != written.Metadata.ResourceVersion {
		t.Errorf("an update that changes nothing: %d, version %s after %s", same.HTTP, same.Metadata.ResourceVersion, written.Metadata.ResourceVersion)
	}
	if got := f.get(t, onePath, one); got.Text != written.Text {
		t.Errorf("GET answers %s, PUT answered %s", got.Text, written.Text)
	}
}

func TestPutRefusals(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.set(t, oneKey, "plan", "{}", "plan-state", "pending")
	read := f.get(t, onePath, one)
	with := func(change func(*secret)) secret {
		s := read.secret
		change(&s)
		return s
	}
	big, percent := strings.Repeat("x", 1<<20), "%"
	for _, c := range []struct {
		name, token, contentType, query string
		body                            any
		code                            int
		message                         string
	}{
		{name: "not JSON", body: "plan: x", code: 400, message: "not a Secret in JSON"},
		{name: "other kind", body: with(func(s *secret) { s.Kind = "ConfigMap" }), code: 400, message: "ConfigMap"},
		{name: "other name", body: with(func(s *secret) { s.Metadata.Name = "x" }), code: 400, message: "not that of the path"},
		{name: "other UID", body: with(func(s *secret) { s.Metadata.UID = "x" }), code: 409, message: "UID"},
		{name: "other type", body: with(func(s *secret) { s.Type = "Opaque" }), code: 422, message: "immutable"},
		{name: "no version", body: with(func(s *secret) { s.Metadata.ResourceVersion = "" }), code: 422, message: "resourceVersion"},
		{name: "version that is not a number", body: with(func(s *secret) { s.Metadata.ResourceVersion = "x1" }), code: 400, message: "decimal"},
		{name: "version of the future", body: with(func(s *secret) { s.Metadata.ResourceVersion = "99999" }), code: 409, message: "99999"},
		{name: "no base64", body: with(func(s *secret) { s.Data = map[string]*string{"plan-revision": &percent} }), code: 400, message: "plan-revision"},
		{name: "protobuf", contentType: "application/vnd.kubernetes.protobuf", body: "k8s\x00", code: 415, message: "application/json"},
		{name: "too much data", body: with(func(s *secret) { s.Data = map[string]*string{"applied-output": b64(big)} }), code: 422, message: "applied-output with 1048576"},
		{name: "too long", body: strings.Repeat(" ", 4<<20+1), code: 413, message: "4194304"},
		{name: "label syntax", token: "admin", body: with(func(s *secret) { s.Metadata.Labels = map[string]string{"a b": "c"} }), code: 422, message: "metadata.labels"},
		{name: "annotation syntax", token: "admin", body: with(func(s *secret) { s.Metadata.Annotations = map[string]string{"": "c"} }), code: 422, message: "metadata.annotations"},
		{name: "annotation size", token: "admin", body: with(func(s *secret) { s.Metadata.Annotations = map[string]string{"a": big} }), code: 422, message: "262144"},
		{name: "data key", token: "admin", body: with(func(s *secret) { s.Data = map[string]*string{"a/b": b64("x")} }), code: 422, message: "data[a/b]"},
		{name: "a field that would be lost", token: "admin", body: `{"immutable":true}`, code: 422, message: "keeps data, labels and annotations only"},
		{name: "an unknown field", token: "admin", query: "?fieldValidation=Strict", body: `{"dta":{}}`, code: 400, message: `unknown field "dta"`},
		{name: "nothing there", token: "custom-nothing", body: read.secret, code: 404, message: "not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			token, contentType, path := c.token, c.contentType, onePath
			if token == "" {
				token = one
			}
			if token == "custom-nothing" {
				path = secrets + "/custom-nothing" + suffix
			}
			if contentType == "" {
				contentType = "application/json"
			}
			a := f.do(t, http.MethodPut, path+c.query, token, contentType, c.body)
			if a.HTTP != c.code || a.Kind != "Status" || !strings.Contains(a.Message, c.message) {
				t.Errorf("%d %.300s, want %d and %q", a.HTTP, a.Text, c.code, c.message)
			}
			if got := strconv.FormatInt(f.stored(t, oneKey).Revision, 10); got != read.Metadata.ResourceVersion {
				t.Errorf("the Secret was changed, revision %s", got)
			}
		})
	}
}

// TestNewerPendingSurvives is the server that delivers while the agent still reports.
func TestNewerPendingSurvives(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.set(t, oneKey, "plan", "{}", "plan-state", "in-progress")
	read := f.get(t, onePath, one)
	f.set(t, oneKey, "plan", `{"files":[]}`, "plan-state", "pending")
	if a := f.do(t, http.MethodPut, onePath, one, "application/json", update(read, "plan-state", "succeeded")); a.HTTP != http.StatusConflict {
		t.Fatalf("a report about the earlier plan: %d %s", a.HTTP, a.Text)
	}
	fresh := f.get(t, onePath, one)
	a := f.do(t, http.MethodPut, onePath, one, "application/json", update(fresh, "plan-state", "succeeded", "applied-checksum", "x"))
	if a.HTTP != http.StatusOK || *a.Data["plan-state"] != *b64("pending") || a.Data["applied-checksum"] != nil {
		t.Errorf("the copied report: %d %s", a.HTTP, a.Text)
	}
}

func TestPutByAdmin(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	f.set(t, oneKey, "plan", "{}", "plan-state", "pending", "more", "x")
	read := f.get(t, onePath, "admin")
	s := update(read, "plan", "new", "more", nil)
	s.Metadata.Labels, s.Metadata.ResourceVersion = map[string]string{"x": "y"}, ""
	delete(s.Data, "plan-state")
	a := f.do(t, http.MethodPut, onePath, "admin", "application/json; charset=utf-8", s)
	want := read.secret
	want.Metadata.Labels, want.Metadata.ResourceVersion = map[string]string{"x": "y"}, a.Metadata.ResourceVersion
	want.Data = map[string]*string{"plan": b64("new"), "more": b64("")}
	if diff := cmp.Diff(want, a.secret); diff != "" || a.HTTP != http.StatusOK {
		t.Errorf("%d: %s", a.HTTP, diff)
	}
	if a := f.do(t, http.MethodPut, onePath, "admin", "application/json", read.secret); a.HTTP != http.StatusConflict {
		t.Errorf("a stale update: %d %s", a.HTTP, a.Text)
	}
}

func TestDryRun(t *testing.T) {
	t.Parallel()
	f := setUp(t)
	before := f.set(t, oneKey, "plan", "{}")
	a := f.do(t, http.MethodPatch, onePath+"?dryRun=All", "admin", "application/merge-patch+json", `{"stringData":{"plan":"new"}}`)
	if a.HTTP != http.StatusOK || *a.Data["plan"] != *b64("new") {
		t.Errorf("%d %s", a.HTTP, a.Text)
	}
	if d := f.stored(t, oneKey); d.Revision != before || string(d.Value.Data["plan"]) != "{}" {
		t.Errorf("a dry run wrote %s at %d", d.Value.Data["plan"], d.Revision)
	}
}

// TestPatch has what kubectl sends for each kind.
func TestPatch(t *testing.T) {
	t.Parallel()
	const merge, strategic, jsonPatch = "application/merge-patch+json", "application/strategic-merge-patch+json", "application/json-patch+json"
	f := setUp(t)
	for i, c := range []struct {
		name, contentType, patch string
		code                     int // 0 is 200
		data                     map[string]string
		labels                   map[string]string
		message                  string
	}{
		{name: "merge sets and deletes", contentType: merge, patch: `{"data":{"a":"Mg==","b":null,"e":""},"metadata":{"labels":{"l":"2"}}}`,
			data: map[string]string{"a": "2", "e": "", "plan": "{}"}, labels: map[string]string{"l": "2"}},
		{name: "merge stringData", contentType: merge, patch: `{"stringData":{"a":"x","c":"ü"}}`, data: map[string]string{"a": "x", "b": "1", "c": "ü", "plan": "{}"}},
		{name: "merge replaces a label", contentType: merge, patch: `{"metadata":{"labels":{"rke.cattle.io/machine-name":null,"l":"3"}}}`,
			data: map[string]string{"a": "1", "b": "1", "plan": "{}"}, labels: map[string]string{"l": "3"}},
		{name: "strategic sets and deletes", contentType: strategic, patch: `{"data":{"a":"Mg==","b":null},"metadata":{"annotations":{"x":"y"}}}`,
			data: map[string]string{"a": "2", "plan": "{}"}},
		{name: "strategic stringData", contentType: strategic, patch: `{"stringData":{"a":"x"}}`, data: map[string]string{"a": "x", "b": "1", "plan": "{}"}},
		{name: "strategic replaces a map", contentType: strategic, patch: `{"data":{"$patch":"replace","z":"MQ=="}}`, data: map[string]string{"z": "1"}},
		{name: "JSON patch", contentType: jsonPatch, patch: `[{"op":"test","path":"/data/a","value":"MQ=="},{"op":"replace","path":"/data/a","value":"Mg=="},{"op":"remove","path":"/data/b"},{"op":"add","path":"/metadata/labels/l","value":"2"}]`,
			data: map[string]string{"a": "2", "plan": "{}"}, labels: map[string]string{"l": "2"}},
		{name: "content type with parameters", contentType: merge + "; charset=utf-8", patch: `{"data":{"a":null}}`, data: map[string]string{"b": "1", "plan": "{}"}},
		{name: "nothing changes", contentType: merge, patch: `{}`, data: map[string]string{"a": "1", "b": "1", "plan": "{}"}},
		{name: "JSON patch whose test fails", contentType: jsonPatch, patch: `[{"op":"test","path":"/data/a","value":"x"}]`, code: 422, message: "test"},
		{name: "JSON patch of a missing path", contentType: jsonPatch, patch: `[{"op":"replace","path":"/data/x/y","value":"x"}]`, code: 400, message: "cannot be applied"},
		{name: "no JSON patch", contentType: jsonPatch, patch: `{}`, code: 400, message: "cannot be read"},
		{name: "a bomb of copies", contentType: jsonPatch, patch: `[{"op":"add","path":"/data/x","value":"` + strings.Repeat("QUFB", 200_000) + `"}` + strings.Repeat(`,{"op":"copy","from":"/data","path":"/metadata/annotations"},{"op":"copy","from":"/metadata","path":"/data/y"}`, 12) + `]`, code: 400, message: "cannot be applied"},
		{name: "no merge patch", contentType: merge, patch: `[`, code: 400, message: "cannot be applied"},
		{name: "no strategic patch", contentType: strategic, patch: `[]`, code: 400, message: "cannot be applied"},
		{name: "no base64", contentType: merge, patch: `{"data":{"a":"%"}}`, code: 400, message: "not a Secret"},
		{name: "another name", contentType: merge, patch: `{"metadata":{"name":"x"}}`, code: 400, message: "not that of the path"},
		{name: "another type", contentType: merge, patch: `{"type":"Opaque"}`, code: 422, message: "immutable"},
		{name: "a stale version", contentType: merge, patch: `{"metadata":{"resourceVersion":"1"},"data":{"a":null}}`, code: 409, message: "not at 1"},
		{name: "server-side apply", contentType: "application/apply-patch+yaml", patch: `{}`, code: 415, message: "kubectl edit"},
		{name: "no content type", patch: `{}`, code: 415, message: strategic},
	} {
		t.Run(c.name, func(t *testing.T) {
			machine := fmt.Sprintf("custom-patched%05d", i)
			key := namespace + "/" + machine + suffix
			f.create(t, machine)
			f.set(t, key, "plan", "{}", "a", "1", "b", "1")
			before := f.stored(t, key)
			a := f.do(t, http.MethodPatch, secrets+"/"+machine+suffix, "admin", c.contentType, strings.ReplaceAll(c.patch, "MACHINE", machine))
			after := f.stored(t, key)
			if c.code != 0 {
				if a.HTTP != c.code || a.Kind != "Status" || !strings.Contains(a.Message, c.message) {
					t.Errorf("%d %.300s, want %d and %q", a.HTTP, a.Text, c.code, c.message)
				}
				if diff := cmp.Diff(before, after); diff != "" {
					t.Error(diff)
				}
				return
			}
			got := map[string]string{}
			for key, value := range after.Value.Data {
				got[key] = string(value)
			}
			if diff := cmp.Diff(c.data, got); diff != "" || a.HTTP != http.StatusOK {
				t.Errorf("%d %s %s", a.HTTP, a.Text, diff)
			}
			labels := maps.Clone(after.Value.Labels)
			delete(labels, "rke.cattle.io/machine-name")
			if c.labels != nil && !maps.Equal(c.labels, labels) {
				t.Errorf("labels %v, want %v", labels, c.labels)
			}
			if a.Metadata.ResourceVersion != strconv.FormatInt(after.Revision, 10) || a.Metadata.UID != before.Value.UID {
				t.Errorf("answered %s", a.Text)
			}
		})
	}
}
