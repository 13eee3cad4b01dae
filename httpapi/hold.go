package httpapi

import (
	"github.com/daybookdev/daybook"
)

// What people decide about held jobs, and about workers.

// holdRoutes steer what is held, and who claims.
func (s *Server) holdRoutes() []route {
	return []route{
		post(daybook.ScopeOperate, "/v1/jobs/{id}/unhold", "unholdJob", "Let claims see a held job again", s.unhold).
			shows(`{"reason":"restore checked"}`, egWaiting),
		post(daybook.ScopeOperate, "/v1/jobs/unhold", "unholdJobs", "Let claims see all held jobs that a filter matches",
			s.unholdMany).takesLong().shows(`{"filter":{"queue":"mail"},"reason":"restore checked"}`,
			`{"states":["waiting"],"matched":2,"done":2}`),
		post(daybook.ScopeOperate, "/v1/workers/{name}/quiet", "quietWorker",
			"Ask a worker to claim no more; what runs runs on", s.quietWorker).
			shows(`{"reason":"host is moved"}`,
				`{"worker":"mailer-1","sessions":1,"actor":"ops","reason":"host is moved"}`),
	}
}

// UnholdBody lets claims see one job again.
type UnholdBody struct {
	Reason string `json:"reason,omitempty" maxLength:"1024" doc:"why, for the record: 1–1024 bytes; a dry run needs none"`
	DryRun bool   `json:"dry_run,omitempty" doc:"only answer with the job as it would become"`
}

func (s *Server) unhold(c *call, in UnholdBody) (daybook.Job, error) {
	k := daybook.Bulk{Move: daybook.MoveUnhold}
	return s.decide(c, in.Reason, in.DryRun, k, func(id daybook.ID, by daybook.By) (daybook.Job, error) {
		return s.book.Unhold(c.ctx(), id, by)
	})
}

func (s *Server) unholdMany(c *call, in BulkBody) (BulkAnswer, error) {
	return s.bulk(c, in, daybook.MoveUnhold, daybook.Waiting)
}

// quietWorker takes any name that a worker may have, which isn't only letters.
func (s *Server) quietWorker(c *call, in DecideBody) (daybook.Quieted, error) {
	by, err := c.by(in.Reason)
	if err != nil {
		return daybook.Quieted{}, err
	}
	return s.book.Quiet(c.ctx(), c.r.PathValue("name"), by)
}
