// The real agent: its binary, and the process on a host of its own directories.

package main

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/drover-project/drover/test/bed/process"
)

// Budgets of each agent.
const (
	maxBinary   = 16  // MiB
	maxPackages = 380 // linked
	maxResident = 20  // MiB, while watching
)

// agentSize measures what needs no server.
func (b *bench) agentSize(ctx context.Context) error {
	return b.size(ctx, "agent", "rancher-system-agent")
}

// size measures what a program is made of.
func (b *bench) size(ctx context.Context, who, program string) error {
	path := filepath.Join(b.module, "server/assets/bin", program+"-amd64")
	binary, err := elf.Open(path)
	if err != nil {
		return fmt.Errorf("open the agent, which `make build` makes: %w", err)
	}
	stripped := binary.Section(".symtab") == nil
	if err := binary.Close(); err != nil {
		return err
	}
	if !stripped {
		return fmt.Errorf("%s is not stripped", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	b.table.bytes(who+": stripped binary (amd64)", info.Size(), maxBinary)
	command := exec.CommandContext(ctx, "go", "list", "-deps", "./cmd/"+program)
	command.Dir = b.module
	list, err := command.Output()
	if err != nil {
		return fmt.Errorf("list the packages of %s: %w", program, err)
	}
	count, kubernetes := 0, 0
	for name := range strings.Lines(string(list)) {
		count++
		if strings.HasPrefix(name, "k8s.io/") {
			kubernetes++
		}
	}
	b.table.measure(who+": packages linked", fmt.Sprint(count), float64(count), fmt.Sprintf("≤ %d", maxPackages), maxPackages)
	b.table.measure(who+": of them below k8s.io", fmt.Sprint(kubernetes), float64(kubernetes), "0", 0)
	return nil
}

// agent is a running rancher-system-agent.
type agent struct {
	process *process.Process
	dir     string
}

func (a *agent) plans() string { return filepath.Join(a.dir, "plans") }

// startAgent starts the agent of a machine as install.sh sets it up, with directories of its
// own below dir, and waits until its watch and its tunnel are open.
func (b *bench) startAgent(ctx context.Context, s *server, m machine, dir string, local bool) (*agent, error) {
	return b.startProgram(ctx, s, m, dir, local, filepath.Join(b.module, "bin", "rancher-system-agent"), 2)
}

// startProgram starts some agent, and waits until it has that many connections.
func (b *bench) startProgram(ctx context.Context, s *server, m machine, dir string, local bool, program string, connected int) (*agent, error) {
	a := &agent{dir: dir}
	if os.Geteuid() != 0 {
		return nil, errors.New("the agent runs as root only, and so this part of the bench")
	}
	if err := os.MkdirAll(a.plans(), 0o700); err != nil {
		return nil, err
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	config := fmt.Sprintf("workDirectory: %s\npreserveWorkDirectory: false\nappliedPlanDirectory: %s\nlocalEnabled: %t\nlocalPlanDirectory: %s\n"+
		"remoteEnabled: true\nconnectionInfoFile: %s\ninterlockDirectory: %s\n",
		file("work"), file("applied"), local, a.plans(), file("connection.json"), file("interlock"))
	for name, content := range map[string]string{"config.yaml": config, "connection.json": string(m.file)} {
		if err := os.WriteFile(file(name), []byte(content), 0o600); err != nil {
			return nil, err
		}
	}
	var err error
	a.process, err = process.Start(ctx, process.Options{
		Path: program, Args: []string{"sentinel"}, LogFile: file("agent.log"),
		Env: []string{"CATTLE_AGENT_CONFIG=" + file("config.yaml"), "RANCHER_SYSTEM_AGENT_CONFIG_DIR=" + dir, "CATTLE_AGENT_CONFIG_DIR=" + dir,
			"CATTLE_AGENT_VAR_DIR=" + dir, "CATTLE_AGENT_STRICT_VERIFY=true"},
	})
	if err != nil {
		return nil, err
	}
	err = until(ctx, 30*time.Second, "the agent's connections", func() (bool, error) {
		select {
		case <-a.process.Done():
			return false, fmt.Errorf("the agent ended: %s", tail(file("agent.log")))
		default:
		}
		n, err := connections(a.process.PID(), s.port)
		return n >= connected, err
	})
	if err != nil {
		return nil, errors.Join(err, a.stop(ctx))
	}
	return a, nil
}

func (a *agent) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return a.process.Stop(ctx)
}

// idleAgent measures the agent's memory when it has nothing to do.
func (b *bench) idleAgent(ctx context.Context, a *agent) error {
	b.say("the agent watches and rests for 10 s")
	if err := rest(ctx, 10*time.Second); err != nil {
		return err
	}
	m, err := memoryOf(a.process.PID())
	if err != nil {
		return err
	}
	what := "agent: resident memory while watching, with its tunnel"
	b.table.measure(what, fmt.Sprintf("%s (of it anonymous %s)", inMiB(m.resident), inMiB(m.anonymous)), mib(m.resident), fmt.Sprintf("≤ %d MiB", maxResident), maxResident)
	return nil
}

// tail is the end of a log.
func tail(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-2000):])
}
