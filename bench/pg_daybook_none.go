//go:build !daybook_postgres

package main

import "context"

// openBookPG is nil as long as Daybook's own PostgreSQL store isn't built in.
var openBookPG func(ctx context.Context, url string) (peer, error)
