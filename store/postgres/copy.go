package postgres

import (
	"encoding/binary"
	"io"
)

// copyRows is what COPY reads in its binary format, made row by row as it is
// read.
type copyRows struct {
	count int
	row   func(i int, b copyRow) copyRow // appends row i
	next  int                            // count is the trailer
	begun bool
	made  copyRow // and not read yet
	space copyRow
}

var (
	copyHeader  = []byte("PGCOPY\n\xff\r\n\x00\x00\x00\x00\x00\x00\x00\x00\x00")
	copyTrailer = []byte{0xff, 0xff}
)

func (c *copyRows) Read(into []byte) (n int, err error) {
	for n < len(into) {
		if len(c.made) == 0 && !c.make() {
			break
		}
		took := copy(into[n:], c.made)
		c.made = c.made[took:]
		n += took
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// make makes what comes next; false is that nothing does.
func (c *copyRows) make() bool {
	switch {
	case !c.begun:
		c.begun = true
		c.made = copyHeader
	case c.next < c.count:
		c.space = c.row(c.next, c.space[:0])
		c.made = c.space
		c.next++
	case c.next == c.count:
		c.made = copyTrailer
		c.next++
	default:
		return false
	}
	return true
}

// copyRow is one row in COPY's binary format. Each method appends a column.
type copyRow []byte

func (b copyRow) begin(columns int) copyRow {
	return binary.BigEndian.AppendUint16(b, uint16(columns))
}

func (b copyRow) size(n int) copyRow { return binary.BigEndian.AppendUint32(b, uint32(n)) }

func (b copyRow) null() copyRow { return b.size(-1) }

func (b copyRow) bytes(v []byte) copyRow { return append(b.size(len(v)), v...) }

func (b copyRow) int8(v int64) copyRow {
	return binary.BigEndian.AppendUint64(b.size(8), uint64(v))
}

func (b copyRow) int4(v int64) copyRow {
	return binary.BigEndian.AppendUint32(b.size(4), uint32(v))
}

func (b copyRow) int2(v int64) copyRow {
	return binary.BigEndian.AppendUint16(b.size(2), uint16(v))
}

// text appends a text, or NULL for none.
func (b copyRow) text(s string) copyRow {
	if s == "" {
		return b.null()
	}
	return append(b.size(len(s)), s...)
}

// unless appends a bigint, or NULL where it is the default.
func (b copyRow) unless(isDefault bool, v int64) copyRow {
	if isDefault {
		return b.null()
	}
	return b.int8(v)
}
