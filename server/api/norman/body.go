// Bodies of requests: JSON, YAML or form data, always one object.

package norman

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/drover-project/drover/plans/strictyaml"
)

// MaxBody is the largest body of a request, in bytes; PublicBody that of one without login.
const (
	MaxBody    = 2 << 20
	PublicBody = 1 << 20
)

// drain is how much of a body that is too long is still read, in bytes: many clients
// send all of it before they look at the answer, and a connection that ends before is
// all they would report to their user.
const drain = 16 << 20

// ReadBody reads a body of at most limit bytes. The error is an *Error.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r.Body, limit+1))
	if err != nil {
		return nil, Errorf(http.StatusUnprocessableEntity, InvalidBodyContent, "the body could not be read: %v", err)
	}
	if int64(len(data)) <= limit {
		return data, nil
	}
	if n, err := io.Copy(io.Discard, io.LimitReader(r.Body, drain)); err != nil || n == drain {
		w.Header().Set("Connection", "close") // the rest is not worth reading
	}
	return nil, Errorf(http.StatusRequestEntityTooLarge, TooLarge, "the body is longer than the %d bytes allowed", limit)
}

// Input is the object in a request's body.
type Input struct {
	fields map[string]any
}

// ReadInput reads the body by its content type; a missing or unknown one is taken for
// JSON, since clients forget it. No body is an empty object. The error is an *Error.
func ReadInput(w http.ResponseWriter, r *http.Request, limit int64) (Input, error) {
	data, err := ReadBody(w, r, limit)
	if err != nil {
		return Input{}, err
	}
	if len(bytes.TrimSpace(data)) == 0 {
		return Input{}, nil
	}
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		kind = "application/json"
	}
	var fields map[string]any
	switch kind {
	case "application/x-www-form-urlencoded":
		// curl -d sends this type unless configured otherwise, and most of those bodies are JSON.
		if fields, err = decodeJSON(data); err != nil {
			fields, err = decodeForm(data)
		}
	case "application/yaml", "application/x-yaml", "text/yaml":
		fields, err = decodeYAML(data)
	default:
		fields, err = decodeJSON(data)
	}
	if err != nil {
		return Input{}, Errorf(http.StatusUnprocessableEntity, InvalidBodyContent, "the body is not one %s object: %v", kind, err)
	}
	return Input{fields: fields}, nil
}

func decodeJSON(data []byte) (map[string]any, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var fields map[string]any
	err := dec.Decode(&fields)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return nil, fmt.Errorf("it is of the type %s", wrong.Value)
	}
	if err != nil {
		return nil, err
	}
	if fields == nil {
		return nil, errors.New("it is null")
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("there is more after the object")
	}
	return fields, nil
}

func decodeYAML(data []byte) (map[string]any, error) {
	doc, err := strictyaml.ReadOne(strictyaml.Source{Private: true, Limits: strictyaml.Limits{Bytes: MaxBody}}, data)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	if errs := doc.Decode(&fields, strictyaml.Options{}); errs != nil {
		return nil, errs
	}
	asJSON, err := json.Marshal(fields) // so that numbers and keys have the types JSON gives them
	if err != nil {
		return nil, err
	}
	return decodeJSON(asJSON)
}

func decodeForm(data []byte) (map[string]any, error) {
	values, err := url.ParseQuery(string(data))
	if err != nil {
		return nil, err
	}
	fields := map[string]any{}
	for name := range values {
		fields[name] = values.Get(name)
	}
	return fields, nil
}

// Has says that the body names the field with something other than null.
func (in Input) Has(name string) bool { return in.fields[name] != nil }

// Names says that the body names the field, with null too.
func (in Input) Names(name string) bool { _, ok := in.fields[name]; return ok }

// Asks says that the body has a value of the field that asks for something: null, false, 0, "" and lists and maps of such ask for
// nothing. Clients send those of fields that they never set.
func (in Input) Asks(name string) bool { return asks(in.fields[name]) }

func asks(value any) bool {
	switch v := value.(type) {
	case string:
		return v != ""
	case json.Number:
		n, err := v.Float64()
		return err != nil || n != 0
	case bool:
		return v
	case []any:
		return slices.ContainsFunc(v, asks)
	case map[string]any:
		for _, one := range v {
			if asks(one) {
				return true
			}
		}
	}
	return false
}

