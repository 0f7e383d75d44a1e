// Rehearsals: a snapshot is restored on a host that has no cluster, to see whether it can be.

package hostjob

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drover-project/drover/plans"
)

var (
	//go:embed rehearsal.sh
	rehearsal string
	//go:embed rehearse.sh
	rehearse string
	//go:embed unrehearse.sh
	unrehearse string
)

// RehearsalDir is the directory below which a rehearsal keeps all that it makes on its host.
const RehearsalDir = "/var/lib/rancher/drover-rehearsal"

// RehearseName is the name of the instruction that rehearses.
const RehearseName = "rehearse"

// Rehearsal is the restore of a snapshot of a k3s cluster on a host that has no cluster. Nothing of the cluster runs there: k3s
// is run out of its installer image as a unit that ends, with the Kubernetes API on the loopback address alone.
type Rehearsal struct {
	// ID is one that no other rehearsal has had on the host, so that its plans are no others'.
	ID string
	// Dir is the directory below which everything is made, and which is removed in the end.
	Dir string
	// Image is the installer image, which has k3s.
	Image string
	// Snapshot is the path of a file on the host, or, with From, the name of what is fetched.
	Snapshot string
	From     *Source
	// Token is the cluster's server token, TokenHash what names it in snapshots.
	Token, TokenHash string
	// Settings are those of the cluster's configuration that the restored data depend on.
	Settings map[string]any
	// Runtimes are directories that a host has on which a runtime is, and which is refused therefore.
	Runtimes []string
}

// Plan does the rehearsal. It has the token and the link: a machine does not keep it. It returns an error where the settings cannot be written as
// JSON.
func (r Rehearsal) Plan() (plans.Plan, error) {
	settings, err := json.Marshal(r.Settings)
	if err != nil {
		return plans.Plan{}, fmt.Errorf("write the settings of rehearsal %s: %w", r.ID, err)
	}
	size := int64(0)
	env := []string{variable + r.ID, "DROVER_SECRET_TOKEN=" + r.Token}
	if r.From != nil {
		size = r.From.Size
		env = append(env, r.From.environment()...)
	}
	script := rehearsal + "fetched() (\n" + fetch + ")\n" + file + "checked() (\n" + check + ")\n" + rehearse
	args := append([]string{"-c", script, RehearseName, r.Dir, r.Snapshot, strconv.FormatInt(size, 10), r.TokenHash, string(settings)}, r.Runtimes...)
	return plans.Plan{Instructions: []plans.OneTimeInstruction{{
		Instruction: plans.Instruction{Name: RehearseName, Image: r.Image, Command: "sh", Args: args, Env: env}, SaveOutput: true,
	}}}, nil
}

// CleanUp is the plan that takes the place of the rehearsal's when that has ended or is stopped.
func (r Rehearsal) CleanUp() plans.Plan {
	return plans.Plan{Instructions: []plans.OneTimeInstruction{{
		Instruction: plans.Instruction{Name: "rehearse-clean-up", Command: "sh", Args: []string{"-c", rehearsal + unrehearse, r.ID, r.Dir}, Env: []string{variable + r.ID}}, SaveOutput: true,
	}}}
}

// Rehearsed is how a rehearsal ended.
type Rehearsed struct {
	OK bool `json:"ok"`
	// Cause is why it failed.
	Cause string `json:"cause"`
	// Objects is how many objects the restored API lists, without events; Counts has some kinds of them, as kubectl names them.
	Objects int            `json:"objects"`
	Counts  map[string]int `json:"counts"`
	// Unread are kinds that could not be listed without the cluster's pods, with spaces between.
	Unread string `json:"unread"`
	// Seconds is how long it took.
	Seconds int `json:"seconds"`
}

// maxCounts bounds how many kinds a host may count.
const maxCounts = 32

// ReadRehearsed reads the output of a rehearsal. The error says that no result is in it, or one that cannot be.
func ReadRehearsed(output []byte) (Rehearsed, error) {
	for _, line := range slices.Backward(strings.Split(strings.TrimSpace(string(output)), "\n")) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var is Rehearsed
		if err := json.Unmarshal([]byte(line), &is); err != nil {
			return Rehearsed{}, fmt.Errorf("read how the rehearsal ended: %w", err)
		}
		if len(is.Counts) > maxCounts || is.Objects < 0 || is.Seconds < 0 {
			return Rehearsed{}, fmt.Errorf("read how the rehearsal ended: the host counts what cannot be")
		}
		return is, nil
	}
	return Rehearsed{}, fmt.Errorf("the host did not report how the rehearsal ended")
}
