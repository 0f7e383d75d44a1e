// Package airgap is drover airgap: the images of a site without a network in one file, which is an OCI image layout in a tar. The file is saved
// where there is a network, carried, compared with its signature, and served as a registry, loaded into one, or laid beside the images of hosts.
package airgap

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/drover-project/drover/cmd/drover/usageerr"
	pulling "github.com/drover-project/drover/installers/image"
)

// App is what the commands need of the program.
type App struct {
	Out, Err io.Writer
}

const (
	// headerLimit is how long a client of the registry may take for its request, closeLimit what answers get at the end.
	headerLimit = 10 * time.Second
	// idleLimit is how long a client may keep a connection without a request.
	idleLimit  = 2 * time.Minute
	closeLimit = 10 * time.Second
	// listLimit is how long the list of a release may take.
	listLimit = time.Minute
)

// Command is the group of commands.
func (a *App) Command() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "airgap",
		Short: "Carry all images of a site without a network in one file",
		Long: `Carry all images of a site without a network in one file.

Where there is a network, list shows what a version of Kubernetes needs, and save fetches it into a file,
signed if there is a key. At the site, verify says whether the file is whole and signed, serve is a
registry out of it, and load pushes it into a registry of the site. A copy of the file in the directories
of images of a host does without a registry.`,
	}
	cmd.AddCommand(a.listCommand(), a.saveCommand(), a.verifyCommand(), a.serveCommand(), a.loadCommand())
	return cmd
}

// flags adds those that say what a site is to have.
func (w *wanted) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringSliceVar(&w.versions, "kubernetes", nil, "version of k3s, RKE2 or RKE1, such as v1.34.4+k3s1 (repeat)")
	f.StringSliceVar(&w.networks, "cni", nil, "network of RKE2 beside canal: calico, cilium, flannel, multus (repeat)")
	f.StringSliceVar(&w.images, "image", nil, "image of your own, or a chart that is in a registry (repeat)")
	f.StringVar(&w.file, "images-file", "", "file with images, one a line; then no list of a release is fetched")
	f.StringSliceVar(&w.arch, "arch", []string{"amd64"}, "amd64 or arm64 (repeat)")
	f.StringVar(&w.releases, "releases", defaultReleases, "where releases of k3s and RKE2 are")
}

// asked says whether any image is asked for.
func (w *wanted) asked() bool { return len(w.versions)+len(w.images) > 0 || w.file != "" }

// all is the list, refused where nothing is asked for.
func (w *wanted) all(ctx context.Context) ([]string, error) {
	if !w.asked() {
		return nil, usageerr.Errorf("say what the site is for: --kubernetes, --image or --images-file")
	}
	for _, arch := range w.arch {
		if arch != "amd64" && arch != "arm64" {
			return nil, usageerr.Errorf("--arch is amd64 or arm64, not %q", arch)
		}
	}
	w.client = &http.Client{Timeout: listLimit}
	return w.list(ctx)
}

func (a *App) listCommand() *cobra.Command {
	var w wanted
	cmd := &cobra.Command{
		Use: "list", Short: "Show the images that a version of Kubernetes needs", Args: cobra.NoArgs,
		Example: "  drover airgap list --kubernetes v1.34.4+k3s1\n  drover airgap list --kubernetes v1.34.4+rke2r1 --cni cilium",
		RunE: func(cmd *cobra.Command, _ []string) error {
			images, err := w.all(cmd.Context())
			if err != nil {
				return err
			}
			fmt.Fprintln(a.Out, strings.Join(images, "\n"))
			return nil
		},
	}
	w.flags(cmd)
	return cmd
}

func (a *App) saveCommand() *cobra.Command {
	var (
		w       wanted
		s       saver
		key     string
		mirrors []string
	)
	cmd := &cobra.Command{
		Use: "save FILE", Short: "Fetch images into a file", Args: usageerr.Needs("FILE"),
		Long: `Fetch images into a file. What was fetched before an interruption stays beside the file, in FILE.part, and the
same command goes on from there; a layer that several images have is there once. Credentials of registries
are those of Docker's config.json. The list of images of a release is fetched from GitHub.`,
		Example: "  drover airgap save site.tar --kubernetes v1.34.4+k3s1 --sign-key ~/.ssh/site",
		RunE: func(cmd *cobra.Command, args []string) error {
			s.mirrors = map[string]string{}
			for _, m := range mirrors {
				registry, address, ok := strings.Cut(m, "=")
				if !ok || !strings.HasPrefix(address, "http://") && !strings.HasPrefix(address, "https://") {
					return usageerr.Errorf("--mirror is of the form docker.io=https://mirror.lan, not %q", m)
				}
				s.mirrors[registry] = address
			}
			var images []string
			if len(s.archives)+len(s.charts) == 0 || w.asked() {
				var err error
				if images, err = w.all(cmd.Context()); err != nil {
					return err
				}
			}
			s.to, s.arch, s.versions, s.transport, s.say = args[0], w.arch, w.versions, pulling.Transport(0), a.say
			if err := s.save(cmd.Context(), images, key); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "the images are in %s; at the site: drover airgap verify %s\n", args[0], args[0])
			return nil
		},
	}
	w.flags(cmd)
	cmd.Flags().StringSliceVar(&s.archives, "archive", nil, "archive of docker save, such as those of drover's agents in its release (repeat)")
	cmd.Flags().StringSliceVar(&s.charts, "chart", nil, "chart of Helm that is in no registry: a file, its address, or https://REPOSITORY#NAME:VERSION (repeat)")
	cmd.Flags().StringVar(&key, "sign-key", "", "private key of ssh-keygen, without a passphrase, that signs the file")
	cmd.Flags().StringSliceVar(&mirrors, "mirror", nil, "where a registry's images are fetched instead, docker.io=https://mirror.lan (repeat)")
	return cmd
}

