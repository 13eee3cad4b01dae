package daybook

import (
	"cmp"
	"context"
	"slices"
)

// Review says beforehand what reviving all that a filter matches would do.
type Review struct {
	Matched int64    `json:"matched"`
	Safe    int64    `json:"safe"`
	Unsafe  []Unsafe `json:"unsafe"` // most jobs first
}

// Unsafe counts jobs that are not safe to retry, for one reason. A job with two
// reasons is in both.
type Unsafe struct {
	Why  string `json:"why"`
	Jobs int64  `json:"jobs"`
	Open bool   `json:"open"` // an effect is open: never revived before somebody settles it
}

// Reviewed are a store's counts for a review.
type Reviewed struct {
	Matched int64
	Against int64 // of those, jobs with at least one of the effects below
	Effects []ReviewedEffect
}

// ReviewedEffect counts the jobs of which one effect is open, or whose effect
// handler happened.
type ReviewedEffect struct {
	Name   string
	Policy Policy
	Done   bool
	Jobs   int64
}

// ReviewOf puts a store's counts into the words people read: what SafeToRetry
// says of one job, for many.
func ReviewOf(counts Reviewed) Review {
	out := Review{Matched: counts.Matched, Safe: counts.Matched - counts.Against, Unsafe: []Unsafe{}}
	for _, e := range counts.Effects {
		why := "effect " + e.Name + " (" + string(e.Policy) + ") is open"
		if e.Done {
			why = "the work happened, a person said"
		}
		out.Unsafe = append(out.Unsafe, Unsafe{Why: why, Jobs: e.Jobs, Open: !e.Done})
	}
	slices.SortStableFunc(out.Unsafe, func(a, b Unsafe) int { return cmp.Compare(b.Jobs, a.Jobs) })
	return out
}

// Review counts what reviving all jobs that a filter matches would do: how many
// are safe to retry, how many are not, and why. Without a state it looks at
// set-aside jobs; only those, cancelled and expired ones can be revived. It reads
// the matched jobs once and nothing is written.
func (b *Book) Review(ctx context.Context, f Filter) (r Review, err error) {
	if f.State == "" {
		f.State = SetAside
	}
	if !Allowed(MoveRevive, f.State, Waiting) {
		return r, Invalid("state", "wants set_aside, cancelled or expired, got %s; others can't be revived",
			quote(string(f.State)))
	}
	if err := f.Check(); err != nil {
		return r, err
	}
	err = b.read(ctx, "reviewing jobs", func(v View) error {
		counts, err := v.Review(ctx, f)
		r = ReviewOf(counts)
		return err
	})
	return r, err
}
