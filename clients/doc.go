// Package clients holds the clients of the HTTP API for other languages, each in a
// folder of its own. The Go code here is only the test that runs theirs against the
// real server, and their workers against one that is killed.
package clients