// say prints a line of progress.
func (a *App) say(format string, args ...any) { fmt.Fprintf(a.Err, format+"\n", args...) }

func (a *App) verifyCommand() *cobra.Command {
	var (
		w    wanted
		keys string
	)
	cmd := &cobra.Command{
		Use: "verify FILE", Short: "Say whether a file is whole, signed, and has what a version of Kubernetes needs", Args: usageerr.Needs("FILE"),
		Long: `Say whether a file is whole: each image with all its parts, each with the digest that its name says, and nothing
besides. With --key the signature has to be of one of the keys in that file; the index is signed, which has the
digests of all images. With --kubernetes or --images-file all of these images have to be there.`,
		Example: "  drover airgap verify site.tar --key site.pub",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := openSite(args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			var images []string
			if w.asked() {
				if images, err = w.all(cmd.Context()); err != nil {
					return err
				}
			}
			n, bytes, err := s.verify(keys, images)
			if err != nil {
				return fmt.Errorf("site %s is not as it has to be:\n%w", args[0], err)
			}
			fmt.Fprintf(a.Out, "%s is whole: %d images, %d MiB", args[0], n, bytes>>20)
			if versions := s.kubernetes(); len(versions) > 0 {
				fmt.Fprintf(a.Out, ", for %s", strings.Join(versions, ", "))
			}
			if keys == "" {
				fmt.Fprint(a.Out, "; its signature was not looked at (--key)")
			}
			fmt.Fprintln(a.Out)
			return nil
		},
	}
	w.flags(cmd)
	cmd.Flags().StringVar(&keys, "key", "", "file with public keys of ssh-keygen, one of which has to have signed it")
	return cmd
}

func (a *App) serveCommand() *cobra.Command {
	var listen, cert, key string
	cmd := &cobra.Command{
		Use: "serve FILE", Short: "Be a registry, out of a file, until Ctrl-C", Args: usageerr.Needs("FILE"),
		Long: `Be a registry that is read only, out of a file, until Ctrl-C: a mirror for docker.io and all other registries that
the images are of (registries.yaml), or the site's own (drover settings set system-default-registry). It asks for
no login. Without a certificate it speaks HTTP; what is pulled is compared with its digest either way.`,
		Example: "  drover airgap serve site.tar --listen 10.0.0.1:5000 --tls-cert registry.crt --tls-key registry.key",
		RunE: func(cmd *cobra.Command, args []string) error {
			if (cert == "") != (key == "") {
				return usageerr.Errorf("--tls-cert and --tls-key go together")
			}
			s, err := openSite(args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			handler, err := newRegistry(s)
			if err != nil {
				return fmt.Errorf("serve %s: %w", args[0], err)
			}
			listener, err := new(net.ListenConfig).Listen(cmd.Context(), "tcp", listen)
			if err != nil {
				return fmt.Errorf("serve %s: %w", args[0], err)
			}
			scheme := "http"
			if cert != "" {
				pair, err := tls.LoadX509KeyPair(cert, key)
				if err != nil {
					return errors.Join(fmt.Errorf("serve %s: read the certificate: %w", args[0], err), listener.Close())
				}
				scheme, listener = "https", tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
			}
			fmt.Fprintf(a.Out, "%d images of %s are at %s://%s\n", len(s.index.Manifests), args[0], scheme, listener.Addr())
			return serve(cmd.Context(), listener, handler)
		},
	}
	f := cmd.Flags()
	f.StringVar(&listen, "listen", ":5000", "address and port")
	f.StringVar(&cert, "tls-cert", "", "certificate, PEM")
	f.StringVar(&key, "tls-key", "", "its private key, PEM")
	return cmd
}

// serve answers until the context ends; answers that have begun get some time.
func serve(ctx context.Context, listener net.Listener, handler http.Handler) error {
	server := &http.Server{Handler: handler, ReadHeaderTimeout: headerLimit, IdleTimeout: idleLimit}
	ended := make(chan error, 1)
	stop := context.AfterFunc(ctx, func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeLimit)
		defer cancel()
		if err := server.Shutdown(closing); err != nil {
			err = server.Close()
			ended <- err
			return
		}
		ended <- nil
	})
	err := server.Serve(listener)
	if stop() || !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve images: %w", err)
	}
	return <-ended
}

func (a *App) loadCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use: "load FILE", Short: "Push the images of a file into a registry of the site", Args: usageerr.Needs("FILE"),
		Long: `Push the images of a file into a registry of the site, each under its path: docker.io/rancher/mirrored-pause:3.6
becomes REGISTRY/rancher/mirrored-pause:3.6. What is there already is not pushed again. Credentials are those of
Docker's config.json.`,
		Example: "  drover airgap load site.tar --to registry.lan:5000",
		RunE: func(cmd *cobra.Command, args []string) error {
			if to == "" {
				return usageerr.Errorf("say which registry: --to registry.lan:5000")
			}
			s, err := openSite(args[0])
			if err != nil {
				return err
			}
			defer s.Close()
			if err := s.load(cmd.Context(), to, pulling.Transport(0), a.say); err != nil {
				return err
			}
			fmt.Fprintf(a.Out, "%d images are in %s\n", len(s.index.Manifests), to)
			return nil
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "registry, with a path if there is one: registry.lan:5000/hub; http://… for one without TLS")
	return cmd
}
