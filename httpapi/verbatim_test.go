package httpapi

import (
	"bytes"
	"strings"
	"testing"

	"github.com/daybookdev/daybook"
)

// Documents come back byte for byte, spaces between their tokens too, wherever a
// job's stand.
func TestDocumentsAreKeptWithTheirSpaces(t *testing.T) { testDocumentsAreKept(newWorld(t)) }

func testDocumentsAreKept(w *world) {
	t := w.T
	docs := []string{"{ \"a\" :\t1.0,\r\n \"b\": [ ] }", "[1,\n2]", `"a b"`, `{"a":1}`, `{"mark": "` +
		strings.Trim(string(newVerbatim().mark), `"`) + `"}`}
	var all []string
	for n, doc := range docs {
		w.enqueue(n+1, `,"args":`+doc)
		all = append(all, `"args":`+doc+`,`)
		w.want(200, "GET", "/v1/jobs/"+id(n+1), "", `"args":`+doc+`,`)
	}
	w.want(200, "GET", "/v1/jobs", "", all...)
	claims := w.want(200, "POST", "/v1/claims", `{"queues":["mail"],"limit":10}`, all...)
	if strings.Contains(claims.body, string(w.api.mark)) {
		t.Errorf("the mark is told: %s", claims.body)
	}
	owner := `{"session":"` + claims.json(t)["session"].(string) + `","generation":1`
	job := "/v1/jobs/" + id(1)
	w.want(204, "POST", job+"/progress", owner+`,"progress":[ 1 ]}`)
	w.want(200, "POST", job+"/effects/e/begin", owner+`,"policy":"ask"}`)
	w.want(200, "POST", job+"/effects/e/finish", owner+`,"outcome":"done","result":{ "e": 1 }}`)
	w.want(200, "GET", "/v1/effects", "", `"result":{ "e": 1 }`)
	w.want(200, "POST", job+"/complete", owner+`,"result":{ "r": 1 }}`)
	w.want(200, "GET", job, "", `"args":`+docs[0]+`,`, `"result":{ "r": 1 }`, `"progress":[ 1 ]`)
}

// BenchmarkVerbatim: a hundred claims with args of a kilobyte, as Go's encoder
// writes them and byte for byte.
func BenchmarkVerbatim(b *testing.B) {
	for name, space := range map[string]string{"compact": "", "spaces": " "} {
		doc := []byte(`{"a":` + space + `[` + strings.Repeat(`1,`+space, 500) + `1]}`)
		claims := Claims{Claims: make([]Claim, 100)}
		for i := range claims.Claims {
			claims.Claims[i].Job = daybook.Job{Queue: "q", Kind: "k", Args: doc}
		}
		b.Run(name+"/encoder", func(b *testing.B) {
			for b.Loop() {
				var out bytes.Buffer
				if err := daybook.EncodeJSON(&out, claims); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/verbatim", func(b *testing.B) {
			v := newVerbatim()
			for b.Loop() {
				if _, err := v.encode(claims); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
