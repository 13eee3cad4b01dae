package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certify writes a certificate for this machine, of a number that tells it from
// others.
func certify(t *testing.T, cert, key string, number int64) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	whose := &x509.Certificate{SerialNumber: big.NewInt(number), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{{127, 0, 0, 1}}}
	public, err := x509.CreateCertificate(rand.Reader, whose, whose, &secret.PublicKey, secret)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	if err != nil {
		t.Fatal(err)
	}
	for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: public},
		key: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(path, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// A renewed certificate is served without a restart, one that is half there
// isn't; who speaks HTTP to the server is told what it speaks.
func TestServeTLS(t *testing.T) {
	c := newCLI(t)
	cert, key := filepath.Join(c.dir, "cert.pem"), filepath.Join(c.dir, "key.pem")
	certify(t, cert, key, 1)
	url := c.served("--tls-cert", cert, "--tls-key", key)
	address, found := strings.CutPrefix(url, "https://")
	if !found {
		t.Fatalf("served at %s, want https", url)
	}
	served := func() int64 {
		t.Helper()
		conn, err := tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.Int64()
	}
	if got := served(); got != 1 {
		t.Errorf("served certificate %d, want the first", got)
	}
	certify(t, cert, filepath.Join(c.dir, "other.pem"), 2) // its key isn't there yet
	if got := served(); got != 1 {
		t.Errorf("served certificate %d without its key, want the first", got)
	}
	certify(t, cert, key, 23)
	if got := served(); got != 23 {
		t.Errorf("served certificate %d, want the new one", got)
	}
	if err := os.Remove(cert); err != nil {
		t.Fatal(err)
	}
	if got := served(); got != 23 {
		t.Errorf("served certificate %d without files, want the last good one", got)
	}
	for server, says := range map[string]string{"http://" + address: "it speaks HTTPS; begin the address with https://",
		url: "certificate isn't trusted"} {
		c.server, c.token = server, "none"
		if said := c.want(statusUnavailable, "job", "list").err; !strings.Contains(said, says) {
			t.Errorf("at %s: said %q, want %q", server, said, says)
		}
	}
}
