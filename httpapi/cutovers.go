package httpapi

import (
	"github.com/daybookdev/daybook"
	"github.com/daybookdev/daybook/cutover"
)

// Cutovers are the queues that move in from other systems, or have.
type Cutovers struct {
	Cutovers []daybook.Cutover `json:"cutovers"`
}

func (s *Server) cutovers(c *call) (Cutovers, error) {
	list, err := s.book.Cutovers(c.ctx())
	return Cutovers{orEmpty(list)}, err
}

// cutover is the phase board of one, from the book alone: what is in the old
// store now, only the command line can ask.
func (s *Server) cutover(c *call) (cutover.Board, error) {
	name, err := c.name("name")
	if err != nil {
		return cutover.Board{}, err
	}
	record, err := s.book.Cutover(c.ctx(), name)
	if err != nil {
		return cutover.Board{}, err
	}
	return cutover.BoardOf(c.ctx(), s.book, record, nil)
}

// CutoverItems is a page of an old system's jobs.
type CutoverItems struct {
	Items  []daybook.Item `json:"items"`
	Cursor string         `json:"cursor,omitempty"`
}

func (s *Server) cutoverItems(c *call) (CutoverItems, error) {
	name, err := c.name("name")
	if err != nil {
		return CutoverItems{}, err
	}
	limit, cursor, err := c.page()
	if err != nil {
		return CutoverItems{}, err
	}
	page, err := s.book.Items(c.ctx(), daybook.ItemFilter{Cutover: name, ID: c.asked("id"),
		Term: daybook.Term(c.asked("term")), Limit: limit, Cursor: cursor})
	return CutoverItems{Items: orEmpty(page.Items), Cursor: page.Cursor}, inQuery(err)
}
