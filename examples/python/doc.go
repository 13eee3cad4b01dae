// Package python is an enqueuer and a worker in Python, on the book's SQL
// functions alone. The Go code here is only the test that runs them.
package python
