package console

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"github.com/daybookdev/daybook"
)

// Charts are small pictures of numbers, made here: each is an image with words
// for those who don't see it, and nothing in it is anybody's text but ours.

// svg puts a picture together.
type svg struct{ strings.Builder }

func (s *svg) put(format string, args ...any) { fmt.Fprintf(s, format, args...) }

// html closes the picture. Its words are escaped.
func (s *svg) html(class string, wide, high int, says string) template.HTML {
	return template.HTML(fmt.Sprintf(`<svg class="%s" viewBox="0 0 %d %d" role="img" aria-label="%s" `+
		`preserveAspectRatio="none">%s</svg>`, class, wide, high, template.HTMLEscapeString(says), s.String()))
}

const chartWide, chartHigh = 600, 90

// chartSteps bounds the points of a chart: more would be noise.
const chartSteps = 90

// merged joins neighbouring steps, so that there are at most so many.
func merged(steps []step, most int) []step {
	each := (len(steps) + most - 1) / most
	if each < 2 {
		return steps
	}
	var out []step
	for i := len(steps) % each; i+each <= len(steps); i += each { // the oldest few don't fill one
		sum := steps[i]
		for _, s := range steps[i+1 : i+each] {
			sum.To, sum.Eligible = s.To, s.Eligible
			sum.In += s.In
			sum.Attempts += s.Attempts
			sum.Succeeded += s.Succeeded
			sum.SetAside += s.SetAside
		}
		out = append(out, sum)
	}
	return out
}

// flowChart draws what came in and what went through, each minute, and says what
// its top stands for.
func flowChart(steps []step) (picture template.HTML, top string) {
	steps = merged(steps, chartSteps)
	in, done, aside := make([]float64, len(steps)), make([]float64, len(steps)), make([]float64, len(steps))
	at := placesOf(steps, chartWide)
	most := 1.0
	for i, s := range steps {
		minutes := max(s.To.Sub(s.From).Minutes(), 1.0/600)
		in[i], done[i], aside[i] = float64(s.In)/minutes, float64(s.Succeeded)/minutes, float64(s.SetAside)/minutes
		most = max(most, in[i], done[i], aside[i])
	}
	var s svg
	for _, y := range []float64{0.25, 0.5, 0.75} {
		s.put(`<path class="grid" d="M0 %.1fH%d"/>`, y*chartHigh, chartWide)
	}
	s.put(`<path class="area done" d="%sL%d %dL0 %dZ"/>`, line(at, done, most, chartHigh), chartWide, chartHigh, chartHigh)
	s.put(`<path class="line in" d="%s"/><path class="line done" d="%s"/><path class="line aside" d="%s"/>`,
		line(at, in, most, chartHigh), line(at, done, most, chartHigh), line(at, aside, most, chartHigh))
	says := "No flow yet."
	if n := len(steps); n > 0 {
		says = fmt.Sprintf("Jobs a minute from %s to %s: at last %s in, %s succeeded, %s set aside; the most is %s.",
			steps[0].From, steps[n-1].To, perMinute(in[n-1]), perMinute(done[n-1]), perMinute(aside[n-1]), perMinute(most))
	}
	return s.html("chart", chartWide, chartHigh, says), perMinute(most)
}

func perMinute(n float64) string {
	if n > 0 && n < 10 {
		return fmt.Sprintf("%.1f", n)
	}
	return num(int64(n + 0.5))
}

// span is where a step begins and ends on a width.
type span struct{ from, to float64 }

// placesOf puts steps on a width by when they were. One that lasted like its
// neighbours is drawn as a point at its end; one that lasted much longer, since
// nobody looked, as the flat stretch that it is.
func placesOf(steps []step, wide float64) []span {
	at := make([]span, len(steps))
	if len(steps) == 0 {
		return at
	}
	first, last := steps[0].From, steps[len(steps)-1].To
	x := func(t daybook.Time) float64 { return float64(t-first) / float64(max(1, last-first)) * wide }
	lengths := make([]daybook.Time, len(steps))
	for i, s := range steps {
		lengths[i] = s.To - s.From
	}
	slices.Sort(lengths)
	usual := lengths[len(lengths)/2]
	for i, s := range steps {
		at[i] = span{x(s.To), x(s.To)}
		if i == 0 || s.To-s.From > 3*usual {
			at[i].from = x(s.From)
		}
	}
	return at
}

