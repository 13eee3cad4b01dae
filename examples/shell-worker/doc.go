// Package shellworker is a worker in sh: checksum.sh runs for each job, run.sh
// shows it. The Go code here is only the test that runs them.
package shellworker
