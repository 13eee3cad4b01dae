// Package webhook says what a job that is posted to an HTTP endpoint looks like,
// how it is signed after Standard Webhooks (https://www.standardwebhooks.com),
// and what the endpoint's answer means for the job. It sends nothing itself: what
// is here are functions of values. `daybook work --http` does the sending.
package webhook
