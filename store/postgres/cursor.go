package postgres

import (
	"encoding/base64"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/daybookdev/daybook"
)

// A cursor is the place of the last row of a page: numbers, and perhaps a name
// behind them. It is opaque to callers.

func closeCursor(place []int64, name string) string {
	parts := make([]string, len(place))
	for i, n := range place {
		parts[i] = strconv.FormatInt(n, 36)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(strings.Join(parts, ".") + ":" + name))
}

// openCursor reads a cursor that has one of these counts of numbers. No cursor
// is a nil place.
func openCursor(cursor string, counts ...int) (place []int64, name string, err error) {
	if cursor == "" {
		return nil, "", nil
	}
	bad := daybook.Invalid("cursor", "is not one that this list gave")
	doc, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(doc) > 2*daybook.NameMax {
		return nil, "", bad
	}
	numbers, name, found := strings.Cut(string(doc), ":")
	if !found || strings.ContainsRune(name, 0) || !utf8.ValidString(name) {
		return nil, "", bad
	}
	for part := range strings.SplitSeq(numbers, ".") {
		n, err := strconv.ParseInt(part, 36, 64)
		if err != nil {
			return nil, "", bad
		}
		place = append(place, n)
	}
	for _, n := range counts {
		if n == len(place) {
			return place, name, nil
		}
	}
	return nil, "", bad
}
