package sqlite

import "strings"

// script runs statements that end in ";" at the end of a line. The schema's
// own files are written so.
func script(c *conn, sql string) error {
	for statement := range strings.SplitSeq(sql, ";\n") {
		if strings.TrimSpace(statement) == "" {
			continue
		}
		s, err := c.raw.Prepare(statement)
		if err != nil {
			return err
		}
		_, err = s.Exec(nil)
		s.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
