// Package cutover moves a queue out of another job system into the book without
// losing or doubling a job. One folder for each old system implements [Old], and
// sourcetest is the contract that holds for all of them.
package cutover
