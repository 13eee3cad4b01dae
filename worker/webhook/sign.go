package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/daybookdev/daybook"
)

// The headers of Standard Webhooks.
const (
	HeaderID        = "Webhook-Id"
	HeaderTimestamp = "Webhook-Timestamp" // seconds since 1970
	HeaderSignature = "Webhook-Signature" // "v1,BASE64" for each secret, between spaces
)

// Bounds of a secret, in bytes after decoding. Standard Webhooks asks for 24 to
// 64; a shorter one than SecretMin can be found by trying.
const (
	SecretMin = 16
	SecretMax = 1024
	// SecretsMax bounds how many secrets sign at once: for rotation two are enough.
	SecretsMax = 10
)

// secretPrefix begins secrets as they are written.
const secretPrefix = "whsec_"

// Secret is a key that signs what is posted. Its text never shows it.
type Secret struct{ key []byte }

// String hides the key.
func (Secret) String() string { return secretPrefix + "***" }

// GoString hides the key.
func (s Secret) GoString() string { return s.String() }

// ParseSecret reads a secret as it is written: whsec_ and base64. The prefix may
// be left out. The error never repeats what was given.
func ParseSecret(text string) (Secret, error) {
	text = strings.TrimSpace(text)
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, secretPrefix))
	switch {
	case err != nil:
		return Secret{}, daybook.Invalid("secret", "wants %s and base64, like the output of: "+
			"printf 'whsec_%%s\\n' \"$(head -c 32 /dev/urandom | base64)\"", secretPrefix)
	case len(key) < SecretMin || len(key) > SecretMax:
		return Secret{}, daybook.Invalid("secret", "wants %d…%d bytes in base64, got %d; 24…64 are usual", SecretMin,
			SecretMax, len(key))
	}
	return Secret{key}, nil
}

// ParseSecrets reads secrets between spaces or on lines of their own, in the
// order in which they sign: while one takes the place of another, both are given.
func ParseSecrets(text string) ([]Secret, error) {
	words := strings.Fields(text)
	if len(words) > SecretsMax {
		return nil, daybook.Invalid("secret", "at most %d sign at once, got %d", SecretsMax, len(words))
	}
	var all []Secret
	for _, word := range words {
		s, err := ParseSecret(word)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

// Sign is the signature of a body that is posted under an id at a time: one for
// each secret. No secret is no signature.
func Sign(secrets []Secret, id string, at time.Time, body []byte) string {
	signed := make([]string, len(secrets))
	for i, s := range secrets {
		mac := hmac.New(sha256.New, s.key)
		mac.Write([]byte(id + "." + strconv.FormatInt(at.Unix(), 10) + "."))
		mac.Write(body)
		signed[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	return strings.Join(signed, " ")
}

// SetHeaders writes the headers of Standard Webhooks. The id is the effect's key,
// the same in every attempt: whoever takes a body once for each id does each
// action once.
func SetHeaders(h http.Header, secrets []Secret, id string, at time.Time, body []byte) {
	h.Set(HeaderID, id)
	h.Set(HeaderTimestamp, strconv.FormatInt(at.Unix(), 10))
	if signature := Sign(secrets, id, at, body); signature != "" {
		h.Set(HeaderSignature, signature)
	}
}
