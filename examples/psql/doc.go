// Package psql is the book in plain SQL: walkthrough.sql shows it step by step.
// The Go code here is only the test that runs it.
package psql
