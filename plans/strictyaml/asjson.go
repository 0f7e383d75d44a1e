// YAML for readers of JSON.

package strictyaml

import "encoding/json"

// AsJSON is one document of YAML, a mapping, as JSON, read within the usual limits. An error is an Errors.
func AsJSON(text []byte) ([]byte, error) {
	doc, err := ReadOne(Source{}, text)
	if err != nil {
		return nil, err
	}
	var content map[string]any
	if faults := doc.Decode(&content, Options{}); len(faults) > 0 {
		return nil, faults
	}
	return json.Marshal(content)
}
