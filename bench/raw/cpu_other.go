//go:build !unix

package raw

import "time"

// ProcessorTime is unknown here; its rows are left out.
func ProcessorTime() time.Duration { return 0 }
