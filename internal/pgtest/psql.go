package pgtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
)

// Psql runs SQL with psql: each statement by itself, up to the first that fails.
// It returns the rows, columns separated by |, without the last line's end.
func (s *Server) Psql(database, sql string) (string, error) { return Psql(s.URL(database), sql) }

// Psql is Server.Psql for any URL, such as a PgBouncer's.
func Psql(url, sql string) (string, error) {
	cmd, err := psqlCommand(url)
	if err != nil {
		return "", err
	}
	var complaint strings.Builder
	cmd.Stdin, cmd.Stderr = strings.NewReader(sql), &complaint
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("pgtest: psql: %w: %s", err, strings.TrimSpace(complaint.String()))
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

// psqlCommand reads SQL from its standard input. No file of the user's is read.
func psqlCommand(url string) (*exec.Cmd, error) {
	psql, err := clientProgram("psql")
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(psql, "--no-psqlrc", "--no-password", "--no-align", "--tuples-only", "--quiet",
		"--set", "ON_ERROR_STOP=1", "--dbname", url, "--file", "-")
	cmd.Env = cleanEnvironment()
	return cmd, nil
}

// session is a psql that stays connected between statements.
type session struct {
	cmd       *exec.Cmd
	in        io.WriteCloser
	out       *bufio.Reader
	complaint strings.Builder
}

func openSession(url string) (*session, error) {
	cmd, err := psqlCommand(url)
	if err != nil {
		return nil, err
	}
	s := &session{cmd: cmd}
	cmd.Stderr = &s.complaint
	if s.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReader(out)
	return s, cmd.Start()
}

// ask runs one statement and returns the first line of its answer.
func (s *session) ask(sql string) (string, error) {
	fmt.Fprintln(s.in, sql) // a psql that has ended is seen by the next line
	line, err := s.out.ReadString('\n')
	if err != nil {
		_, failed := s.close()
		return "", errors.Join(fmt.Errorf("pgtest: psql: %w", err), failed)
	}
	return strings.TrimSuffix(line, "\n"), nil
}

// do runs statements that answer nothing.
func (s *session) do(sql string) error {
	_, err := s.ask(sql + "\n\\echo done")
	return err
}

// close ends the session and returns what is left of its answers.
func (s *session) close() (string, error) {
	s.in.Close()
	rest, _ := io.ReadAll(s.out)
	if err := s.cmd.Wait(); err != nil {
		return "", fmt.Errorf("pgtest: psql: %w: %s", err, strings.TrimSpace(s.complaint.String()))
	}
	return string(rest), nil
}
