package main

import (
	"strings"

	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/bell/local"
)

// bellOf makes the bell that a --bell URL names; "" is the default.
func bellOf(url string) (daybook.Bell, error) {
	scheme, _, _ := strings.Cut(url, ":")
	switch {
	case url == "" || url == "local:":
		return local.New(), nil
	case url == "none:":
		return daybook.NoBell{}, nil
	case scheme == "postgres" || scheme == "redis" || scheme == "rediss" || scheme == "nats" ||
		scheme == "amqp" || scheme == "amqps":
		return nil, notYet("--bell "+scheme+":", "use local: or none:")
	}
	return nil, usage("--bell wants local: or none:, got %q", cut(url, cellMax))
}
