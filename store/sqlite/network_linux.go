package sqlite

import (
	"errors"
	"syscall"

	"github.com/daybookdev/daybook"
)

// networks are the file systems whose locks SQLite can't trust, by the magic
// number that statfs gives.
var networks = map[int64]string{
	0x6969:     "NFS",
	0xff534d42: "CIFS",
	0xfe534d42: "SMB2",
	0x517b:     "SMB",
	0x01021997: "9P",
	0x564c:     "NCP",
	0x5346414f: "AFS",
	0x73757245: "Coda",
	0x00c36400: "Ceph",
	0x0bd00bd0: "Lustre",
	0x47504653: "GPFS",
	0x013111a8: "IBRIX",
}

// refuseNetwork refuses a path on a network file system.
func refuseNetwork(path string) error {
	name, err := networkOf(dirOf(path))
	if err != nil || name == "" {
		return nil // a folder that isn't there is the open's own error
	}
	return daybook.Invalid("db", "lies on a network file system (%s), whose locks SQLite can't trust; choose a local disk", name)
}

func networkOf(dir string) (string, error) {
	var st syscall.Statfs_t
	for {
		err := syscall.Statfs(dir, &st)
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		return networks[int64(uint32(st.Type))], err
	}
}

func freeSpace(dir string) (uint64, error) {
	var st syscall.Statfs_t
	err := syscall.Statfs(dir, &st)
	return st.Bavail * uint64(st.Bsize), err
}
