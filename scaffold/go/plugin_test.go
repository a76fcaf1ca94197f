package main

// The plugin by itself: speaks EPP/1 to it as abx would.

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "--as-plugin" {
		os.Args = os.Args[:1]
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func TestASandboxAndACommand(t *testing.T) {
	child := exec.Command(os.Args[0], "--as-plugin")
	in, _ := child.StdinPipe()
	out, _ := child.StdoutPipe()
	lines := bufio.NewScanner(out)
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	last := 0
	// ask wants `wanted` in the answer, or in a line before it.
	ask := func(method string, params Object, wanted string) {
		t.Helper()
		last++
		line, _ := json.Marshal(Object{"jsonrpc": "2.0", "id": last, "method": method, "params": params})
		_, _ = in.Write(append(line, '\n'))
		for found := false; lines.Scan(); {
			found = found || strings.Contains(lines.Text(), wanted)
			var answer struct{ ID int }
			if json.Unmarshal(lines.Bytes(), &answer) == nil && answer.ID == last {
				if !found {
					t.Fatalf("%s: no %s", method, wanted)
				}
				return
			}
		}
		t.Fatal("the plugin has ended")
	}
	id := "test" + randomHex()
	ask("initialize", Object{"protocol": "epp/1", "id": "@NAME@"}, `"protocol":"epp/1"`)
	ask("sandbox.create", Object{"id": id, "timeoutMs": 60000}, `"state":"running"`)
	ask("process.start", Object{"sandboxId": id, "cmd": []string{"echo", "hi"}}, `"text":"hi\n"`)
	ask("process.start", Object{"sandboxId": id, "cmd": []string{"sh", "-c", "exit 7"}}, `"exitCode":7`)
	ask("sandbox.kill", Object{"sandboxId": id}, `"result"`)
	ask("process.start", Object{"sandboxId": id, "cmd": []string{"true"}}, `"code":"E3001"`)
	ask("shutdown", Object{}, `"result"`)
	in.Close()
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
}