// String is a text field, "" when it is absent. The error is an *Error of 422 with the field's name, as of all readers of fields.
func (in Input) String(name string) (string, error) {
	switch v := in.fields[name].(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	default:
		return "", Invalid(InvalidFormat, name, "a text is expected, not %s", kindOf(v))
	}
}

// Required is a text field that must be there and not empty. The error is an *Error.
func (in Input) Required(name string) (string, error) {
	s, err := in.String(name)
	if err == nil && s == "" {
		return "", Invalid(MissingRequired, name, "this field is required")
	}
	return s, err
}

// Bool is true or false, also when it is written as text; false when it is absent. The error is an *Error.
func (in Input) Bool(name string) (bool, error) {
	switch v := in.fields[name].(type) {
	case nil:
		return false, nil
	case bool:
		return v, nil
	case string:
		if is, err := strconv.ParseBool(v); err == nil {
			return is, nil
		}
		return false, Invalid(InvalidFormat, name, "%.40q is neither true nor false", v)
	default:
		return false, Invalid(InvalidFormat, name, "true or false is expected, not %s", kindOf(v))
	}
}

// Int is a whole number, also when it is written as text; 0 when it is absent. The error is an *Error.
func (in Input) Int(name string) (int64, error) {
	text := ""
	switch v := in.fields[name].(type) {
	case nil:
		return 0, nil
	case json.Number:
		text = v.String()
	case string:
		text = v
	default:
		return 0, Invalid(InvalidFormat, name, "a whole number is expected, not %s", kindOf(v))
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, Invalid(InvalidFormat, name, "%.40q is not a whole number", text)
	}
	return n, nil
}

// Map is a map of texts and the keys whose value is null, which asks for their removal. The error is an *Error.
func (in Input) Map(name string) (set map[string]string, removed []string, err error) {
	raw, ok := in.fields[name]
	if !ok || raw == nil {
		return nil, nil, nil
	}
	m, ok := raw.(map[string]any)
	if !ok {
		return nil, nil, Invalid(InvalidFormat, name, "a map of texts is expected, not %s", kindOf(raw))
	}
	set = map[string]string{}
	for k, v := range m {
		switch text := v.(type) {
		case nil:
			removed = append(removed, k)
		case string:
			set[k] = text
		default:
			return nil, nil, Invalid(InvalidFormat, name, "the value of %q is to be a text, not %s", k, kindOf(v))
		}
	}
	return set, removed, nil
}

// Edited is a map of labels or annotations after a request: given keys are set, those with null go, and without it all stays. The error is an *Error.
func (in Input) Edited(name string, is map[string]string) (map[string]string, error) {
	set, removed, err := in.Map(name)
	if err != nil || !in.Has(name) {
		return is, err
	}
	changed := map[string]string{}
	maps.Copy(changed, is)
	maps.Copy(changed, set)
	for _, key := range removed {
		delete(changed, key)
	}
	return changed, nil
}

// Labelled are the labels and annotations of an object after the body. The error is an *Error.
func (in Input) Labelled(areLabels, areAnnotations map[string]string) (labels, annotations map[string]string, err error) {
	if labels, err = in.Edited("labels", areLabels); err != nil {
		return nil, nil, err
	}
	annotations, err = in.Edited("annotations", areAnnotations)
	return labels, annotations, err
}

// Decode reads a field of a type of its own, such as a list; what is absent or null leaves the value as it is.
// Unknown fields in it are refused, with their names.
func (in Input) Decode(name string, into any) error {
	raw, ok := in.fields[name]
	if !ok || raw == nil {
		return nil
	}
	text, err := json.Marshal(raw)
	if err != nil {
		return Invalid(InvalidFormat, name, "cannot be read")
	}
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return Invalid(InvalidFormat, name, "is not of the form that the field has: %.200s", err.Error())
	}
	return nil
}

// kindOf names a JSON value without showing it: it may be a secret.
func kindOf(v any) string {
	switch v.(type) {
	case string:
		return "a text"
	case json.Number:
		return "a number"
	case bool:
		return "true or false"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "null"
}
