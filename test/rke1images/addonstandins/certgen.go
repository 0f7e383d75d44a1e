package main

// The program of the Jobs that make the certificate of the ingress controller's webhook.

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"flag"
	"math/big"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func certgen(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return errors.New("takes a command: create or patch")
	}
	flags := flag.NewFlagSet("kube-webhook-certgen", flag.ContinueOnError)
	namespace, secret := flags.String("namespace", "", ""), flags.String("secret-name", "", "")
	host, webhook, policy := flags.String("host", "", ""), flags.String("webhook-name", "", ""), flags.String("patch-failure-policy", "", "")
	flags.Bool("patch-mutating", true, "")
	flags.Bool("patch-validating", true, "")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	a, err := inCluster()
	if err != nil {
		return err
	}
	secrets := a.CoreV1().Secrets(*namespace)
	is, err := secrets.Get(ctx, *secret, metav1.GetOptions{})
	if args[0] == "create" {
		if !apierrors.IsNotFound(err) {
			return err // it is there, or cannot be read
		}
		data, err := selfSigned(strings.Split(*host, ","))
		if err != nil {
			return err
		}
		_, err = secrets.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: *secret}, Data: data}, metav1.CreateOptions{})
		return err
	}
	if err != nil {
		return err
	}
	all := a.AdmissionregistrationV1().ValidatingWebhookConfigurations()
	w, err := all.Get(ctx, *webhook, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for i := range w.Webhooks {
		w.Webhooks[i].ClientConfig.CABundle = is.Data["ca"]
		if *policy != "" {
			p := admissionv1.FailurePolicyType(*policy)
			w.Webhooks[i].FailurePolicy = &p
		}
	}
	_, err = all.Update(ctx, w, metav1.UpdateOptions{})
	return err
}

// selfSigned is a certificate that is its own CA.
func selfSigned(names []string) (map[string][]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.Unix()), Subject: pkix.Name{CommonName: names[0]}, DNSNames: names, IsCA: true, BasicConstraintsValid: true,
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(10, 0, 0), KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return map[string][]byte{"ca": cert, "cert": bytes.Clone(cert), "key": pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})}, nil
}
