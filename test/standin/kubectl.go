package main

import (
	"os"

	_ "k8s.io/client-go/plugin/pkg/client/auth" // as kubectl itself
	"k8s.io/component-base/cli"
	"k8s.io/component-base/logs"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"

	"github.com/drover-project/drover/test/standin/config"
)

// runKubectl is kubectl; without KUBECONFIG and without a kubeconfig of the user's own it uses the administrator's.
func runKubectl() int {
	if os.Getenv("KUBECONFIG") == "" {
		own, err := os.UserHomeDir()
		if err == nil {
			_, err = os.Stat(own + "/.kube/config")
		}
		if err != nil {
			os.Setenv("KUBECONFIG", config.DefaultKubeconfig)
		}
	}
	_, _ = logs.GlogSetter(cmd.GetLogVerbosity(os.Args))
	if err := cli.RunNoErrOutput(cmd.NewDefaultKubectlCommand()); err != nil {
		util.CheckErr(err) // prints, and exits with kubectl's own codes
	}
	return 0
}
