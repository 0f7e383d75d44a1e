// The position file beside a plan: what is known of it. That of x.plan is x.pos, and its
// first four members are the original's, so that either agent goes on where the other
// stopped. That of x.yaml is x.yaml.position, a name that no .plan's position can have.

package drop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/drover-project/drover/plans"
	"github.com/drover-project/drover/plans/durable"
)

// maxPosition bounds the file: outputs of a plan and some names.
const maxPosition = 16 << 20

// position is the file's content.
type position struct {
	AppliedChecksum string                       `json:"appliedChecksum,omitempty"`
	Output          []byte                       `json:"output,omitempty"` // plans.EncodeOutputs
	ProbeStatus     map[string]plans.ProbeStatus `json:"probeStatus,omitempty"`
	PeriodicOutput  []byte                       `json:"periodicOutput,omitempty"` // plans.EncodePeriodicOutputs

	// AppliedTime is when the plan was applied.
	AppliedTime time.Time `json:"appliedTime,omitzero"`
	// Delivery is the newest delivery, written down before it is begun. It is over when
	// AppliedDelivery or FailedDelivery is the same.
	Delivery        string `json:"delivery,omitempty"`
	AppliedDelivery string `json:"appliedDelivery,omitempty"`
	FailedDelivery  string `json:"failedDelivery,omitempty"`
	// FailedChecksum is the content that failed FailureCount times in a row, the last time at
	// LastFailureTime with FailedOutput.
	FailedChecksum  string    `json:"failedChecksum,omitempty"`
	FailureCount    int       `json:"failureCount,omitempty"`
	Failure         string    `json:"failure,omitempty"`
	FailedOutput    []byte    `json:"failedOutput,omitempty"` // plans.EncodeOutputs
	LastFailureTime time.Time `json:"lastFailureTime,omitzero"`
}

func positionPath(plan string) string {
	if stem, ok := strings.CutSuffix(plan, planSuffix); ok {
		return stem + positionSuffix
	}
	return plan + ownPositionSuffix
}

// readPosition reads the file; one that is not there is the zero position, and there is false.
func readPosition(path string) (p position, there bool, err error) {
	b, err := durable.ReadFile(path, maxPosition)
	if errors.Is(err, fs.ErrNotExist) {
		return position{}, false, nil
	}
	if err != nil {
		return position{}, false, err
	}
	p, err = parsePosition(b)
	if err != nil {
		return position{}, true, fmt.Errorf("%s: %w; remove it to have the plan applied again", path, err)
	}
	return p, true, nil
}

// parsePosition refuses what a later step would stumble over.
func parsePosition(b []byte) (position, error) {
	var p position
	if err := json.Unmarshal(b, &p); err != nil {
		return position{}, fmt.Errorf("it is not a position file: %w", err)
	}
	if _, err := plans.DecodeOutputs(p.Output); err != nil {
		return position{}, fmt.Errorf("output: %w", err)
	}
	if _, err := plans.DecodePeriodicOutputs(p.PeriodicOutput); err != nil {
		return position{}, fmt.Errorf("periodicOutput: %w", err)
	}
	if p.FailureCount < 0 {
		return position{}, fmt.Errorf("failureCount: %d is not a valid count", p.FailureCount)
	}
	return p, nil
}

func (p position) marshal() ([]byte, error) {
	b, err := json.Marshal(p)
	if err != nil {
		return nil, fmt.Errorf("encode the position: %w", err)
	}
	return b, nil
}

// concluded says whether the newest delivery is over.
func (p position) concluded() bool {
	return p.Delivery == "" || p.Delivery == p.AppliedDelivery || p.Delivery == p.FailedDelivery
}
