// Package procs stops, continues and starts the processes of demo and drill: how
// the system does that.
package procs
