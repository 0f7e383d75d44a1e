package node

import (
	"slices"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/drover-project/drover/rke1/nodeconfig"
	"github.com/drover-project/drover/test/bed/dockerstandin"
)

func TestHandStarted(t *testing.T) {
	one := func(id, name string, labels ...string) container.Summary {
		c := container.Summary{ID: id, Labels: map[string]string{agentLabel: "true"}}
		if name != "" {
			c.Names = []string{"/" + name}
		}
		for i := 0; i < len(labels); i += 2 {
			c.Labels[labels[i]] = labels[i+1]
		}
		return c
	}
	found := []container.Summary{
		one("1", "boring_wozniak"), one("2", "share-mnt"), one("3", "old-share-mnt", nodeconfig.Label, "share-mnt"),
		one("4", "k8s_agent_cattle-node-agent-x_cattle-system"), one("5", "pod", podLabel, "uid"), one("66", "self"), one("7", ""), one("8", "other", agentLabel, "false"),
	}
	var got []string
	for _, c := range handStarted(found, "/var/lib/docker/containers/66/hostname") {
		got = append(got, c.ID)
	}
	if !slices.Equal(got, []string{"1", "7"}) {
		t.Errorf("removes %v", got)
	}
}

// TestPodTakesOver has a Docker that is away when the agent's pod wants to remove the
// agent that a person started.
func TestPodTakesOver(t *testing.T) {
	m := newManagement(t)
	h := newHost(t, m)
	h.o.Managed, h.o.NoRegister = true, true
	h.docker.AddImage("agent:v1", dockerstandin.Image{Labels: map[string]string{agentLabel: "true"}})
	h.docker.Run(t, "bootstrap", "agent:v1", nil)
	h.docker.Run(t, "k8s_agent", "agent:v1", map[string]string{podLabel: "uid"})
	h.docker.Run(t, "share-mnt", "agent:v1", nil)
	h.docker.Fail("DELETE", "/containers/", 500, "busy")
	h.o.TakeOver = 50 * time.Millisecond
	h.live(t)
	waitUntil(t, "the agent of the beginning is gone", func() bool { _, there := h.docker.Containers()["bootstrap"]; return !there })
	for _, name := range []string{"k8s_agent", "share-mnt"} {
		if _, there := h.docker.Containers()[name]; !there {
			t.Errorf("%s is gone too", name)
		}
	}
}
