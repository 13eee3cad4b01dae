package postgres

import (
	"encoding/base64"
	"hash/fnv"
	"strconv"
	"strings"
)

// digest says of each queue that a member doesn't listen to it, or may. It is
// small, so that a member can tell it to all others now and then; the more
// queues, the more often it says "may" of one that isn't listened to. A ring
// that goes to such a member is handed on, and everybody learns from that.
type digest [48]byte

// everything may listen to every queue.
func everything() (d digest) {
	for i := range d {
		d[i] = 0xff
	}
	return d
}

func digestOf(queues []string) (d digest) {
	for _, q := range queues {
		for _, bit := range placesOf(q) {
			d[bit/8] |= 1 << (bit % 8)
		}
	}
	return d
}

// places of a queue in a digest.
type places [4]int

func placesOf(queue string) (places places) {
	h := hash(queue)
	for i := range places {
		places[i] = int(h>>(16*i)&0xffff) % (8 * len(digest{}))
	}
	return places
}

// may reports whether the queue with these places may be listened to.
func (d *digest) may(queue places) bool {
	for _, bit := range queue {
		if d[bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
	}
	return true
}

func (d *digest) text() string {
	if *d == everything() {
		return "*"
	}
	return base64.RawURLEncoding.EncodeToString(d[:])
}

func readDigest(text string) (d digest, ok bool) {
	if text == "*" {
		return everything(), true
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(raw) != len(d) {
		return d, false
	}
	copy(d[:], raw)
	return d, true
}

// groupOf names a set of queues: members with the same one listen to the same.
func groupOf(queues []string, all bool) string {
	if all {
		return "*"
	}
	return strconv.FormatUint(hash(strings.Join(queues, "\x00")), 36)
}

// hash is the same in every process and version.
func hash(s string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(s))
	return mix(h.Sum64())
}

// mix spreads what differs in few bits over all of them (the last steps of
// MurmurHash3).
func mix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
