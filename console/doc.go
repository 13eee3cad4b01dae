// Package console shows a book to people in a browser, and lets them decide. It is
// a skin over [daybook.Book]: it has no query of its own, decides nothing, and
// never says more than the book knows. Every page is made by the server and works
// without JavaScript; with it, the marked parts of a page follow the book.
package console
