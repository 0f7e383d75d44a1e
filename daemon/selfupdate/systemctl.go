// What is asked of systemd, by way of systemctl: the client library would make the agent
// larger for the sake of five calls.

package selfupdate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/drover-project/drover/plans/durable"
)

// systemctlLimit bounds one call. A manager that does not answer in that time is broken.
const systemctlLimit = 30 * time.Second

// unit is how the agent's service stands.
type unit struct {
	active   string // ActiveState
	sub      string // SubState
	pid      int    // 0: no main process
	restarts int    // automatic ones since restart was called
	ended    string // how its main process ended last; empty when that is not known
}

func (u unit) running() bool { return u.active == "active" && u.pid != 0 }

// Systemctl runs systemctl with arguments and returns what it printed. The error has what it printed as errors.
func Systemctl(ctx context.Context, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, systemctlLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "systemctl", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("systemctl %s: %w: %s", strings.Join(args, " "), err, strings.Join(strings.Fields(stderr.String()), " "))
	}
	return string(out), nil
}

type systemctl func(ctx context.Context, args ...string) (string, error)

// show asks for properties of the agent's service.
func (s systemctl) show(ctx context.Context) (unit, error) {
	out, err := s(ctx, "show", Service, "--property=ActiveState,SubState,MainPID,NRestarts,ExecMainCode,ExecMainStatus")
	if err != nil {
		return unit{}, err
	}
	p := properties(out)
	u := unit{active: p["ActiveState"], sub: p["SubState"], ended: exit(p["ExecMainCode"], p["ExecMainStatus"])}
	var errs [2]error
	u.pid, errs[0] = strconv.Atoi(p["MainPID"])
	u.restarts, errs[1] = strconv.Atoi(p["NRestarts"])
	if err := errors.Join(errs[:]...); err != nil {
		return unit{}, fmt.Errorf("systemctl show %s: %w", Service, err)
	}
	return u, nil
}

// exit puts systemd's words for the end of a process into ours: 1 is CLD_EXITED, 2 and 3 are the signals.
func exit(code, status string) string {
	switch code {
	case "1":
		return "exit code " + status
	case "2", "3":
		return "signal " + status
	}
	return ""
}

func properties(out string) map[string]string {
	p := map[string]string{}
	for line := range strings.Lines(out) {
		if key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), "="); ok {
			p[key] = value
		}
	}
	return p
}

// restart asks for the agent's restart and does not wait for it. The count of automatic
// restarts begins anew first: systemd itself keeps that of the program before until the next
// one starts, and beyond that when it was about to start it again.
func (s systemctl) restart(ctx context.Context) error {
	_, _ = s(ctx, "reset-failed", Service) // fails for a unit that is not loaded, which has no count
	_, err := s(ctx, "restart", "--no-block", Service)
	return err
}

// watchText is the unit that decides on the update of dir.
func watchText(previous, dir string) string {
	return fmt.Sprintf(`# Written by rancher-system-agent self-update; it goes when the update has ended.
[Unit]
Description=Update of the Rancher System Agent, which goes back by itself
Documentation=https://github.com/drover-project/drover/blob/main/docs/how-to/replace-the-agent.md
StartLimitIntervalSec=0

[Install]
WantedBy=multi-user.target

[Service]
Restart=on-failure
RestartSec=1s
UMask=0022
LimitCORE=0
ExecStart=%s %s %s
`, previous, WatchCommand, dir)
}

// addWatch makes and enables the deciding unit; it is not started.
func (s systemctl) addWatch(ctx context.Context, unitDir, previous, dir string) error {
	if err := os.MkdirAll(unitDir, 0o755); err != nil {
		return err
	}
	if err := durable.WriteFile(filepath.Join(unitDir, WatchService), []byte(watchText(previous, dir)), 0o644); err != nil {
		return fmt.Errorf("write the unit %s: %w", WatchService, err)
	}
	if _, err := s(ctx, "daemon-reload"); err != nil {
		return err
	}
	_, err := s(ctx, "enable", "--quiet", WatchService)
	return err
}

// removeWatch takes the deciding unit away. It is called by that unit itself, which ends right after.
func (s systemctl) removeWatch(ctx context.Context, unitDir string) error {
	_, err := s(ctx, "disable", "--quiet", WatchService)
	if err = errors.Join(err, removeAll(filepath.Join(unitDir, WatchService))); err != nil {
		return err
	}
	_, err = s(ctx, "daemon-reload")
	return err
}

// ServiceEnv is the environment that says where the service's configuration is: getenv where
// that says so, else that of the running service, else that of its unit. The errors are those of systemctl, and of reading the process's environment.
func ServiceEnv(ctx context.Context, getenv func(string) string) (func(string) string, error) {
	if getenv("CATTLE_AGENT_CONFIG") != "" || getenv("RANCHER_SYSTEM_AGENT_CONFIG_DIR") != "" {
		return getenv, nil
	}
	out, err := Systemctl(ctx, "show", Service, "--property=MainPID,Environment")
	if err != nil {
		return nil, err
	}
	p := properties(out)
	variables := strings.Fields(p["Environment"])
	if p["MainPID"] != "" && p["MainPID"] != "0" {
		b, err := durable.ReadFile("/proc/"+p["MainPID"]+"/environ", maxRecord)
		if err != nil {
			return nil, fmt.Errorf("read the environment of the running agent: %w", err)
		}
		variables = strings.Split(string(b), "\x00")
	}
	of := properties(strings.Join(variables, "\n"))
	return func(key string) string { return of[key] }, nil
}
