// @NAME@: a provider of abx. A sandbox is a folder on this machine; its processes run here, as you. NO ISOLATION: put calls to
// your own backend in the place of boxes.go, processes.go, keep.go and files.go. epp.go may stay as it is.
package main

import "os"

type methods = map[string]func(*Call) (any, error)

// What this provider has. The manifest lists the same; the host uses what both name.
var features = Object{
	"sandbox": "native", "connect": "native", "list": "native", "timeout": "native", "process": "native",
	"process.stdin": "native", "process.replay": "native", "filesystem": "native", "pty": "native",
	"process.detach": "unsupported",
}

func main() {
	if len(os.Args) == 3 && os.Args[1] == "--keep" { // see keep.go
		os.Exit(keep([]byte(os.Args[2])))
	}
	all := methods{}
	for _, group := range []methods{boxMethods, processMethods, fileMethods} {
		for name, f := range group {
			all[name] = f
		}
	}
	serve(features, all)
	endAll()
}
