package main

// cert-deployer: variables become files.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const certificatesDir = "/etc/kubernetes/ssl"

// deployCertificates writes the certificates, keys and kubeconfigs that the environment has. What exists stays, unless
// FORCE_DEPLOY is true; a kubeconfig stays in any case.
func deployCertificates(environment []string) error {
	variables := map[string]string{}
	for _, one := range environment {
		name, value, _ := strings.Cut(one, "=")
		variables[name] = value
	}
	dir := certificatesDir
	if other := variables["CRTS_DEPLOY_PATH"]; other != "" {
		dir = other
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var errs []error
	for name, value := range variables {
		file, overwrite := certificateFile(name), variables["FORCE_DEPLOY"] == "true"
		if file == "" {
			continue
		}
		if strings.HasSuffix(file, ".yaml") {
			overwrite = false
		}
		errs = append(errs, deploy(filepath.Join(dir, file), value, overwrite, variables))
	}
	return errors.Join(errs...)
}

// certificateFile is the name of the file that a variable becomes; empty for any other variable.
func certificateFile(variable string) string {
	name := strings.ToLower(strings.ReplaceAll(variable, "_", "-"))
	switch {
	case strings.HasPrefix(name, "kubecfg-"):
		return name + ".yaml"
	case strings.HasPrefix(name, "kube-"):
		return name + ".pem"
	default:
		return ""
	}
}

func deploy(path, content string, overwrite bool, variables map[string]string) error {
	if _, err := os.Stat(path); err == nil && !overwrite {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(path+".new", []byte(content), 0o600); err != nil {
		return err
	}
	uid, gid := variables["ETCD_UID"], variables["ETCD_GID"]
	base := filepath.Base(path)
	if uid != "" && strings.HasPrefix(base, "kube-etcd") {
		u, uidErr := strconv.Atoi(uid)
		g, gidErr := strconv.Atoi(gid)
		if err := errors.Join(uidErr, gidErr); err != nil {
			return fmt.Errorf("read the owner of etcd's certificates: %w", err)
		}
		if err := os.Chown(path+".new", u, g); err != nil {
			return err
		}
	}
	if uid != "" && base == "kube-ca.pem" {
		if err := os.Chmod(path+".new", 0o644); err != nil {
			return err
		}
	}
	return os.Rename(path+".new", path)
}
