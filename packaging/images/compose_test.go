package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// TestComposeFitsTheImage: what the compose file says of the image is what the image is.
func TestComposeFitsTheImage(t *testing.T) {
	text, err := os.ReadFile("../release/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image    string   `yaml:"image"`
			Command  []string `yaml:"command"`
			Ports    []string `yaml:"ports"`
			Volumes  []string `yaml:"volumes"`
			ReadOnly bool     `yaml:"read_only"`
			Tmpfs    []string `yaml:"tmpfs"`
			CapDrop  []string `yaml:"cap_drop"`
		} `yaml:"services"`
		Volumes map[string]any `yaml:"volumes"`
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	service, of := file.Services["server"], images["server"]
	entries, err := of.entries(options{server: "/bin/busybox", arch: "amd64"})
	if err != nil && !strings.Contains(err.Error(), "is for") {
		t.Fatal(err)
	}
	volume, target, _ := strings.Cut(service.Volumes[0], ":")
	if _, ok := file.Volumes[volume]; !ok || !slices.ContainsFunc(entries, func(e entry) bool { return "/"+e.path == target && e.owner == serverUser }) {
		t.Errorf("volume %s at %s is not declared, or is no directory of the server's user in the image", volume, target)
	}
	if !strings.HasPrefix(service.Image, "docker.io/"+of.name+":") {
		t.Errorf("image %s is not %s", service.Image, of.name)
	}
	port, _, _ := strings.Cut(slices.Collect(func(yield func(string) bool) {
		for port := range of.config.ExposedPorts {
			yield(port)
		}
	})[0], "/")
	if !strings.HasSuffix(service.Ports[0], ":"+port) || service.Command[0] != of.config.Cmd[0] {
		t.Errorf("port %s and command %v are not those of the image: %s, %v", service.Ports[0], service.Command, port, of.config.Cmd)
	}
	if !service.ReadOnly || len(service.Tmpfs) != 1 || !slices.Equal(service.CapDrop, []string{"ALL"}) || len(of.config.Volumes) != 0 {
		t.Errorf("the container is not as closed as the documentation says: %+v", service)
	}
}
