package check_test

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/check"
)

func TestAccepted(t *testing.T) {
	s := newTeller(t)
	waiting := s.enqueue(daybook.Request{})
	pruned := s.enqueue(daybook.Request{Key: "a", Priority: 1})
	forgotten := s.enqueue(daybook.Request{Priority: 1})
	s.succeed()
	s.succeed()
	s.advance(8 * 24 * time.Hour)
	if n, err := s.book.Prune(t.Context(), daybook.PruneOptions{}); err != nil || n != 2 {
		t.Fatal(n, err)
	}
	never := daybook.NewID()
	for _, c := range []struct {
		name, lines string
		accepted    int64
		missing     []daybook.ID
	}{
		{"nothing", "", 0, []daybook.ID{}},
		{"empty lines", "\n \n\r\n", 0, []daybook.ID{}},
		{"ids", fmt.Sprintf("%s\n%s\r\n  %s", waiting, never, waiting), 3, []daybook.ID{never}},
		{"upper case", strings.ToUpper(waiting.String()) + "\n", 1, []daybook.ID{}},
		{"what enqueue prints", fmt.Sprintf(`{"id":"%s","replayed":false}`, waiting), 1, []daybook.ID{}},
		{"pruned, by its key", fmt.Sprintf(`{"id":"%s","key":"a"}`, pruned), 1, []daybook.ID{}},
		{"pruned, by its id alone", pruned.String(), 1, []daybook.ID{pruned}},
		{"pruned, without a key", fmt.Sprintf(`{"id":"%s"}`, forgotten), 1, []daybook.ID{forgotten}},
		{"the key of another job", fmt.Sprintf(`{"id":"%s","key":"a"}`, never), 1, []daybook.ID{never}},
		{"an unknown key", fmt.Sprintf(`{"id":"%s","key":"b"}`, never), 1, []daybook.ID{never}},
		{"many", never.String() + "\n" + strings.Repeat(waiting.String()+"\n", 4500), 4501, []daybook.ID{never}},
	} {
		got, err := check.Accepted(t.Context(), s.book, strings.NewReader(c.lines))
		if err != nil || got.Accepted != c.accepted || !slices.Equal(got.Missing, c.missing) || got.Missing == nil {
			t.Errorf("%s: got %+v, %v; want %d and %v", c.name, got, err, c.accepted, c.missing)
		}
	}
}

func TestAcceptedRefusesALine(t *testing.T) {
	s := newTeller(t)
	id := s.enqueue(daybook.Request{})
	for _, c := range []struct{ name, lines, want string }{
		{"no id", id.String() + "\n\nnonsense\n", "line 3 "},
		{"the zero id", "00000000-0000-0000-0000-000000000000", "line 1 "},
		{"JSON without an id", `{"key":"a"}`, "line 1 "},
		{"JSON with a bad id", `{"id":"1"}`, "line 1 "},
		{"broken JSON", `{"id":`, "line 1 "},
		{"too long", id.String() + "\n" + strings.Repeat("x", 2<<20), "line 2 "},
	} {
		_, err := check.Accepted(t.Context(), s.book, strings.NewReader(c.lines))
		if daybook.CodeOf(err) != daybook.CodeInvalid || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want invalid with %q", c.name, err, c.want)
		}
	}
	broken := io.MultiReader(strings.NewReader(id.String()+"\n"), failing{})
	if _, err := check.Accepted(t.Context(), s.book, broken); !errors.Is(err, io.ErrNoProgress) {
		t.Errorf("a reader that fails: got %v", err)
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrNoProgress }
