package httpapi

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// row has a field of each sort that bodies have.
type row struct {
	ID   daybook.ID        `json:"id"`
	Text string            `json:"text"`
	N    int64             `json:"n"`
	Raw  json.RawMessage   `json:"raw"`
	Part *float64          `json:"part"`
	Yes  bool              `json:"yes"`
	At   daybook.Time      `json:"at"`
	Rows []row             `json:"rows"`
	Map  map[string]string `json:"map"`
}

var bodies = []string{
	`{}`, ` { "id" : "0197f0a5-7c00-7000-8000-00000000000a" , "text":"a\n\"b\\" , "n" :-5 } `,
	`{"raw":{"a":[1,{"b":"]}\\\""},null]},"part":1.5e3,"yes":true,"at":"2026-01-02T03:04:05Z"}`,
	`{"rows":[{},{"rows":[]},{"text":""}],"map":{"x":"y"}}`, `{"rows":null,"part":null,"id":null,"raw":null}`,
	`{"n":1.0}`, `{"n":9223372036854775808}`, `{"text":"\ud800"}`, `{"te\u0078t":"x"}`,
	`{"n":1}{`, `{"n":1`, `[`, ``, `nul`,
	`{"raw":` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `}`, `{"text":1}`, `{"rows":{}}`, `{"Text":"x"}`,
	"{\"text\":\"\xff\"}", `{"n":1,"n":2}`, `"x"`, `{"raw" :  -0.0e+1	,"yes":false}`,
}

// What is taken, the standard library's decoder takes too, and reads the same;
// documents inside stand as they were given.
func FuzzDecode(f *testing.F) {
	for _, body := range bodies {
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body string) {
		var got, want row
		if p := decode([]byte(body), &got); p != nil {
			if p.Detail == "" || strings.Contains(p.Detail, "\n") {
				t.Errorf("a refusal is one line, got %q", p.Detail)
			}
			return
		}
		d := json.NewDecoder(strings.NewReader(body))
		d.DisallowUnknownFields()
		if err := d.Decode(&want); err != nil {
			t.Fatalf("took %q, which the standard library refuses: %v", body, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("of %q got\n%+v, want\n%+v", body, got, want)
		}
		if !bytes.Contains([]byte(body), got.Raw) {
			t.Errorf("of %q got the document %s", body, got.Raw)
		}
	})
}

// Each place that a body can be broken at is refused, in one line.
func TestDecodeTorn(t *testing.T) {
	whole := `{"rows":[{"id":"0197f0a5-7c00-7000-8000-00000000000a","raw":{"a":[1,"\\"]}}],"yes":true}`
	for n := range len(whole) {
		var got row
		if p := decode([]byte(whole[:n]), &got); p == nil {
			t.Errorf("took %q", whole[:n])
		}
	}
	var got row
	if p := decode([]byte(whole), &got); p != nil || string(got.Rows[0].Raw) != `{"a":[1,"\\"]}` {
		t.Errorf("got %v and %+v", p, got)
	}
}
