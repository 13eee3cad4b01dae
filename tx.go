package daybook

import "encoding/json"

// TxClaim is a claim as ClaimTx of the store packages needs it; worker.Claim
// is one. ClaimTx runs the handler's own database writes and the completion in
// one transaction that first locks and checks the claim.
type TxClaim interface {
	// Book is where the claim was made.
	Book() *Book
	// Job is the claimed job, with session and generation.
	Job() Job
	// Result is what the completion records; nil for none.
	Result() json.RawMessage
	// EnterTx marks that a fenced transaction of this claim runs, so that its
	// other owner writes are refused at once instead of waiting for their own
	// caller. It is an error when one runs already. leave ends the mark and
	// says whether the completion is committed.
	EnterTx() (leave func(completed bool), err error)
}