// line is the path of values between 0 and most over the places of a picture so
// high.
func line(at []span, values []float64, most, high float64) string {
	if len(at) == 0 {
		return fmt.Sprintf("M0 %.1f", high)
	}
	var b strings.Builder
	b.WriteString("M")
	for i, v := range values {
		y := high - 2 - v/most*(high-4)
		if at[i].from != at[i].to {
			fmt.Fprintf(&b, "%.1f %.1fL", at[i].from, y)
		}
		fmt.Fprintf(&b, "%.1f %.1fL", at[i].to, y)
	}
	return strings.TrimSuffix(b.String(), "L")
}

const sparkWide, sparkHigh = 120, 24

// spark is one queue's backlog over time, in the room of a word.
func spark(steps []step) template.HTML {
	steps = merged(steps, sparkWide/2)
	var s svg
	most, values := int64(1), make([]float64, len(steps))
	for i, st := range steps {
		most, values[i] = max(most, st.Eligible), float64(st.Eligible)
	}
	if len(steps) < 2 {
		s.put(`<path class="grid" d="M0 %dH%d"/>`, sparkHigh-1, sparkWide)
		return s.html("spark", sparkWide, sparkHigh, "no samples yet")
	}
	path := line(placesOf(steps, sparkWide), values, float64(most), sparkHigh)
	s.put(`<path class="area wait" d="%sL%d %dL0 %dZ"/><path class="line wait" d="%s"/>`, path, sparkWide, sparkHigh,
		sparkHigh, path)
	return s.html("spark", sparkWide, sparkHigh, fmt.Sprintf("ready jobs since %s: now %s, at most %s", steps[0].From,
		num(steps[len(steps)-1].Eligible), num(most)))
}

// The picture of a job's attempts: time from left to right, an attempt a lane.
const (
	lifeWide, lifeLeft, lifeLane, lifeTop = 1000, 8, 22, 26
	lifeLanes                             = 24 // the newest; older ones are counted
)

// life draws a job's attempts over time, from acceptance to its end or now.
func life(j daybook.Job, attempts []daybook.Attempt, events []daybook.Event, now daybook.Time) template.HTML {
	end := max(j.EndedAt, j.EnqueuedAt+1)
	if j.State == daybook.Waiting || j.State == daybook.Running {
		end = max(now, end)
		if j.RunAt > end {
			end = j.RunAt
		}
	}
	for _, a := range attempts {
		end = max(end, a.EndedAt)
	}
	for _, e := range events {
		end = max(end, e.At)
	}
	if over := len(attempts) - lifeLanes; over > 0 {
		attempts = attempts[over:]
	}
	span := float64(end - j.EnqueuedAt)
	x := func(t daybook.Time) float64 {
		t = min(max(t, j.EnqueuedAt), end)
		return lifeLeft + float64(t-j.EnqueuedAt)/span*(lifeWide-2*lifeLeft)
	}
	running := 0
	if j.State == daybook.Running {
		running = 1
	}
	lanes := max(1, len(attempts)+running)
	high := lifeTop + lanes*lifeLane + 8
	var s svg
	s.put(`<path class="axis" d="M%d %dH%d"/>`, lifeLeft, lifeTop-8, lifeWide-lifeLeft)
	for _, e := range events {
		class := "tick"
		switch {
		case e.Actor != "":
			class = "tick person"
		case e.What == "fenced":
			class = "tick fenced"
		case strings.HasPrefix(e.What, "effect"):
			class = "tick effect"
		}
		s.put(`<path class="%s" d="M%.1f %dv%d"/>`, class, x(e.At), lifeTop-13, 10)
	}
	for i, a := range attempts {
		y := lifeTop + i*lifeLane
		s.put(`<path class="guide" d="M%d %dH%d"/>`, lifeLeft, y+8, lifeWide-lifeLeft)
		from, to := x(a.ClaimedAt), x(a.EndedAt)
		s.put(`<rect class="bar o-%s" x="%.1f" y="%d" width="%.1f" height="12" rx="2">`+
			`<title>generation %d: %s</title></rect>`,
			a.Outcome, min(from, lifeWide-lifeLeft-5), y+2, max(5, to-from), a.Generation, words(a.Outcome))
	}
	if running == 1 {
		y := lifeTop + len(attempts)*lifeLane
		from := x(j.ClaimedAt)
		s.put(`<rect class="bar o-running" x="%.1f" y="%d" width="%.1f" height="12" rx="2"><title>generation %d: running`+
			`</title></rect>`, min(from, lifeWide-lifeLeft-5), y+2, max(5, x(now)-from), j.Generation)
	}
	return s.html("life", lifeWide, high, fmt.Sprintf("%s over %s; each is told in the timeline",
		count(len(attempts)+running, "attempt"), lasted(end.Sub(j.EnqueuedAt))))
}
