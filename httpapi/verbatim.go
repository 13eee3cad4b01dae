package httpapi

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"slices"

	"github.com/daybookdev/daybook"
)

// verbatim writes answers in which the documents of jobs stand byte for byte. Go's
// encoder leaves out the spaces between their tokens, so a mark is encoded in
// their place. Nobody can put it into a document: it is random, and no answer ever
// holds it.
type verbatim struct{ mark []byte }

func newVerbatim() verbatim { return verbatim{[]byte(`"` + rand.Text() + `"`)} }

// documents are those of one answer that the encoder would change, or take long
// over, in order.
type documents struct {
	verbatim
	kept []json.RawMessage
}

// markFrom is how long a document is, in bytes, that is cheaper to copy than to let
// the encoder read.
const markFrom = 256

// keep gives what to encode in a document's place.
func (d *documents) keep(doc json.RawMessage) json.RawMessage {
	if len(doc) >= markFrom {
		d.kept = append(d.kept, doc)
		return d.mark
	}
	for _, space := range []byte(" \n\t\r") {
		if bytes.IndexByte(doc, space) >= 0 {
			d.kept = append(d.kept, doc)
			return d.mark
		}
	}
	return doc
}

// job keeps a job's documents, in the order in which they are written.
func (d *documents) job(j daybook.Job) daybook.Job {
	j.Args, j.Result, j.Progress = d.keep(j.Args), d.keep(j.Result), d.keep(j.Progress)
	return j
}

// marked is an answer with marks. What it was made of stays as it is.
func (d *documents) marked(answer any) any {
	switch v := answer.(type) {
	case daybook.Job:
		return d.job(v)
	case JobPage:
		v.Jobs = slices.Clone(v.Jobs)
		for i := range v.Jobs {
			v.Jobs[i] = d.job(v.Jobs[i])
		}
		return v
	case Claims:
		v.Claims = slices.Clone(v.Claims)
		for i := range v.Claims {
			v.Claims[i].Job = d.job(v.Claims[i].Job)
		}
		return v
	case EffectPage:
		v.Effects = slices.Clone(v.Effects)
		for i := range v.Effects {
			v.Effects[i].Result = d.keep(v.Effects[i].Result)
		}
		return v
	case daybook.Begun:
		v.Result = d.keep(v.Result)
		return v
	}
	return answer
}

// encode writes an answer as JSON.
func (v verbatim) encode(answer any) ([]byte, error) {
	d := documents{verbatim: v}
	var b bytes.Buffer
	if err := daybook.EncodeJSON(&b, d.marked(answer)); err != nil || len(d.kept) == 0 {
		return b.Bytes(), err
	}
	size := b.Len()
	for _, doc := range d.kept {
		size += len(doc)
	}
	out, rest := make([]byte, 0, size), b.Bytes()
	for _, doc := range d.kept {
		before, after, _ := bytes.Cut(rest, v.mark)
		out, rest = append(append(out, before...), doc...), after
	}
	return append(out, rest...), nil
}
