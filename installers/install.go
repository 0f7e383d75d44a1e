// The instructions of a plan that install, restart and remove a distribution.

package installers

import (
	_ "embed"
	"regexp"
	"slices"
	"strings"

	"github.com/drover-project/drover/plans"
)

// InstallName is the name of the instruction that installs.
const InstallName = "install"

// CheckName is the name of the instruction that looks whether a restart was done.
const CheckName = "restart-check"

// UninstallName is the name of the instruction that leaves the host clean.
const UninstallName = "uninstall"

//go:embed restartcheck.sh
var restartCheck string

// Install are the instructions that install or update the distribution and restart it when the
// stamp differs from the one of the last run.
func (d Distribution) Install(image, restartStamp, drainHash, dataDir string, server bool, env []string) []plans.OneTimeInstruction {
	all := append([]string{"RESTART_STAMP=" + restartStamp, "DRAIN_HASH=" + drainHash}, env...)
	all = append(all, d.dataDirVariable(dataDir))
	if !server {
		all = append(all, d.agentVariable())
	}
	instructions := []plans.OneTimeInstruction{{
		Instruction: plans.Instruction{Name: InstallName, Image: image, Command: "sh", Args: []string{"-c", "run.sh"}, Env: all},
		SaveOutput:  true,
	}}
	if d.RestartCheck {
		instructions = append(instructions, plans.OneTimeInstruction{
			Instruction: plans.Instruction{Name: CheckName, Command: "sh", Args: []string{"-c", restartCheck, CheckName, d.Unit(server), dataDir + "/system-agent-installer/" + d.Name + "_restart_stamp"}},
			SaveOutput:  true,
		})
	}
	return instructions
}

// Bare is the instruction that puts the distribution on a host, or another version of it, and starts nothing.
func (d Distribution) Bare(image, dataDir string, server bool, env []string) plans.OneTimeInstruction {
	all := append([]string{"INSTALL_" + d.Variable + "_SKIP_START=true"}, env...)
	all = append(all, d.dataDirVariable(dataDir))
	if !server {
		all = append(all, d.agentVariable())
	}
	return plans.OneTimeInstruction{
		Instruction: plans.Instruction{Name: InstallName, Image: image, Command: "sh", Args: []string{"-c", "run.sh"}, Env: all},
		SaveOutput:  true,
	}
}

func (d Distribution) dataDirVariable(dataDir string) string {
	return d.Variable + "_DATA_DIR=" + dataDir
}
func (d Distribution) agentVariable() string { return "INSTALL_" + d.Variable + "_EXEC=agent" }

// Restarted is the unit of this distribution that the instructions of a plan start or restart on a host
// that has performed those of the plan before it. The installer compares the stamps, and the
// environment that it writes for the unit, as this does.
func (d Distribution) Restarted(before, after []plans.OneTimeInstruction) (unit string, restarted bool) {
	was, _ := d.installs(before)
	is, found := d.installs(after)
	return is.unit, found && (is.stamp != was.stamp || !slices.Equal(is.environment, was.environment))
}

// installed is what decides whether an installation restarts anything.
type installed struct {
	unit, stamp string
	environment []string // of the unit
}

// unitVariable matches what installers write into the environment of their unit.
var unitVariable = regexp.MustCompile(`(?i)^(K3S_|RKE2_|CONTAINERD_|(NO|HTTP|HTTPS)_PROXY=)`)

// installs finds what Install made for this distribution among the instructions of a plan.
func (d Distribution) installs(all []plans.OneTimeInstruction) (is installed, found bool) {
	own := func(env string) bool { return strings.HasPrefix(env, d.dataDirVariable("")) }
	for _, in := range all {
		if in.Name != InstallName || !slices.ContainsFunc(in.Env, own) {
			continue
		}
		is, found = installed{unit: d.ServerUnit}, true
		for _, env := range in.Env {
			if value, ok := strings.CutPrefix(env, "RESTART_STAMP="); ok {
				is.stamp = value
			}
			if env == d.agentVariable() {
				is.unit = d.AgentUnit
			}
			if unitVariable.MatchString(env) {
				is.environment = append(is.environment, env)
			}
		}
	}
	return is, found
}

// DrainHash is what Install put into the instructions: while it stays the same, a restart
// needs no drain. Empty when nothing is installed.
func DrainHash(all []plans.OneTimeInstruction) string {
	for _, in := range all {
		for _, env := range in.Env {
			if value, ok := strings.CutPrefix(env, "DRAIN_HASH="); ok && in.Name == InstallName {
				return value
			}
		}
	}
	return ""
}

//go:embed uninstall.sh
var uninstall string

// Uninstall are the instructions that leave a host clean: the distribution with its data, what drover wrote for
// it, and, with agent, drover's agent itself a little later, so that it can still report.
func (d Distribution) Uninstall(dataDir string, server, agent bool) []plans.OneTimeInstruction {
	script := d.AgentUninstall
	if server {
		script = d.ServerUninstall
	}
	args := append([]string{"-c", uninstall, UninstallName, d.Name, dataDir, script, d.KillAll, yesNo(agent)}, d.ScriptDirs...)
	return []plans.OneTimeInstruction{{
		Instruction: plans.Instruction{Name: UninstallName, Command: "sh", Args: args, Env: []string{d.dataDirVariable(dataDir)}},
		SaveOutput:  true,
	}}
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}
