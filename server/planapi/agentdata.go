// What an agent sends: of all the data of its Secret only its own keys are of interest. The
// plan, which is most of it, comes back with every update and is not even looked at.

package planapi

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/drover-project/drover/plans"
)

// agentValues are the data of a Secret as they came, valid JSON. They hold as long as the
// body that they are a part of.
type agentValues []byte

// UnmarshalJSON keeps the text, against the advice of encoding/json: a copy of it would be
// most of what an update costs.
func (v *agentValues) UnmarshalJSON(text []byte) error {
	*v = text
	return nil
}

// agentData reads the agent's own keys.
func agentData(sent agentValues) (map[string][]byte, error) {
	keys := plans.AgentKeys()
	data := make(map[string][]byte, len(keys))
	ok := true
	plain := eachPlain(sent, func(name, text []byte) {
		i := slices.IndexFunc(keys, func(key string) bool { return key == string(name) })
		if i < 0 {
			return
		}
		value, err := base64.StdEncoding.AppendDecode(make([]byte, 0, base64.StdEncoding.DecodedLen(len(text))), text)
		data[keys[i]], ok = value, ok && err == nil
	})
	if plain && ok {
		return data, nil
	}
	return anyAgentData(sent, keys)
}

// anyAgentData reads them out of any JSON, or says what is wrong with it. null is an empty value.
func anyAgentData(sent agentValues, keys []string) (map[string][]byte, error) {
	if len(sent) == 0 {
		return map[string][]byte{}, nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal(sent, &all); err != nil {
		return nil, badRequest("the body is not a Secret in JSON: data: %v", err)
	}
	data := make(map[string][]byte, len(keys))
	for _, key := range keys {
		text, ok := all[key]
		if !ok {
			continue
		}
		value := []byte{}
		if err := json.Unmarshal(text, &value); err != nil {
			return nil, badRequest("data[%s] is not standard base64 in a JSON string", key)
		}
		if value == nil {
			value = []byte{}
		}
		data[key] = value
	}
	return data, nil
}

// eachPlain calls f for the members of an object, with the values as they are written. It is
// false when the object has other values than strings, or escapes, and f was then called for
// a part of them.
func eachPlain(object []byte, f func(name, value []byte)) bool {
	text := plainText(object)
	if !text.skip('{') {
		return false
	}
	if text.skip('}') {
		return true
	}
	for {
		name, ok := text.quoted()
		if !ok || !text.skip(':') {
			return false
		}
		value, ok := text.quoted()
		if !ok {
			return false
		}
		f(name, value)
		if text.skip('}') {
			return true
		}
		if !text.skip(',') {
			return false
		}
	}
}

// plainText is the part of a JSON text that is not read yet.
type plainText []byte

// skip reads a character, after white space.
func (t *plainText) skip(c byte) bool {
	rest := bytes.TrimLeft(*t, " \t\r\n")
	if len(rest) == 0 || rest[0] != c {
		return false
	}
	*t = rest[1:]
	return true
}

// quoted reads a string without escapes, without its quotes.
func (t *plainText) quoted() ([]byte, bool) {
	if !t.skip('"') {
		return nil, false
	}
	rest := *t
	end := bytes.IndexByte(rest, '"')
	if end < 0 || bytes.IndexByte(rest[:end], '\\') >= 0 {
		return nil, false
	}
	*t = rest[end+1:]
	return rest[:end], true
}
