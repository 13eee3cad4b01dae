// Package daybooktest helps to test code that enqueues or handles jobs: a real
// book in memory, nothing faked.
//
//	func TestSignupSendsMail(t *testing.T) {
//		book := daybooktest.New(t)
//		signUp(t.Context(), book.Book, "ada@example.org")
//		book.RequireEnqueued("welcome", daybooktest.MatchArgs(Welcome{To: "ada@example.org"}))
//	}
//
// Inside a bubble of testing/synctest the book's clock is the bubble's, so that
// a day's retries pass in no time:
//
//	synctest.Test(t, func(t *testing.T) {
//		book := daybooktest.New(t)
//		…
//		book.RunUntilIdle(t.Context(), w) // fails once
//		time.Sleep(time.Minute)
//		book.RunUntilIdle(t.Context(), w) // and is tried again
//	})
//
// When the test ends every invariant of the book is checked.
package daybooktest
