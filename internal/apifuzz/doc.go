// Package apifuzz makes wrong calls of an API from what it says of itself: the
// OpenAPI document that the server hands out is all it reads. It also holds every
// answer to that document.
//
// Each call is drawn from a seed and its number alone, so that one which finds a
// fault is made again by these two.
package apifuzz
