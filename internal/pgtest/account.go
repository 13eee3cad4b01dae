package pgtest

import (
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
)

// account is the user that servers run as when we are root, which they refuse.
type account struct{ uid, gid int }

// serverAccount is nil unless we are root. Then it is the user postgres, as in
// Debian's packages; the npm packages bring none, so one is made.
func serverAccount() (*account, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("postgres")
	if _, unknown := err.(user.UnknownUserError); unknown {
		out, failed := exec.Command("useradd", "--system", "--user-group", "--no-create-home",
			"--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin", "postgres").CombinedOutput()
		u, err = user.Lookup("postgres") // another process may have made it at the same time
		if err != nil {
			return nil, fmt.Errorf("pgtest: root may not run a server, and useradd made no user postgres: %v %s", failed, out)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("pgtest: looking up the user postgres: %w", err)
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, fmt.Errorf("pgtest: the user postgres has the id %q", u.Uid)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return nil, fmt.Errorf("pgtest: the user postgres has the group %q", u.Gid)
	}
	return &account{uid: uid, gid: gid}, nil
}
