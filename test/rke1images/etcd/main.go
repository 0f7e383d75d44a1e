// Command etcd is etcd or etcdctl, by the name it is started under: the real ones, of the line 3.5 that RKE1 has. Later ones
// of that line refuse the API server of 1.23, whose client names itself in a way that HTTP/2 does not allow. It is a
// module of its own, because drover itself stands on a newer line.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	switch name := filepath.Base(os.Args[0]); name {
	case "etcd":
		etcdmain.Main(os.Args)
	case "etcdctl":
		ctlv3.MustStart()
	default:
		fmt.Fprintf(os.Stderr, "%s is not the name of a program; etcd and etcdctl are\n", name)
		os.Exit(2)
	}
}
