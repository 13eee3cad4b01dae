package main

import (
	"crypto/tls"
	"log/slog"
	"os"
	"sync"
	"time"
)

// certificate is what HTTPS is served with. Its files are looked at for each
// connection, so that a renewed certificate is served without a restart.
type certificate struct {
	cert, key string
	log       *slog.Logger

	mu   sync.Mutex
	pair *tls.Certificate
	from [2]version // of the files, when they were read last
}

// version tells one state of a file from another.
type version struct {
	at   time.Time
	size int64
}

// loadCertificate reads the files, which must be usable at the start.
func loadCertificate(cert, key string, log *slog.Logger) (*certificate, error) {
	c := &certificate{cert: cert, key: key, log: log}
	c.from = c.versions()
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		return nil, usage("--tls-cert and --tls-key can't be used: give PEM files of a certificate and its key")
	}
	c.pair = &pair
	return c, nil
}

// versions are those of the two files now; one that is missing has none.
func (c *certificate) versions() (v [2]version) {
	for n, path := range []string{c.cert, c.key} {
		if info, err := os.Stat(path); err == nil {
			v[n] = version{info.ModTime(), info.Size()}
		}
	}
	return v
}

// current is the certificate of the files as they are. Files that can't be used,
// as between the writing of one and of the other, change nothing.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.versions()
	if now == c.from {
		return c.pair, nil
	}
	c.from = now
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		c.log.Warn("the certificate's files changed and can't be used; serving the one before", "until",
			c.pair.Leaf.NotAfter)
		return c.pair, nil
	}
	c.pair = &pair
	c.log.Info("the certificate's files changed; serving the new one", "until", pair.Leaf.NotAfter)
	return c.pair, nil
}

// config is what a listener wants.
func (c *certificate) config() *tls.Config {
	return &tls.Config{GetCertificate: c.current, MinVersion: tls.VersionTLS12}
}
