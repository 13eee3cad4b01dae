// Package ring has what bells outside the process share: the listeners of one
// process (Ears), the rings on their way out (Out), and how long to wait before
// a server that failed is asked again (Pause).
package ring
