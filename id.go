package daybook

import (
	"crypto/rand"
	"encoding/hex"
	"time"
)

// ID is an opaque UUID: of a job, a session or a call. Version 7 by default
// (RFC 9562), so that new rows land beside each other on disk; no rule reads
// the time in it, since callers may choose job ids and their clocks lie.
type ID [16]byte

// NewID makes a version 7 UUID from the process's clock and 74 random bits.
func NewID() ID {
	var id ID
	rand.Read(id[6:])
	ms := uint64(time.Now().UnixMilli())
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6] = id[6]&0x0f | 0x70
	id[8] = id[8]&0x3f | 0x80
	return id
}

// ParseID reads the 36 character form, in either case. Anything else is
// refused with CodeInvalid.
func ParseID(s string) (ID, error) {
	var id ID
	bad := func() (ID, error) {
		return ID{}, Invalid("id", "wants a UUID like 0190a2b4-7c1e-7000-8000-000000000000, got %s", quote(s))
	}
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' {
		return bad()
	}
	raw, err := hex.DecodeString(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
	if err != nil {
		return bad()
	}
	copy(id[:], raw)
	if id.IsZero() {
		return bad()
	}
	return id, nil
}

// IsZero reports whether the id was never set.
func (id ID) IsZero() bool { return id == ID{} }

func (id ID) String() string {
	var text [36]byte
	out, _ := id.AppendText(text[:0])
	return string(out)
}

// AppendText appends the 36 character form. The error is always nil.
func (id ID) AppendText(to []byte) ([]byte, error) {
	for i, part := range [...][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:]} {
		if i > 0 {
			to = append(to, '-')
		}
		to = hex.AppendEncode(to, part)
	}
	return to, nil
}

// MarshalText writes the 36 character form.
func (id ID) MarshalText() ([]byte, error) { return id.AppendText(make([]byte, 0, 36)) }

// UnmarshalText reads the 36 character form.
func (id *ID) UnmarshalText(text []byte) error {
	parsed, err := ParseID(string(text))
	if err != nil {
		return err
	}
	*id = parsed
	return nil
}
