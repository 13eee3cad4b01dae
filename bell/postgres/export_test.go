package postgres

// For the tests with a book, which can't be in this package: the book's store
// imports it.

var (
	Wanted, OpenLogged, Closing = wanted, open, closing
	Listening, Soon, Psql       = listening, soon, psql
	ChannelOf                   = channelOf
)

const TextMax = textMax

type Text = text

// SetMuch says how full NOTIFY's queue is worth a warning.
func SetMuch(b *Bell, much float64) { b.much = much }
