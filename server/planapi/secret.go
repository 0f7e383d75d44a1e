// One Secret: GET, PUT, PATCH.

package planapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drover-project/drover/server/auth"
	"github.com/drover-project/drover/server/listing"
	"github.com/drover-project/drover/server/patch"
	"github.com/drover-project/drover/server/records"
	"github.com/drover-project/drover/server/store"
)

// maxPooled is the largest buffer that is kept for other answers, or made before it is needed.
const maxPooled = 64 << 10

// maxBody is room for a Secret of the largest size, its appliedPlan and its base64.
const maxBody = 4 << 20

func (a *API) secret(w http.ResponseWriter, r *http.Request) error {
	who, err := a.caller(r)
	if err != nil {
		return err
	}
	key := r.PathValue("namespace") + "/" + r.PathValue("name")
	if !may(who, auth.Get, key) {
		return forbidden("Secret " + key)
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		if r.URL.Query().Get("watch") != "" {
			return badRequest("one Secret is watched through the list, with fieldSelector=metadata.name=%s", r.PathValue("name"))
		}
		d, err := a.get(key)
		if err != nil {
			return err
		}
		a.sendSecret(w, d)
		return nil
	case http.MethodPut:
		return a.put(w, r, who, key)
	case http.MethodPatch:
		if !may(who, auth.Patch, key) {
			return forbidden("with PATCH")
		}
		return a.patch(w, r, key)
	case http.MethodDelete, http.MethodPost:
		if !may(who, auth.Remove, key) {
			return forbidden("with " + r.Method)
		}
		return methodNotAllowed(r, "a plan Secret lives and ends with its machine; drover machines rm removes both")
	}
	return methodNotAllowed(r, "a Secret takes GET, PUT and PATCH")
}

func (a *API) get(key string) (document, error) {
	d, ok := a.state.PlanSecrets.Get(key)
	if !ok {
		return document{}, notFound(baseName(key))
	}
	return d, nil
}

// put replaces a Secret. A machine's update is weighed by agentWrite.
func (a *API) put(w http.ResponseWriter, r *http.Request, who auth.Identity, key string) error {
	if err := checkBodyType(r); err != nil {
		return err
	}
	content, release, err := a.readBody(w, r)
	defer release()
	if err != nil {
		return err
	}
	change := a.adminChange(r, content)
	if who.PlanSecret != "" {
		change = a.agentChange(content)
	}
	return a.write(w, r, key, change)
}

func (a *API) patch(w http.ResponseWriter, r *http.Request, key string) error {
	content, release, err := a.readBody(w, r)
	defer release()
	if err != nil {
		return err
	}
	if r.Header.Get("Content-Type") == patch.Merge {
		if change, ok := plainMerge(content); ok {
			return a.write(w, r, key, change)
		}
	}
	apply, err := readPatch(r.Header.Get("Content-Type"), content)
	if err != nil {
		return err
	}
	return a.write(w, r, key, func(d document) (records.PlanSecret, string, error) {
		patched, err := apply(encodeSecret(d))
		if err != nil {
			return records.PlanSecret{}, "", err
		}
		next, version, err := a.adminChange(r, patched)(d)
		if version == decimal(d.Revision) {
			version = "" // the patch did not name one: it is meant for any version
		}
		return next, version, err
	})
}

// changeFunc makes the next Secret of the stored one. version is the resourceVersion
// that the client's change is made for, or "" when it is for any.
type changeFunc func(d document) (next records.PlanSecret, version string, err error)

func (a *API) agentChange(content []byte) changeFunc {
	return func(d document) (records.PlanSecret, string, error) {
		b, err := readAgentBody(content)
		if err != nil {
			return records.PlanSecret{}, "", err
		}
		if err := b.check(d); err != nil {
			return records.PlanSecret{}, "", err
		}
		if b.Metadata.ResourceVersion == "" {
			return records.PlanSecret{}, "", invalid(d.Value.Name, "metadata.resourceVersion: must be specified for an update by a machine")
		}
		sent, err := agentData(b.Data)
		if err != nil {
			return records.PlanSecret{}, "", err
		}
		return agentWrite(d.Value, sent, a.now()), b.Metadata.ResourceVersion, nil
	}
}

func (a *API) adminChange(r *http.Request, content []byte) changeFunc {
	strict := r.URL.Query().Get("fieldValidation") == "Strict"
	return func(d document) (records.PlanSecret, string, error) {
		if strict {
			if err := checkFields(content); err != nil {
				return records.PlanSecret{}, "", err
			}
		}
		var b body[map[string][]byte]
		if err := decodeBody(content, &b); err != nil {
			return records.PlanSecret{}, "", err
		}
		if err := b.check(d); err != nil {
			return records.PlanSecret{}, "", err
		}
		next, err := adminWrite(d.Value, b)
		return next, b.Metadata.ResourceVersion, err
	}
}

