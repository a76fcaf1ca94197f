package main

// A process in the background outlives this program: a keeper (this program again, --keep) starts it, waits for it and writes down
// its end; its output goes to files. Here is also what is known of processes: jobs/pPID.json, pPID.exit.

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A job is what is known of a process.
type job struct {
	ID         string   `json:"id"`
	Pid        int      `json:"pid"`
	Cmd        []string `json:"cmd"`
	Cwd        string   `json:"cwd"`
	StartedAt  string   `json:"startedAt"`
	Background bool     `json:"background"`
	Mark       string   `json:"mark"`
	Keeper     int      `json:"keeper"`
	end        Object   // nil: it runs
}

func (p *plan) note(b *Box, pid int, background bool) *job {
	j := &job{ID: "p" + itoa(pid), Pid: pid, Cmd: p.Args, Cwd: p.Cwd, StartedAt: rfc3339(time.Now()), Background: background,
		Mark: p.Mark, Keeper: os.Getpid()}
	_ = writeJSON(b.path("jobs", j.ID+".json"), j)
	return j
}

// --- the keeper

type keepArgs struct {
	Root      string `json:"root"`
	Box       string `json:"box"`
	Plan      *plan  `json:"plan"`
	TimeoutMs int64  `json:"timeoutMs"`
}

type keepAnswer struct {
	ID    string `json:"id,omitempty"`
	Pid   int    `json:"pid,omitempty"`
	Error string `json:"error,omitempty"`
}

func startBackground(b *Box, p *plan, timeoutMs int64) (any, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	asked, err := json.Marshal(keepArgs{root, b.ID, p, timeoutMs})
	if err != nil {
		return nil, err
	}
	keeper := exec.Command(self, "--keep", string(asked))
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := keeper.StdoutPipe()
	if err == nil {
		err = keeper.Start()
	}
	if err != nil {
		return nil, err
	}
	line, _ := bufio.NewReader(out).ReadBytes('\n')
	go func() { _ = keeper.Wait() }()
	answer := keepAnswer{Error: "its keeper failed"}
	if len(line) > 0 {
		answer.Error = ""
		_ = json.Unmarshal(line, &answer)
	}
	if answer.Error != "" {
		return nil, fault("E6006", "%s", answer.Error)
	}
	return Object{"id": answer.ID, "pid": answer.Pid}, nil
}

func say(answer keepAnswer) {
	line, _ := json.Marshal(answer)
	_, _ = os.Stdout.Write(append(line, '\n'))
	os.Stdout.Close()
}

// keep says the pid on stdout, then waits until the process, its time limit or the sandbox ends.
func keep(text []byte) int {
	var p keepArgs
	if json.Unmarshal(text, &p) != nil {
		return 2
	}
	root = p.Root
	b := openBox(p.Box)
	files := [3]*os.File{}
	files[0], _ = os.Open(os.DevNull)
	for i, name := range []string{"out", "err"} {
		files[i+1], _ = os.Create(b.path("jobs", itoa(os.Getpid())+"."+name))
	}
	process, err := p.Plan.start(false, files[:]...)
	if err != nil {
		say(keepAnswer{Error: err.Error()})
		return 1
	}
	for _, file := range files[1:] {
		_ = os.Rename(file.Name(), b.path("jobs", "p"+itoa(process.Pid)+filepath.Ext(file.Name())))
	}
	j := p.Plan.note(b, process.Pid, true)
	say(keepAnswer{ID: j.ID, Pid: j.Pid})
	timedOut := false
	if p.TimeoutMs > 0 {
		time.AfterFunc(time.Duration(p.TimeoutMs)*time.Millisecond, func() {
			timedOut = true
			killMarked(p.Plan.Mark, process.Pid)
		})
	}
	go func() { // its life may be over, and nobody else may look
		for range time.Tick(5 * time.Second) {
			openBox(p.Box).lives()
		}
	}()
	state, err := process.Wait()
	if err == nil {
		_ = writeJSON(b.path("jobs", j.ID+".exit"), endOf(state, timedOut)) // fails when the sandbox has been ended
	}
	return 0
}

// --- what is known

func processLives(pid int) bool {
	text, err := os.ReadFile("/proc/" + itoa(pid) + "/stat")
	at := strings.LastIndexByte(string(text), ')')
	return err == nil && at >= 0 && at+2 < len(text) && text[at+2] != 'Z'
}

func readJob(b *Box, id string) (*job, error) {
	var j job
	if !isWord(id) || readJSON(b.path("jobs", id+".json"), &j) != nil {
		return nil, fault("E3003", "there is no process '%s'", id)
	}
	alive := processLives(j.Pid) || processLives(j.Keeper) // asked before its end is looked for
	if readJSON(b.path("jobs", id+".exit"), &j.end) != nil && !alive {
		j.end = Object{}
	}
	return &j, nil
}

