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

// readAgentBody reads an agent's update. Its data are cut out before encoding/json sees the
// rest, which would read them twice and keep nothing; where that is not possible it gets all.
func readAgentBody(content []byte) (b body[agentValues], err error) {
	rest, data, ok := cutData(content)
	if !ok {
		return b, decodeBody(content, &b)
	}
	err = decodeBody(rest, &b)
	b.Data = data
	return b, err
}

// cutData is an object without the value of its member data, and that value. It is false for
// what is not plainly an object with one such member; whether the parts are valid JSON
// shows when they are read.
func cutData(object []byte) (rest []byte, data agentValues, ok bool) {
	text := plainText(object)
	if !text.skip('{') {
		return nil, nil, false
	}
	for {
		name, ok := text.quoted()
		if !ok || !text.skip(':') {
			return nil, nil, false
		}
		value, ok := text.value()
		switch {
		case !ok, string(name) == "data" && data != nil:
			return nil, nil, false
		case string(name) == "data":
			data = value
			rest = append(make([]byte, 0, len(object)-len(value)+len("null")), object[:len(object)-len(text)-len(value)]...)
			rest = append(append(rest, "null"...), text...)
		}
		if text.skip('}') {
			return rest, data, data != nil
		}
		if !text.skip(',') {
			return nil, nil, false
		}
	}
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

// value reads a value up to what ends it, without looking into it more than that takes.
func (t *plainText) value() ([]byte, bool) {
	*t = bytes.TrimLeft(*t, " \t\r\n")
	text, depth := []byte(*t), 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '"':
			end := bytes.IndexByte(text[i+1:], '"')
			if end < 0 || bytes.IndexByte(text[i+1:i+1+end], '\\') >= 0 {
				return nil, false
			}
			i += end + 1
		case '{', '[':
			depth++
			continue
		case '}', ']':
			depth--
		case ',':
			if depth == 0 {
				return t.cut(i)
			}
			continue
		default:
			continue
		}
		switch {
		case depth == 0:
			return t.cut(i + 1)
		case depth < 0: // the end of what the value is in
			return t.cut(i)
		}
	}
	return nil, false
}

func (t *plainText) cut(n int) ([]byte, bool) {
	value := (*t)[:n]
	*t = (*t)[n:]
	return value, n > 0
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
