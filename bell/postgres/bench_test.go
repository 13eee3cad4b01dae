package postgres

import (
	"fmt"
	"testing"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/belltest"
	"github.com/daybookdev/daybook/internal/pgtest"
)

func BenchmarkRing(b *testing.B) {
	for _, listeners := range []int{1, 30} {
		b.Run(fmt.Sprintf("listeners=%d", listeners), func(b *testing.B) {
			url, schema := pgtest.SharedURL(b), fmt.Sprintf("bench-%d", placesUsed.Add(1))
			belltest.Bench(b, listeners, []string{"mail"}, func() (daybook.Outside, error) {
				return Open(b.Context(), url, Options{Schema: schema})
			})
		})
	}
}
