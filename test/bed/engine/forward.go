package engine

// Packet forwarding for the networks of our own engine. That engine is configured to leave iptables alone: two engines on one
// machine replace each other's chains. What a run needs is three rules, marked with the engine's name and the run's id
// and removed by the run. The rules of another engine of ours are not this one's to remove: its runs live.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// forwardSwitch is the kernel's switch for forwarding.
const forwardSwitch = "/proc/sys/net/ipv4/ip_forward"

// ruleMark begins the comment of each rule of this engine's runs; the run's id follows. iptables prints comments of such
// letters without quotes.
func (d *ownDaemon) ruleMark() string { return filepath.Base(d.prefix) + "-run-" }

// rule is a rule of iptables: the table, the chain and what follows.
type rule struct {
	table, chain string
	spec         []string
}

// rules let the hosts of a run reach each other, and the world through this machine, whatever this machine's policy
// for forwarding is. No other machine reaches them.
func (e *Engine) rules() []rule {
	bridge := e.network.bridge
	mark := []string{"-m", "comment", "--comment", e.own.ruleMark() + e.run}
	return []rule{
		{"nat", "POSTROUTING", append([]string{"-s", e.network.subnet.String(), "!", "-o", bridge, "-j", "MASQUERADE"}, mark...)},
		{"filter", "FORWARD", append([]string{"-i", bridge, "-j", "ACCEPT"}, mark...)},
		{"filter", "FORWARD", append([]string{"-o", bridge, "-m", "conntrack", "--ctstate", "RELATED,ESTABLISHED", "-j", "ACCEPT"}, mark...)},
	}
}

// forward puts the rules of the run in place. Without an iptables hosts reach this machine, and it them, no more.
func (e *Engine) forward(ctx context.Context) error {
	if e.own.iptables == "" {
		e.Log.Warn("no iptables works here: hosts reach this machine, but not the world")
		return nil
	}
	if err := e.addRules(ctx); err != nil {
		return err
	}
	return startForwarding(e.own.forwardNote())
}

// addRules adds the rules of the run.
func (e *Engine) addRules(ctx context.Context) error {
	if e.own.iptables == "" {
		return nil
	}
	for _, r := range e.rules() {
		args := append([]string{"--wait", "-t", r.table, "-I", r.chain}, r.spec...)
		if _, err := iptables(ctx, e.own.iptables, args...); err != nil {
			return err
		}
	}
	return nil
}

// removeRules removes the rules whose mark begins with the given one.
func (d *ownDaemon) removeRules(ctx context.Context, mark string) error {
	if d.iptables == "" {
		return nil
	}
	var errs []error
	for _, table := range []string{"nat", "filter"} {
		listing, err := iptables(ctx, d.iptables, "--wait", "-t", table, "-S")
		errs = append(errs, err)
		for _, args := range markedRules(listing, mark) {
			_, err := iptables(ctx, d.iptables, append([]string{"--wait", "-t", table, "-D"}, args...)...)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// markedRules finds the marked rules in what `iptables -S` prints; each is a chain and a specification.
func markedRules(listing, mark string) [][]string {
	var found [][]string
	for line := range strings.Lines(listing) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "-A" {
			continue
		}
		for i, word := range words[:len(words)-1] {
			if word == "--comment" && strings.HasPrefix(words[i+1], mark) {
				found = append(found, words[1:])
				break
			}
		}
	}
	return found
}

func iptables(ctx context.Context, binary string, args ...string) (string, error) {
	output, err := exec.CommandContext(ctx, binary, args...).Output()
	if err != nil {
		var stderr []byte
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			stderr = exit.Stderr
		}
		return "", fmt.Errorf("%s %s: %w: %s", binary, strings.Join(args, " "), err, strings.TrimSpace(string(stderr)))
	}
	return string(output), nil
}

// findIptables returns the iptables command that this kernel understands, or nothing.
func findIptables(ctx context.Context) string {
	for _, name := range []string{"iptables", "iptables-legacy", "iptables-nft"} {
		path, err := exec.LookPath(name)
		if err != nil {
			continue
		}
		if _, err := iptables(ctx, path, "--wait", "-t", "nat", "-S"); err == nil {
			return path
		}
	}
	return ""
}

// shimPath returns a PATH on which the given iptables command goes by the name iptables: the engine calls it, within
// containers, to bring names of other containers to its resolver.
func shimPath(command, dir string) (string, error) {
	path := os.Getenv("PATH")
	if command == "" || filepath.Base(command) == "iptables" {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("give the engine an iptables: %w", err)
	}
	link := filepath.Join(dir, "iptables")
	err := os.Remove(link)
	if err == nil || errors.Is(err, os.ErrNotExist) {
		err = os.Symlink(command, link)
	}
	if err != nil {
		return "", fmt.Errorf("give the engine an iptables: %w", err)
	}
	return dir + string(os.PathListSeparator) + path, nil
}

// startForwarding turns the kernel's forwarding on, and notes in the file that it was off; stop reads the note.
func startForwarding(note string) error {
	value, err := os.ReadFile(forwardSwitch)
	if err != nil {
		return fmt.Errorf("read the kernel's forwarding: %w", err)
	}
	if strings.TrimSpace(string(value)) != "0" {
		return nil
	}
	if err := os.WriteFile(note, value, 0o600); err != nil {
		return fmt.Errorf("note the kernel's forwarding: %w", err)
	}
	if err := os.WriteFile(forwardSwitch, []byte("1"), 0o644); err != nil {
		return fmt.Errorf("turn forwarding on: %w", err)
	}
	return nil
}

// endForwarding turns the kernel's forwarding off again if the note says that it was.
func endForwarding(note string) error {
	value, err := os.ReadFile(note)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = os.WriteFile(forwardSwitch, value, 0o644)
	}
	if err == nil {
		err = os.Remove(note)
	}
	if err != nil {
		return fmt.Errorf("restore the kernel's forwarding: %w", err)
	}
	return nil
}
