package httpapi

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
)

func BenchmarkEncodeClaims(b *testing.B) {
	now := daybook.At(time.Now())
	answer := Claims{Session: daybook.NewID(), LeaseUntil: now}
	for range 100 {
		answer.Claims = append(answer.Claims, Claim{Generation: 1, LeaseUntil: now, Timeout: 3600, Job: daybook.Job{
			ID: daybook.NewID(), Queue: "default", Kind: "mail", Args: json.RawMessage(`{"to":"ada@example.com"}`),
			State: daybook.Running, RunAt: now, Generation: 1, MaxFailures: 20, OnLost: daybook.LostRetry,
			Session: daybook.NewID(), LeaseUntil: now, EnqueuedAt: now, ClaimedAt: now}})
	}
	v := newVerbatim()
	for b.Loop() {
		if _, err := v.encode(&answer); err != nil {
			b.Fatal(err)
		}
	}
}
