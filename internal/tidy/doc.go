// Package tidy is the house rules as tests: what imports what, which words are
// used, how long a function is, that the commands in the documents exist and
// that generated pages are current. It has no other code.
//
//	go test ./internal/tidy            # check
//	go test ./internal/tidy -rewrite   # write the generated pages anew
package tidy
