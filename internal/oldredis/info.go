package oldredis

import (
	"context"
	"strconv"
	"strings"
)

// infoInt is a number out of Redis' INFO, 0 where it isn't.
func infoInt(text, field string) int64 {
	n, _ := strconv.ParseInt(infoText(text, field), 10, 64)
	return n
}

func infoText(text, field string) string {
	for line := range strings.Lines(text) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), ":"); name == field {
			return value
		}
	}
	return ""
}

// Risks are sentences about how this store may lose what lies in it, the held
// list too.
func (s *Store) Risks(ctx context.Context) ([]string, error) {
	text, err := s.Info(ctx, "memory").Result()
	if err != nil {
		return nil, s.Err("asking for its memory", err)
	}
	var risks []string
	if policy := infoText(text, "maxmemory_policy"); infoInt(text, "maxmemory") > 0 &&
		strings.HasPrefix(policy, "allkeys-") {
		risks = append(risks, "maxmemory-policy is "+policy+": when memory runs out, Redis throws jobs away, "+
			"held ones too; set noeviction")
	}
	return risks, nil
}
