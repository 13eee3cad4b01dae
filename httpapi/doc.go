// Package httpapi is the book over HTTP: a skin over the calls of the root
// package, with no query of its own. What it adds is what the network needs:
// tokens, limits, errors for programs (RFC 9457), a description of itself
// (OpenAPI 3.1), and clients that wait for work without asking again and again.
//
// The routes are a table (see routes); OpenAPI, the page for people and the
// answers to wrong methods are read from it. huma makes the schemas out of the
// Go types. Its own request path isn't used: it reads every body twice, repeats
// wrong values in its errors, and takes "Queue" for "queue".
package httpapi
