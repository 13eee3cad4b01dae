// Package worker claims jobs from a book and runs handlers for them.
//
//	w := worker.New(book, worker.Config{Queues: []string{"mail"}})
//	worker.Handle(w, "welcome", func(ctx context.Context, c *worker.Claim[Welcome]) error {
//		return send(ctx, c.Args.To, c.EffectKey("mail"))
//	}, worker.KindOptions{Timeout: time.Minute})
//	err := w.Run(ctx)
//
// A worker holds one session with one lease for everything it claimed, and
// renews it. When the lease is lost, or the worker's own clock says that it
// must be, the contexts of its handlers end (cause [ErrLeaseLost]); what they
// report all the same is sent with their generation, and the book decides.
//
// How a handler ends decides what becomes of the job: nil is success, an error
// is a failure that counts and is tried again later, [Permanent] sets the job
// aside at once, [Snooze] and [Release] give it back without blame. A panic and
// runtime.Goexit are failures. Whatever ends because the worker stops or lost
// its lease is given back and counts nothing.
//
// A worker looks for work when the book's bell rings, and takes no more rings
// than it has room for. A ring is finished after one look, whatever that found;
// one that names a job claims that job, if the book allows it. Without any ring
// the poll finds everything. Beside the handlers run the reconciler and, where
// the bell is one that other processes hear, the relay, unless Config.NoLoops.
//
// The word is at-least-once: a handler may run again after a crash, so what it
// does outside must bear that, for example by the key of [Claim.EffectKey].
package worker
