// Package ring has what bells outside the process share: the listeners of one
// process (Ears), the rings on their way out (Out), how long to wait before a
// server that failed is asked again (Pause), and, for bells with one connection
// that their client keeps, what is known of it (Link), what the server was told
// (Noted), and whether it still answers (Echo).
package ring