func listJobs(c *Call) (any, error) {
	return withBox(func(b *Box, p *boxArgs) (any, error) {
		files, _ := filepath.Glob(b.path("jobs", "*.json"))
		found := []Object{}
		for _, file := range files {
			j, err := readJob(b, strings.TrimSuffix(filepath.Base(file), ".json"))
			if err != nil {
				continue // it has gone just now
			}
			o := Object{"id": j.ID, "pid": j.Pid, "cmd": j.Cmd, "cwd": j.Cwd, "startedAt": j.StartedAt,
				"background": j.Background, "state": "running"}
			if j.end != nil {
				o["state"] = "exited"
			}
			for name, value := range j.end {
				o[name] = value
			}
			found = append(found, o)
		}
		sort.Slice(found, func(i, k int) bool { return found[i]["startedAt"].(string) < found[k]["startedAt"].(string) })
		return Object{"processes": found}, nil
	})(c)
}

var signals = map[string]syscall.Signal{
	"HUP": 1, "INT": 2, "QUIT": 3, "ILL": 4, "TRAP": 5, "ABRT": 6, "BUS": 7, "FPE": 8, "KILL": 9, "USR1": 10, "SEGV": 11, "USR2": 12,
	"PIPE": 13, "ALRM": 14, "TERM": 15, "STKFLT": 16, "CHLD": 17, "CONT": 18, "STOP": 19, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23,
	"XCPU": 24, "XFSZ": 25, "VTALRM": 26, "PROF": 27, "WINCH": 28, "IO": 29, "PWR": 30, "SYS": 31,
}

func signalName(s syscall.Signal) string {
	for name, number := range signals {
		if number == s {
			return "SIG" + name
		}
	}
	return "SIG" + itoa(int(s))
}

func sendSignal(c *Call) (any, error) {
	var p struct {
		SandboxID string `json:"sandboxId"`
		ProcessID string `json:"processId"`
		Signal    string `json:"signal"`
	}
	if err := c.Args(&p); err != nil {
		return nil, err
	}
	number, known := signals[strings.TrimPrefix(strings.ToUpper(p.Signal), "SIG")]
	if n, err := strconv.Atoi(p.Signal); err == nil && n > 0 && n < 32 {
		number, known = syscall.Signal(n), true
	}
	if !known {
		return nil, fault("E1001", "'%s' is no signal", p.Signal)
	}
	b, err := boxOf(p.SandboxID)
	if err != nil {
		return nil, err
	}
	j, err := readJob(b, p.ProcessID)
	if err != nil {
		return nil, err
	}
	if j.end != nil || syscall.Kill(-j.Pid, number) != nil {
		return nil, fault("E3003", "process '%s' has ended", j.ID)
	}
	if number == syscall.SIGKILL {
		killMarked(j.Mark)
	}
	return nil, nil
}

// --- attaching

type attachArgs struct {
	SandboxID  string           `json:"sandboxId"`
	ProcessID  string           `json:"processId"`
	FromOffset map[string]int64 `json:"fromOffset"`
	Follow     *bool            `json:"follow"`
}

// sendNew passes on what has been written since the last time.
func sendNew(c *Call, files map[string]*os.File) error {
	part := make([]byte, 64*1024)
	for channel, file := range files {
		for {
			n, err := file.Read(part)
			if err != nil {
				break
			}
			if err := c.Send("process.output", channel, part[:n]); err != nil {
				return err
			}
		}
	}
	return c.check()
}

func attach(c *Call) (any, error) {
	var p attachArgs
	if err := c.Args(&p); err != nil {
		return nil, err
	}
	b, err := boxOf(p.SandboxID)
	if err != nil {
		return nil, err
	}
	j, err := readJob(b, p.ProcessID)
	if err != nil {
		return nil, err
	}
	files := map[string]*os.File{}
	for _, channel := range []string{"stdout", "stderr"} {
		file, err := os.Open(b.path("jobs", j.ID+"."+channel[3:]))
		if err != nil {
			return nil, fault("E4001", "process '%s' runs in the foreground: its output is its caller's", j.ID)
		}
		defer file.Close()
		if p.FromOffset != nil {
			_, _ = file.Seek(p.FromOffset[channel], io.SeekStart)
		} else {
			_, _ = file.Seek(0, io.SeekEnd)
		}
		files[channel] = file
	}
	c.Notify("process.started", Object{"id": j.ID, "pid": j.Pid})
	for {
		now, err := readJob(b, j.ID) // first: what it wrote before its end is there then
		if err == nil {
			err = sendNew(c, files)
		}
		if err != nil {
			return nil, err
		}
		if now.end != nil {
			c.Notify("process.exit", now.end)
		}
		if now.end != nil {
			return now.end, nil
		}
		if p.Follow != nil && !*p.Follow {
			return nil, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}
