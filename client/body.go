package client

import (
	"bytes"
	"encoding/json"
	"reflect"
	"time"

	"github.com/daybookdev/daybook"
)

// object is a body under construction. Documents go in byte for byte: Go's
// encoder would take their spaces out.
type object struct{ bytes.Buffer }

// field adds a field, unless it has the zero value.
func (o *object) field(name string, value any) *object {
	if v := reflect.ValueOf(value); !v.IsValid() || v.IsZero() || v.Kind() == reflect.Slice && v.Len() == 0 {
		return o
	}
	return o.always(name, value)
}

// always adds a field, whatever its value.
func (o *object) always(name string, value any) *object {
	if o.Len() == 0 {
		o.WriteByte('{')
	} else {
		o.WriteByte(',')
	}
	o.WriteString(`"` + name + `":`)
	if doc, ok := value.(json.RawMessage); ok {
		o.Write(doc)
		return o
	}
	_ = daybook.EncodeJSON(&o.Buffer, value) // of our own types, which always encode
	o.Truncate(o.Len() - 1)                  // the encoder's end of line
	return o
}

// span adds a duration in seconds, unless it is zero.
func (o *object) span(name string, d time.Duration) *object { return o.field(name, d.Seconds()) }

// done is the body.
func (o *object) done() []byte {
	if o.Len() == 0 {
		o.WriteByte('{')
	}
	o.WriteByte('}')
	return o.Bytes()
}

// list puts bodies into a list.
func list(items [][]byte) []byte {
	return append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']')
}

// encoded is a value as a body.
func encoded(value any) []byte {
	var b bytes.Buffer
	_ = daybook.EncodeJSON(&b, value)
	return b.Bytes()
}
