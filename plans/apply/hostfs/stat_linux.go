package hostfs

import (
	"io/fs"
	"syscall"
)

func idOf(info fs.FileInfo) (dirID, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return dirID{}, false
	}
	return dirID{st.Dev, st.Ino}, true
}

func ownerOf(info fs.FileInfo) Owner {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Owner{UID: -1, GID: -1}
	}
	return Owner{UID: int(st.Uid), GID: int(st.Gid)}
}
