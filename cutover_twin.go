package daybook

import "context"

// twin is what the book has under a request key that is the id of a job of the
// old system, which a producer may have written to both.
type twin struct {
	job  ID
	same bool // all of it equal: queue, kind and args, and nobody called it off
}

// twinOf looks for it. Old ids may be as short as a number, so that another job
// of the book may have one as its key by chance: only an equal one is a twin.
func (i *importer) twinOf(ctx context.Context, a Arriving) (t twin, err error) {
	if a.Twin == "" {
		return t, nil
	}
	known, found, err := i.tx.Key(ctx, a.Twin)
	if err != nil || !found {
		return t, err
	}
	r := a.Request
	r.Key = a.Twin
	n, err := r.Prepare()
	if err != nil {
		return t, err
	}
	state := known.State // of a job whose row is gone
	if j, there, err := i.tx.Job(ctx, known.Job); err != nil {
		return t, err
	} else if there {
		state = j.State
	}
	return twin{job: known.Job, same: known.Fingerprint == n.Fingerprint && state != Cancelled && state != Expired}, nil
}

// meets is the item of an old copy whose id is known here as a request key. Of a
// twin the old copy is dropped over there; any other job than that is for a
// person to look at.
func (i *importer) meets(t twin, a Arriving, item Item) (met Item, take bool) {
	if t.job.IsZero() {
		return item, true
	}
	if !t.same {
		item.Asked = true
		item.Note = "its id is the request key of job " + t.job.String() + ", which isn't the same or was called off"
		return item, true
	}
	item = item.taken(a.Old, Job{ID: t.job}, i.place, i.now)
	item.Again++
	i.place++
	return item, false
}
