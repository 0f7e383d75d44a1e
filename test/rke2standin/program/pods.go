//go:build ignore

package main

// Static pods: their manifests in the directory that the kubelet watches. A manifest names, by a checksum, the files
// that its process reads at its start, so that new certificates restart it and a restart of the supervisor alone does not.
// The pod's uid is the checksum of the manifest, by which its containers are known.

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

// filesAnnotation has the checksum.
const filesAnnotation = "rke2-standin/files"

// pod is one part of a node.
type pod struct {
	name       string // of the component, which is its program's too
	args       []string
	mounts     []mount
	reads      []string // files that it reads beyond those its arguments name
	health     string   // the URL that says whether it lives
	ready      []string // a command that says whether it is ready, where a URL cannot
	privileged bool
}

// manifests is the directory.
type manifests struct {
	dir      string
	registry string
	options  podOptions

	mu      sync.Mutex
	written map[string]types.UID // by this process, or found as it would have written them
}

func same(path string) mount         { return mount{source: path, target: path} }
func sameReadOnly(path string) mount { return mount{source: path, target: path, readOnly: true} }

// write writes a pod's manifest if it is another than the one there.
func (m *manifests) write(p pod) error {
	uid, text, err := m.text(p)
	if err != nil {
		return fmt.Errorf("make the static pod %s: %w", p.name, err)
	}
	path := filepath.Join(m.dir, p.name+".yaml")
	if have, err := os.ReadFile(path); err != nil || !bytes.Equal(have, text) {
		if err := os.MkdirAll(m.dir, 0o750); err != nil {
			return err
		}
		part := filepath.Join(m.dir, "."+p.name+".part") // the kubelet does not look at such names
		if err := errors.Join(os.WriteFile(part, text, 0o600), os.Rename(part, path)); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written[p.name] = uid
	return nil
}

// uid is that of a component's pod, once its manifest is what it should be.
func (m *manifests) uid(component string) (types.UID, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	uid, is := m.written[component]
	if !is {
		return "", errors.New("its manifest is not written yet")
	}
	return uid, nil
}

// text is a pod's manifest with its uid.
func (m *manifests) text(p pod) (types.UID, []byte, error) {
	made, err := m.manifest(p)
	if err != nil {
		return "", nil, err
	}
	text, err := yaml.Marshal(made)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(text)
	made.UID = types.UID(hex.EncodeToString(sum[:16]))
	text, err = yaml.Marshal(made)
	return made.UID, text, err
}

// keep removes the manifests of all components but these.
func (m *manifests) keep(names []string) error {
	var errs []error
	for _, name := range components {
		if slices.Contains(names, name) {
			continue
		}
		if err := os.Remove(filepath.Join(m.dir, name+".yaml")); err != nil && !errors.Is(err, os.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

func (m *manifests) manifest(p pod) (*corev1.Pod, error) {
	options := m.options[p.name]
	mounts := append(slices.Clone(p.mounts), options.mounts...)
	named := filesOf(p.args)
	for _, file := range named {
		if !covered(mounts, file) {
			mounts = append(mounts, sameReadOnly(file))
		}
	}
	sum, err := checksum(append(named, p.reads...))
	if err != nil {
		return nil, err
	}
	container := corev1.Container{
		Name: p.name, Image: m.image(p.name), ImagePullPolicy: corev1.PullIfNotPresent,
		Command: []string{p.name}, Args: p.args,
		SecurityContext: &corev1.SecurityContext{Privileged: &p.privileged},
	}
	if err := probes(&container, p); err != nil {
		return nil, err
	}
	for _, text := range options.env {
		name, value, _ := strings.Cut(text, "=")
		container.Env = append(container.Env, corev1.EnvVar{Name: name, Value: value})
	}
	made := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: p.name, Namespace: metav1.NamespaceSystem,
			Labels:      map[string]string{"component": p.name, "tier": "control-plane"},
			Annotations: map[string]string{filesAnnotation: sum},
		},
		Spec: corev1.PodSpec{HostNetwork: true, PriorityClassName: "system-node-critical"},
	}
	for i, mount := range mounts {
		name := "host-" + strconv.Itoa(i)
		made.Spec.Volumes = append(made.Spec.Volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: mount.source, Type: pathType(mount)},
		}})
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: mount.target, ReadOnly: mount.readOnly})
	}
	made.Spec.Containers = []corev1.Container{container}
	return made, nil
}

// image is the image of a component. All are one, under the names that people know.
func (m *manifests) image(component string) string {
	if image := m.options[component].image; image != "" {
		return image
	}
	switch component {
	case "etcd":
		return imageName(m.registry, "hardened-etcd")
	case "cloud-controller-manager":
		return imageName(m.registry, "rke2-cloud-provider")
	}
	return imageName(m.registry, "hardened-kubernetes")
}

// pathType lets the kubelet make the directories that a flag asks for, and nothing else.
func pathType(m mount) *corev1.HostPathType {
	kind := corev1.HostPathUnset
	if _, err := os.Stat(m.source); errors.Is(err, os.ErrNotExist) {
		kind = corev1.HostPathDirectoryOrCreate
	}
	return &kind
}

// probes gives a container its probes: an HTTP one decides whether it lives, a command whether it is ready.
func probes(container *corev1.Container, p pod) error {
	if len(p.ready) > 0 {
		container.ReadinessProbe = &corev1.Probe{
			ProbeHandler:     corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: p.ready}},
			TimeoutSeconds:   15,
			PeriodSeconds:    10,
			FailureThreshold: 3,
		}
	}
	if p.health == "" {
		return nil
	}
	u, err := url.Parse(p.health)
	if err != nil {
		return err
	}
	get := &corev1.HTTPGetAction{Host: u.Hostname(), Port: intstr.Parse(u.Port()), Path: u.RequestURI(), Scheme: corev1.URIScheme(strings.ToUpper(u.Scheme))}
	container.LivenessProbe = &corev1.Probe{
		ProbeHandler:        corev1.ProbeHandler{HTTPGet: get},
		InitialDelaySeconds: 10,
		TimeoutSeconds:      15,
		PeriodSeconds:       10,
		FailureThreshold:    8,
	}
	return nil
}

// filesOf are the regular files that arguments name by absolute paths.
func filesOf(args []string) []string {
	var files []string
	for _, arg := range args {
		_, value, _ := strings.Cut(arg, "=")
		if info, err := os.Stat(value); filepath.IsAbs(value) && err == nil && info.Mode().IsRegular() {
			files = append(files, value)
		}
	}
	slices.Sort(files)
	return slices.Compact(files)
}

func covered(mounts []mount, file string) bool {
	return slices.ContainsFunc(mounts, func(m mount) bool { return file == m.target || strings.HasPrefix(file, m.target+"/") })
}

// pathsIn finds what a kubeconfig or another configuration names in turn.
var pathsIn = regexp.MustCompile(`/[A-Za-z0-9._/-]+`)

// checksum is that of the files and of the files that they name.
func checksum(files []string) (string, error) {
	sum, seen := sha256.New(), map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		more := []string{file}
		for _, path := range pathsIn.FindAllString(string(text), -1) {
			if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
				more = append(more, path)
			}
		}
		for _, path := range more {
			if seen[path] {
				continue
			}
			seen[path] = true
			text, err := os.ReadFile(path)
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s %x\n", path, sha256.Sum256(text))
		}
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// portOf is the port that arguments choose; the last one counts.
func portOf(args []string, port string) string {
	for _, arg := range args {
		if value, ok := strings.CutPrefix(arg, "--secure-port="); ok {
			port = value
		}
	}
	return port
}
