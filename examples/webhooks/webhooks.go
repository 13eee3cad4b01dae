// Package webhooks holds 329 webhook deliveries as GitHub sends them: real
// input for the demo, the examples and their tests. The bodies come from the
// Octokit project under the MIT licence (see LICENSE beside this file); the
// delivery ids are made up and stable.
package webhooks

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
)

//go:embed github-webhooks.jsonl
var file []byte

// Delivery is one webhook delivery.
type Delivery struct {
	ID     string          `json:"delivery"`         // X-GitHub-Delivery; the same again when GitHub redelivers
	Event  string          `json:"event"`            // X-GitHub-Event
	Action string          `json:"action,omitempty"` // "" for events that have none
	Body   json.RawMessage `json:"payload"`          // byte for byte, 0.9 KB to 27 KB
}

// Kind is the delivery's job kind: its event and action, like "issues.opened".
func (d Delivery) Kind() string {
	if d.Action == "" {
		return d.Event
	}
	return d.Event + "." + d.Action
}

// Deliveries reads them all, each call into fresh memory, in the order of the
// file. It panics when the embedded file is broken, which a test rules out.
func Deliveries() []Delivery {
	lines := bytes.Split(bytes.TrimSuffix(file, []byte("\n")), []byte("\n"))
	deliveries := make([]Delivery, len(lines))
	for i, line := range lines {
		if err := json.Unmarshal(line, &deliveries[i]); err != nil {
			panic(fmt.Sprintf("webhooks: line %d: %v", i+1, err))
		}
	}
	return deliveries
}
