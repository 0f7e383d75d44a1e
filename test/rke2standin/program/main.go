//go:build ignore

// Command rke2 is a STAND-IN of RKE2 for tests: its supervisor is that of k3s' packages, which RKE2 builds upon too, under
// RKE2's name, paths and ports; what starts the parts of a node (executor.go and what is beside it) is written for the
// tests from what is known of RKE2's behaviour.
package main

import (
	"context"
	"errors"
	"os"

	"github.com/k3s-io/k3s/pkg/cli/agent"
	"github.com/k3s-io/k3s/pkg/cli/cert"
	"github.com/k3s-io/k3s/pkg/cli/cmds"
	"github.com/k3s-io/k3s/pkg/cli/completion"
	"github.com/k3s-io/k3s/pkg/cli/etcdsnapshot"
	"github.com/k3s-io/k3s/pkg/cli/secretsencrypt"
	"github.com/k3s-io/k3s/pkg/cli/server"
	"github.com/k3s-io/k3s/pkg/cli/token"
	"github.com/k3s-io/k3s/pkg/configfilearg"
	"github.com/k3s-io/k3s/pkg/daemons/executor"
	"github.com/sirupsen/logrus"
	"github.com/urfave/cli/v2"
)

func main() {
	app := cmds.NewApp()
	app.Usage = "a stand-in of RKE2, for tests"
	app.DisableSliceFlagSeparator = true
	serverCommand := cmds.NewServerCommand(runServer)
	serverCommand.Flags = append(serverCommand.Flags, serverFlags()...)
	agentCommand := cmds.NewAgentCommand(runAgent)
	agentCommand.Flags = append(agentCommand.Flags, nodeFlags()...)
	app.Commands = []*cli.Command{
		serverCommand,
		agentCommand,
		cmds.NewTokenCommands(token.Create, token.Delete, token.Generate, token.List, token.Rotate),
		cmds.NewEtcdSnapshotCommands(etcdsnapshot.Delete, etcdsnapshot.List, etcdsnapshot.Prune, etcdsnapshot.Save),
		cmds.NewSecretsEncryptCommands(secretsencrypt.Status, secretsencrypt.Enable, secretsencrypt.Disable, secretsencrypt.Prepare,
			secretsencrypt.Rotate, secretsencrypt.Reencrypt, secretsencrypt.RotateKeys),
		cmds.NewCertCommands(cert.Check, cert.Rotate, cert.RotateCA),
		cmds.NewCompletionCommand(completion.Bash, completion.Zsh),
	}
	speakToSupervisor(app.Commands)
	configfilearg.DefaultParser.ValidFlags["server"] = serverCommand.Flags
	if err := app.Run(configfilearg.MustParse(os.Args)); err != nil && !errors.Is(err, context.Canceled) {
		logrus.Fatalf("Error: %v", err)
	}
}

// runServer runs the supervisor of a server with what differs between RKE2 and k3s.
func runServer(c *cli.Context) error {
	config := &cmds.ServerConfig
	config.SupervisorPort, config.APIServerPort, config.APIServerBindAddress = supervisorPort, config.HTTPSPort, "0.0.0.0"
	// Without this a first server would keep its data in SQLite.
	config.ClusterInit = config.ServerURL == ""
	// Parts of k3s that RKE2 does not have or has as charts.
	config.DisableNPC = true
	// It cannot be turned off.
	config.EncryptSecrets = true
	if !c.Bool("enable-servicelb") {
		if err := c.Set("disable", "servicelb"); err != nil {
			return err
		}
	}
	for _, arg := range apiServerFiles(c, dataDirOf(config.DataDir)) {
		if err := config.ExtraAPIArgs.Set(arg); err != nil {
			return err
		}
	}
	if err := prepare(c, config.DataDir, true); err != nil {
		return err
	}
	if !config.DisableAPIServer && !config.ClusterReset {
		if err := deployNetwork(dataDirOf(config.DataDir), registryOf(c), c.StringSlice("cni")); err != nil {
			return err
		}
	}
	return server.Run(c)
}

// runAgent runs a node without a control plane.
func runAgent(c *cli.Context) error {
	if err := prepare(c, cmds.AgentConfig.DataDir, false); err != nil {
		return err
	}
	return agent.Run(c)
}

// dataDirOf is where the data is when a flag says so or not.
func dataDirOf(flag string) string {
	if flag == "" {
		return defaultDataDir
	}
	return flag
}

// prepare unpacks the runtime and makes ours the executor that the supervisor's code calls.
func prepare(c *cli.Context, dataDir string, isServer bool) error {
	dataDir = dataDirOf(dataDir)
	if err := unpackRuntime(dataDir, registryOf(c)); err != nil {
		return err
	}
	options, err := podOptionsOf(c)
	if err != nil {
		return err
	}
	n := &node{dataDir: dataDir, isServer: isServer, options: options}
	executor.Set(n)
	if isServer {
		cmds.ServerConfig.StartupHooks = append(cmds.ServerConfig.StartupHooks, n.awaitPods)
	}
	return nil
}
