// Package procs is what the processes of demo and drill have in common: how they
// are stopped, continued and started, and how they speak to each other.
package procs
