package postgres

import (
	"encoding/binary"
	"encoding/json"
	"strconv"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/daybookdev/daybook"
)

// cells is one row as it came over the wire: what a claim reads a thousand times
// a call, without a value made of each column. The bytes are the connection's,
// and another row's soon.
type cells struct {
	raw    [][]byte
	fields []pgconn.FieldDescription
}

func cellsOf(rows pgx.Rows) cells { return cells{rows.RawValues(), rows.FieldDescriptions()} }

func (c cells) null(i int) bool { return c.raw[i] == nil }

func (c cells) binary(i int) bool { return c.fields[i].Format == pgx.BinaryFormatCode }

// num reads an integer of any size; NULL is 0.
func (c cells) num(i int) int64 {
	b := c.raw[i]
	switch {
	case b == nil:
		return 0
	case !c.binary(i):
		n, _ := strconv.ParseInt(string(b), 10, 64)
		return n
	case len(b) == 8:
		return int64(binary.BigEndian.Uint64(b))
	case len(b) == 4:
		return int64(int32(binary.BigEndian.Uint32(b)))
	case len(b) == 2:
		return int64(int16(binary.BigEndian.Uint16(b)))
	}
	return 0
}

func (c cells) at(i int) daybook.Time { return daybook.Time(c.num(i)) }

func (c cells) text(i int) string { return string(c.raw[i]) }

func (c cells) json(i int) json.RawMessage {
	if len(c.raw[i]) == 0 {
		return nil
	}
	return append(json.RawMessage(nil), c.raw[i]...)
}

func (c cells) truth(i int) bool {
	b := c.raw[i]
	return len(b) == 1 && (b[0] == 1 || b[0] == 't')
}

func (c cells) id(i int) (id daybook.ID) {
	if c.binary(i) {
		copy(id[:], c.raw[i])
		return id
	}
	id, _ = daybook.ParseID(string(c.raw[i]))
	return id
}
