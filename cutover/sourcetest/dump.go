package sourcetest

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Load restores a dump (one JSON object: each key with its type, its bytes in
// base64 and the milliseconds it had to live) into an empty database.
func Load(t testing.TB, c *redis.Client, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	must(t, err)
	var dump map[string]kept
	must(t, json.Unmarshal(text, &dump))
	if n := c.DBSize(t.Context()).Val(); n != 0 {
		t.Fatalf("the database has %d keys; a dump wants an empty one", n)
	}
	for key, k := range dump {
		if raw, isHex := strings.CutPrefix(key, "hex:"); isHex {
			name, err := hex.DecodeString(raw)
			must(t, err)
			key = string(name)
		}
		k.load(t, c, key)
	}
}

// kept is one key of a dump.
type kept struct {
	Type    string            `json:"type"`
	TTL     int64             `json:"pttl"`
	Value   string            `json:"value_b64"`
	Items   []json.RawMessage `json:"items_b64"`
	Fields  map[string]string `json:"fields_b64"`
	Entries []json.RawMessage `json:"entries"`
}

func (k kept) load(t testing.TB, c *redis.Client, key string) {
	t.Helper()
	ctx := t.Context()
	switch k.Type {
	case "string":
		must(t, c.Set(ctx, key, plain(t, k.Value), 0).Err())
	case "list", "set":
		for _, raw := range k.Items {
			var item string
			must(t, json.Unmarshal(raw, &item))
			if k.Type == "list" {
				must(t, c.RPush(ctx, key, plain(t, item)).Err())
			} else {
				must(t, c.SAdd(ctx, key, plain(t, item)).Err())
			}
		}
	case "zset":
		for _, raw := range k.Items {
			var pair [2]any
			must(t, json.Unmarshal(raw, &pair))
			must(t, c.ZAdd(ctx, key, redis.Z{Member: plain(t, pair[0].(string)), Score: pair[1].(float64)}).Err())
		}
	case "hash":
		for f, v := range k.Fields {
			must(t, c.HSet(ctx, key, f, plain(t, v)).Err())
		}
	case "stream":
		for _, raw := range k.Entries {
			k.entry(t, c, key, raw)
		}
	default:
		t.Fatalf("%s is a %q, which no dump has", key, k.Type)
	}
	if k.TTL > 0 {
		must(t, c.PExpire(ctx, key, time.Duration(k.TTL)*time.Millisecond).Err())
	}
}

func (k kept) entry(t testing.TB, c *redis.Client, key string, raw json.RawMessage) {
	t.Helper()
	var id string
	var fields map[string]string
	must(t, json.Unmarshal(raw, &[]any{&id, &fields}))
	values := map[string]any{}
	for f, v := range fields {
		values[f] = plain(t, v)
	}
	must(t, c.XAdd(t.Context(), &redis.XAddArgs{Stream: key, ID: id, Values: values}).Err())
}

func plain(t testing.TB, text string) string {
	t.Helper()
	raw, err := base64.StdEncoding.DecodeString(text)
	must(t, err)
	return string(raw)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Dump is everything in a database, byte for byte and without the lives of keys.
func Dump(t testing.TB, c *redis.Client) map[string]string {
	t.Helper()
	ctx := context.Background()
	keys, err := c.Keys(ctx, "*").Result()
	must(t, err)
	all := map[string]string{}
	for _, key := range keys {
		var is any
		switch kind := c.Type(ctx, key).Val(); kind {
		case "string":
			is = c.Get(ctx, key).Val()
		case "list":
			is = c.LRange(ctx, key, 0, -1).Val()
		case "set":
			members := c.SMembers(ctx, key).Val()
			slices.Sort(members)
			is = members
		case "zset":
			is = c.Do(ctx, "ZRANGE", key, 0, -1, "WITHSCORES").Val()
		case "hash":
			is = c.HGetAll(ctx, key).Val() // Printf sorts it
		case "stream":
			is = c.XRange(ctx, key, "-", "+").Val()
		default:
			is = kind
		}
		all[key] = fmt.Sprintf("%q", is)
	}
	return all
}

// same holds two dumps together.
func same(t testing.TB, what string, before, after map[string]string) {
	t.Helper()
	for key, was := range before {
		if is, there := after[key]; !there {
			t.Errorf("%s: %q is gone, it was %s", what, key, short(was))
		} else if is != was {
			t.Errorf("%s: %q was\n%s\nand is\n%s", what, key, short(was), short(is))
		}
	}
	for key, is := range after {
		if _, there := before[key]; !there {
			t.Errorf("%s: %q is new: %s", what, key, short(is))
		}
	}
}

func short(s string) string {
	if len(s) > 600 {
		return s[:600] + "…"
	}
	return s
}
