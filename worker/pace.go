package worker

import (
	"math/rand/v2"
	"time"
)

// pace is how long handlers take here, on average. It decides how many claims
// may wait for a slot: enough that slots never stand idle while the next claim
// is under way, and so few that none waits long while another worker is free.
type pace struct {
	mean  time.Duration // 0 is unknown
	ended int           // since the watch looked
}

// waitAim is how long a claim is meant to wait for a slot.
const waitAim = 20 * time.Millisecond

// add counts a handler that returned.
func (p *pace) add(took time.Duration) {
	p.ended++
	if p.mean == 0 {
		p.mean = max(1, took)
		return
	}
	p.mean = max(1, p.mean+(took-p.mean)/16)
}

// stuck corrects the mean when nothing returned for so long: handlers that
// don't return say nothing about their time.
func (p *pace) stuck(running int, since time.Duration) {
	if p.ended == 0 && running > 0 {
		p.mean = max(p.mean, since)
	}
	p.ended = 0
}

// spare is how many claims may wait for a slot: what the slots take in waitAim,
// at most ten for each.
func (p *pace) spare(slots int) int {
	if p.mean == 0 {
		return 0
	}
	most := min(10*slots, max(slots, batchMost))
	return int(min(int64(most), int64(slots)*int64(waitAim)/int64(p.mean)))
}

// first is a first pause, half of the others or more: what many begin at once they
// don't repeat at once.
func first(d time.Duration) time.Duration { return d/2 + rand.N(max(1, d/2)) }

// jittered spreads a pause by ±20 %.
func jittered(d time.Duration) time.Duration {
	return time.Duration(float64(d) * (0.8 + 0.4*rand.Float64()))
}