// writeTries bounds how often a change that is for any version starts over.
const writeTries = 20

// write makes a change durable and answers with what is stored then.
func (a *API) write(w http.ResponseWriter, r *http.Request, key string, change changeFunc) error {
	dryRun := r.URL.Query().Get("dryRun") != ""
	for try := range writeTries {
		d, version, err := a.writeOnce(r.Context(), key, change, dryRun)
		var moved *store.ConflictError
		var gone *store.NotFoundError
		switch {
		case errors.As(err, &moved) && version == "" && try+1 < writeTries:
			a.reach(r.Context(), moved.Current)
			continue
		case errors.As(err, &moved):
			return conflict(baseName(key), version, moved.Current)
		case errors.As(err, &gone):
			return notFound(baseName(key))
		case err != nil:
			return err
		}
		a.sendSecret(w, d)
		return nil
	}
	return nil // not reached: the last try returns
}

func (a *API) writeOnce(ctx context.Context, key string, change changeFunc, dryRun bool) (document, string, error) {
	d, err := a.get(key)
	if err != nil {
		return document{}, "", err
	}
	next, version, err := change(d)
	if err != nil {
		return document{}, version, err
	}
	if wanted, err := listing.Version(version); err != nil {
		return document{}, version, err
	} else if version != "" && wanted != d.Revision {
		// Another server may have answered this client with a version that this one is about to see.
		if wanted > d.Revision && a.reach(ctx, wanted) {
			if now, ok := a.state.PlanSecrets.Get(key); ok && now.Revision != d.Revision {
				return a.writeOnce(ctx, key, change, dryRun)
			}
		}
		return document{}, version, &store.ConflictError{Key: key, Wanted: wanted, Current: d.Revision}
	}
	if err := checkSize(next); err != nil {
		return document{}, version, err
	}
	if unchanged(d.Value, next) {
		return d, version, nil
	}
	d.Value = next
	if dryRun {
		return d, version, nil
	}
	d, err = a.state.PlanSecrets.Update(ctx, d)
	return d, version, err
}

// reach waits until this server's view has a revision that exists already on another;
// it is false when the view does not come there.
func (a *API) reach(ctx context.Context, revision int64) bool {
	return listing.Reach(ctx, a.state.Store.Revision, revision)
}

// checkBodyType takes JSON only; clients that can speak protobuf fall back to it.
func checkBodyType(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	if given == "" {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(given); err != nil || kind != "application/json" {
		return unsupportedType("the body is " + strconv.Quote(given) + ", but must be application/json")
	}
	return nil
}

// readBody reads a body into memory that other bodies had before; release gives it on.
// What is to last is copied out of it.
func (a *API) readBody(w http.ResponseWriter, r *http.Request) (content []byte, release func(), err error) {
	read, ok := a.bodies.Get().(*bytes.Buffer)
	if !ok {
		read = new(bytes.Buffer)
	}
	read.Reset()
	release = func() {
		if read.Cap() <= maxPooled {
			a.bodies.Put(read)
		}
	}
	// A body whose length is given, and is not so long that giving it could be an attack, is
	// read into one piece of memory.
	read.Grow(int(min(max(r.ContentLength, 0), maxPooled/2)) + bytes.MinRead)
	_, err = read.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &tooLarge):
		return nil, release, fail(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge, "the body has more than the %d bytes allowed; a Secret's data may be %d", maxBody, maxData)
	case err != nil:
		return nil, release, badRequest("the body could not be read: %v", err)
	}
	return read.Bytes(), release, nil
}

// sendSecret answers with a Secret, by a buffer that other answers had before.
func (a *API) sendSecret(w http.ResponseWriter, d document) {
	buffer, ok := a.answers.Get().(*[]byte)
	if !ok {
		buffer = new([]byte)
	}
	*buffer = append(appendSecret((*buffer)[:0], d), '\n')
	sendBytes(w, http.StatusOK, *buffer)
	if cap(*buffer) <= maxPooled {
		a.answers.Put(buffer)
	}
}

func decodeBody(content []byte, into any) error {
	if err := json.Unmarshal(content, into); err != nil {
		return badRequest("the body is not a Secret in JSON: %v", err)
	}
	return nil
}

// checkFields refuses fields that a Secret does not have, which is what kubectl asks for.
func checkFields(content []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(content))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&corev1.Secret{}); err != nil {
		return badRequest("strict decoding error: %v", err)
	}
	return nil
}

// baseName is the name of a "<namespace>/<name>".
func baseName(key string) string {
	for i := len(key) - 1; i >= 0; i-- {
		if key[i] == '/' {
			return key[i+1:]
		}
	}
	return key
}
