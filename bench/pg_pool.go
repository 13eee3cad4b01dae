package main

import (
	"context"

	"github.com/jackc/pgx/v5/pgxpool"
)

// newPool opens up to so many connections, each with the settings.
func newPool(ctx context.Context, url string, connections int, settings map[string]string) (*pgxpool.Pool, error) {
	c, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, err
	}
	c.MaxConns = int32(connections)
	for name, value := range settings {
		c.ConnConfig.RuntimeParams[name] = value
	}
	return pgxpool.NewWithConfig(ctx, c)
}

// remainder counts what is left, by an index: a scan of all that is completed
// would cost the last jobs their speed.
type remainder struct {
	pool  *pgxpool.Pool
	query string
}

func newRemainder(ctx context.Context, url, query string) (remainder, error) {
	pool, err := newPool(ctx, url, 1, map[string]string{"enable_seqscan": "off"})
	return remainder{pool, query}, err
}

func (r remainder) left(ctx context.Context) (n int, err error) {
	return n, r.pool.QueryRow(ctx, r.query).Scan(&n)
}
