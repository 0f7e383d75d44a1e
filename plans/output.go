// The codecs of what an agent reports. Outputs are compared byte for byte by both
// sides to find out whether anything changed, so equal content gives equal bytes.

package plans

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// maxUnpacked bounds what a gzipped output may unpack to: a Secret is below 1 MiB,
// and a small one must not become gigabytes in the reader's memory.
const maxUnpacked = 32 << 20

// PeriodicOutput is the record of one periodic instruction.
type PeriodicOutput struct {
	Name     string
	Stdout   []byte
	Stderr   []byte
	ExitCode int
	// LastSuccessfulRunTime and LastFailedRunTime have a resolution of one second on the wire; zero means never.
	LastSuccessfulRunTime time.Time
	LastFailedRunTime     time.Time
	// Failures counts failures in a row.
	Failures int
}

// wirePeriodicOutput is PeriodicOutput as it travels.
type wirePeriodicOutput struct {
	Name                  string `json:"name"`
	Stdout                []byte `json:"stdout"`
	Stderr                []byte `json:"stderr"`
	ExitCode              int    `json:"exitCode"`
	LastSuccessfulRunTime string `json:"lastSuccessfulRunTime"`
	Failures              int    `json:"failures"`
	LastFailedRunTime     string `json:"lastFailedRunTime"`
}

// ProbeStatus is what is known of one probe. The zero value is "not asked yet".
type ProbeStatus struct {
	Healthy      bool `json:"healthy,omitempty"`
	SuccessCount int  `json:"successCount,omitempty"`
	FailureCount int  `json:"failureCount,omitempty"`
}

// Unhealthy are the names of the probes that are not healthy, in order.
func Unhealthy(statuses map[string]ProbeStatus) []string {
	var names []string
	for name, status := range statuses {
		if !status.Healthy {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// EncodeOutputs packs the saved outputs of one-time instructions, by name. Its error is the compressor's.
func EncodeOutputs(outputs map[string][]byte) ([]byte, error) {
	if outputs == nil {
		outputs = map[string][]byte{}
	}
	return pack("instruction outputs", outputs)
}

// DecodeOutputs unpacks what EncodeOutputs packed; empty input means no outputs. Text of another form, or that unpacks to too much, is an error.
func DecodeOutputs(b []byte) (map[string][]byte, error) {
	outputs := map[string][]byte{}
	if err := unpack("instruction outputs", b, &outputs); err != nil {
		return nil, err
	}
	if outputs == nil { // JSON null
		outputs = map[string][]byte{}
	}
	return outputs, nil
}

// EncodePeriodicOutputs packs the records of periodic instructions, by name. Its error is the compressor's.
func EncodePeriodicOutputs(outputs map[string]PeriodicOutput) ([]byte, error) {
	wire := make(map[string]wirePeriodicOutput, len(outputs))
	for name, o := range outputs {
		wire[name] = wirePeriodicOutput{
			Name:                  o.Name,
			Stdout:                notNil(o.Stdout),
			Stderr:                notNil(o.Stderr),
			ExitCode:              o.ExitCode,
			LastSuccessfulRunTime: formatTime(o.LastSuccessfulRunTime),
			Failures:              o.Failures,
			LastFailedRunTime:     formatTime(o.LastFailedRunTime),
		}
	}
	return pack("periodic outputs", wire)
}

// DecodePeriodicOutputs unpacks what EncodePeriodicOutputs packed; empty input means no records.
// A time that cannot be read counts as never, as it does for the original agent.
func DecodePeriodicOutputs(b []byte) (map[string]PeriodicOutput, error) {
	wire := map[string]wirePeriodicOutput{}
	if err := unpack("periodic outputs", b, &wire); err != nil {
		return nil, err
	}
	outputs := make(map[string]PeriodicOutput, len(wire))
	for name, w := range wire {
		outputs[name] = PeriodicOutput{
			Name:                  w.Name,
			Stdout:                notNil(w.Stdout),
			Stderr:                notNil(w.Stderr),
			ExitCode:              w.ExitCode,
			LastSuccessfulRunTime: parseTime(w.LastSuccessfulRunTime),
			Failures:              w.Failures,
			LastFailedRunTime:     parseTime(w.LastFailedRunTime),
		}
	}
	return outputs, nil
}

// EncodeProbeStatuses renders probe statuses, by probe name. Its error is that of encoding/json.
func EncodeProbeStatuses(statuses map[string]ProbeStatus) ([]byte, error) {
	if statuses == nil {
		statuses = map[string]ProbeStatus{}
	}
	b, err := json.Marshal(statuses)
	if err != nil {
		return nil, fmt.Errorf("encode probe statuses: %w", err)
	}
	return b, nil
}

// DecodeProbeStatuses reads probe statuses; empty input and null are no statuses. Text of another form is an error.
func DecodeProbeStatuses(b []byte) (map[string]ProbeStatus, error) {
	statuses := map[string]ProbeStatus{}
	if len(b) == 0 {
		return statuses, nil
	}
	if err := json.Unmarshal(b, &statuses); err != nil {
		return nil, fmt.Errorf("decode probe statuses: %w", err)
	}
	if statuses == nil {
		statuses = map[string]ProbeStatus{}
	}
	return statuses, nil
}

// compressors are used again: making one takes most of a millisecond, which a reader that waits for an
// outcome would wait for, and 800 KiB.
var compressors = sync.Pool{New: func() any { return gzip.NewWriter(nil) }}

// pack gzips the JSON of v. The header of a new gzip.Writer has neither time nor
// name and JSON objects are sorted by key, so equal values give equal bytes.
func pack(what string, v any) ([]byte, error) {
	plain, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", what, err)
	}
	var buf bytes.Buffer
	w := compressors.Get().(*gzip.Writer)
	defer compressors.Put(w)
	w.Reset(&buf)
	if _, err := w.Write(plain); err != nil {
		return nil, fmt.Errorf("compress %s: %w", what, err)
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("compress %s: %w", what, err)
	}
	return buf.Bytes(), nil
}

// decompressors are kept for the next time, as each has a window of 32 KiB, and a server reads the outputs of thousands of
// machines, most of them smaller than that.
var decompressors = sync.Pool{New: func() any { return new(gzip.Reader) }}

func unpack(what string, b []byte, into any) error {
	if len(b) == 0 {
		return nil
	}
	r := decompressors.Get().(*gzip.Reader)
	defer decompressors.Put(r)
	if err := r.Reset(bytes.NewReader(b)); err != nil {
		return fmt.Errorf("decompress %s: %w", what, err)
	}
	plain, err := io.ReadAll(io.LimitReader(r, maxUnpacked+1))
	if err != nil {
		return fmt.Errorf("decompress %s: %w", what, err)
	}
	if len(plain) > maxUnpacked {
		return fmt.Errorf("decompress %s: more than %d bytes", what, maxUnpacked)
	}
	if n := bytes.Count(plain, []byte{'{'}); n > maxObjects {
		return fmt.Errorf("decode %s: more than %d objects", what, maxObjects)
	}
	if err := json.Unmarshal(plain, into); err != nil {
		return fmt.Errorf("decode %s: %w", what, err)
	}
	return nil
}

func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

// formatTime writes UnixDate in UTC: the zone abbreviation of a host's local time
// cannot be read back reliably on another host or after a zone change.
func formatTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.UnixDate)
}

func parseTime(s string) time.Time {
	t, err := time.Parse(time.UnixDate, s)
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
