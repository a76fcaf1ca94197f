package main

// process.* and pty.* in the foreground: a process that hangs on a pipe, or a terminal, of this program and ends with it.

import (
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"
)

type processArgs struct {
	SandboxID  string            `json:"sandboxId"`
	Cmd        any               `json:"cmd"`
	Shell      bool              `json:"shell"`
	Cwd        string            `json:"cwd"`
	Env        map[string]string `json:"env"`
	Stdin      string            `json:"stdin"`
	Input      *Bytes            `json:"input"`
	Background bool              `json:"background"`
	TimeoutMs  int64             `json:"timeoutMs"`
	Cols       uint16            `json:"cols"`
	Rows       uint16            `json:"rows"`
	Term       string            `json:"term"`
}

// --- starting

// A plan is all that a process is started with.
type plan struct {
	Args []string `json:"args"`
	Cwd  string   `json:"cwd"`
	Env  []string `json:"env"`
	Mark string   `json:"mark"`
}

func isProgram(path string) bool {
	at, err := os.Stat(path)
	return err == nil && at.Mode().IsRegular() && syscall.Access(path, 1) == nil
}

func (p *plan) find(path string) (string, error) {
	name := p.Args[0]
	if strings.Contains(name, "/") {
		if full := name; isProgram(full) && filepath.IsAbs(full) {
			return full, nil
		}
		if full := filepath.Join(p.Cwd, name); isProgram(full) {
			return full, nil
		}
	} else if name != "" {
		for _, dir := range filepath.SplitList(path) {
			if full := filepath.Join(dir, name); isProgram(full) {
				return full, nil
			}
		}
	}
	return "", fault("E6006", "'%s' cannot be run: there is no such program", name)
}

// newPlan has the program's path in place of its name when the second result is used; E6006 when there is none.
func newPlan(b *Box, p *processArgs, terminal bool) (*plan, error) {
	out := &plan{Cwd: place(b, p.Cwd), Mark: "ABX_JOB=" + randomHex()}
	switch cmd := p.Cmd.(type) {
	case []any:
		for _, arg := range cmd {
			out.Args = append(out.Args, arg.(string))
		}
	case string:
		out.Args = []string{"sh", "-c", cmd}
	default:
		out.Args = []string{"sh"}
		if isProgram("/bin/bash") {
			out.Args = []string{"/bin/bash"}
		}
	}
	env := map[string]string{"PATH": os.Getenv("PATH"), "HOME": b.path("home"), "USER": "user", "LANG": "C.UTF-8"}
	if me, err := user.Current(); err == nil {
		env["USER"] = me.Username
	}
	for _, more := range []map[string]string{b.about.Env, p.Env} {
		for name, value := range more {
			env[name] = value
		}
	}
	if terminal {
		env["TERM"] = "xterm-256color"
		if p.Term != "" {
			env["TERM"] = p.Term
		}
	}
	for name, value := range env {
		out.Env = append(out.Env, name+"="+value)
	}
	out.Env = append(out.Env, out.Mark, "ABX_SANDBOX="+b.ID)
	if at, err := os.Stat(out.Cwd); err != nil || !at.IsDir() {
		return nil, fault("E6006", "'%s' is no folder", out.Cwd)
	}
	_, err := out.find(env["PATH"])
	return out, err
}

// start begins a process in a session of its own; terminal: its first file is its terminal.
func (p *plan) start(terminal bool, files ...*os.File) (*os.Process, error) {
	path := ""
	for _, entry := range p.Env {
		if strings.HasPrefix(entry, "PATH=") {
			path = entry[len("PATH="):]
		}
	}
	program, err := p.find(path)
	if err != nil {
		return nil, err
	}
	attr := &os.ProcAttr{Dir: p.Cwd, Env: p.Env, Files: files, Sys: &syscall.SysProcAttr{Setsid: true, Setctty: terminal}}
	process, err := os.StartProcess(program, p.Args, attr)
	if err != nil {
		return nil, fault("E6006", "'%s' cannot be run: %v", p.Args[0], err)
	}
	return process, nil
}

// --- following

// A running process in the foreground.
type running struct {
	call    *Call
	box     *Box
	plan    *plan
	process *os.Process
	job     *job
	kind    string   // "process", "pty"
	input   *os.File // nil: closed
	ended   bool
}

var (
	runMu sync.Mutex
	run   = map[string]*running{}
)

func (r *running) kill() {
	runMu.Lock()
	ended := r.ended
	runMu.Unlock()
	if ended {
		killMarked(r.plan.Mark)
	} else {
		killMarked(r.plan.Mark, r.process.Pid)
	}
}

func endAll() {
	runMu.Lock()
	defer runMu.Unlock()
	for _, r := range run {
		_ = syscall.Kill(-r.process.Pid, syscall.SIGKILL)
	}
}

// endOf is how a process ended.
func endOf(state *os.ProcessState, timedOut bool) Object {
	out := Object{}
	status := state.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		out["signal"] = signalName(status.Signal())
	} else {
		out["exitCode"] = status.ExitStatus()
	}
	if timedOut {
		out["timedOut"] = true
	}
	return out
}

// copyOut passes on what comes until the process has ended and nothing waits: what others still hold open does not delay it.
func (r *running) copyOut(file *os.File, channel string) error {
	part := make([]byte, 64*1024)
	for {
		n, err := file.Read(part)
		if n > 0 {
			if err := r.call.Send(r.kind+".output", channel, part[:n]); err != nil {
				return err
			}
		}
		if os.IsTimeout(err) {
			break
		}
		if err != nil {
			return nil
		}
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return nil
	}
	_ = file.SetReadDeadline(time.Time{})
	for n := 1; n > 0; {
		_ = raw.Read(func(fd uintptr) bool {
			n, _ = syscall.Read(int(fd), part)
			return true
		})
		if n > 0 {
			if err := r.call.Send(r.kind+".output", channel, part[:n]); err != nil {
				return err
			}
		}
	}
	return nil
}

// follow is the whole life of a process that runs.
func (r *running) follow(timeoutMs int64, outputs map[string]*os.File) (any, error) {
	r.job = r.plan.note(r.box, r.process.Pid, false)
	runMu.Lock()
	run[r.job.ID] = r
	runMu.Unlock()
	defer r.leave(outputs)
	r.call.Notify(r.kind+".started", Object{"id": r.job.ID, "pid": r.job.Pid})
	timedOut, over := false, make(chan struct{})
	var timer <-chan time.Time
	if timeoutMs > 0 {
		timer = time.After(time.Duration(timeoutMs) * time.Millisecond)
	}
	watcher := make(chan struct{})
	go func() {
		defer close(watcher)
		select {
		case <-timer:
			timedOut = true
			r.kill()
		case <-r.call.Cancelled:
			r.kill()
		case <-over:
		}
	}()
	errs := make(chan error, len(outputs))
	for channel, file := range outputs {
		go func(channel string, file *os.File) { errs <- r.copyOut(file, channel) }(channel, file)
	}
	state, err := r.process.Wait()
	close(over)
	<-watcher
	runMu.Lock()
	r.ended = true
	runMu.Unlock()
	for _, file := range outputs {
		_ = file.SetReadDeadline(time.Now())
	}
	for range outputs {
		if e := <-errs; err == nil {
			err = e
		}
	}
	if err != nil {
		r.kill()
		return nil, err
	}
	if openBox(r.box.ID).about == nil {
		return nil, fault("E6004", "sandbox '%s' was ended", r.box.ID)
	}
	end := endOf(state, timedOut)
	r.call.Notify(r.kind+".exit", end)
	end["id"], end["pid"] = r.job.ID, r.job.Pid
	return end, nil
}

func (r *running) leave(outputs map[string]*os.File) {
	runMu.Lock()
	delete(run, r.job.ID)
	if r.input != nil {
		r.input.Close()
	}
	runMu.Unlock()
	for _, file := range outputs {
		file.Close()
	}
	_ = os.Remove(r.box.path("jobs", r.job.ID+".json"))
}

func startProcess(c *Call) (any, error) {
	var p processArgs
	if err := c.Args(&p); err != nil {
		return nil, err
	}
	b, err := boxOf(p.SandboxID)
	if err != nil {
		return nil, err
	}
	plan, err := newPlan(b, &p, false)
	if err != nil {
		return nil, err
	}
	if p.Background {
		return startBackground(b, plan, p.TimeoutMs)
	}
	stdin, err := os.Open(os.DevNull)
	var input *os.File
	if p.Stdin == "stream" || p.Input != nil {
		stdin.Close()
		stdin, input, err = os.Pipe()
	}
	if err != nil {
		return nil, err
	}
	outR, outW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	errR, errW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	process, err := plan.start(false, stdin, outW, errW)
	for _, file := range []*os.File{stdin, outW, errW} {
		file.Close()
	}
	if err != nil {
		return nil, err
	}
	r := &running{call: c, box: b, plan: plan, process: process, kind: "process", input: input}
	if p.Input != nil {
		go func() { // that it is not read to the end is its own matter
			_, _ = input.Write(p.Input.get())
			input.Close()
		}()
	}
	return r.follow(p.TimeoutMs, map[string]*os.File{"stdout": outR, "stderr": errR})
}

// --- input

type inputArgs struct {
	SandboxID string `json:"sandboxId"`
	ProcessID string `json:"processId"`
	PtyID     string `json:"ptyId"`
	Close     bool   `json:"close"`
	Cols      uint16 `json:"cols"`
	Rows      uint16 `json:"rows"`
}

// withRunning is a method of a process in the foreground.
func withRunning(f func(*Call, *inputArgs, *running) (any, error)) func(*Call) (any, error) {
	return func(c *Call) (any, error) {
		var p inputArgs
		if err := c.Args(&p); err != nil {
			return nil, err
		}
		if _, err := boxOf(p.SandboxID); err != nil {
			return nil, err
		}
		runMu.Lock()
		r := run[p.ProcessID+p.PtyID]
		runMu.Unlock()
		if r == nil || r.box.ID != p.SandboxID || r.input == nil {
			return nil, fault("E3003", "no '%s' runs here with an open input", p.ProcessID+p.PtyID)
		}
		return f(c, &p, r)
	}
}

func stdin(c *Call, p *inputArgs, r *running) (any, error) {
	err := c.Body(func(data []byte) error {
		if _, err := r.input.Write(data); err != nil {
			return fault("E3003", "the process does not read its input any more")
		}
		return nil
	})
	if err == nil && p.Close {
		r.input.Close()
	}
	return nil, err
}

// --- terminals

func ioctl(file *os.File, request uintptr, arg unsafe.Pointer) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var errno syscall.Errno
	err = raw.Control(func(fd uintptr) { _, _, errno = syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(arg)) })
	if err == nil && errno != 0 {
		err = errno
	}
	return err
}

func setSize(file *os.File, cols, rows uint16) error {
	size := [4]uint16{rows, cols}
	return ioctl(file, syscall.TIOCSWINSZ, unsafe.Pointer(&size))
}

// openTerminal gives the two ends of a new terminal.
func openTerminal() (master, slave *os.File, err error) {
	fd, err := syscall.Open("/dev/ptmx", syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, err
	}
	master = os.NewFile(uintptr(fd), "/dev/ptmx")
	var number, lock int32
	if err = ioctl(master, syscall.TIOCSPTLCK, unsafe.Pointer(&lock)); err == nil {
		err = ioctl(master, syscall.TIOCGPTN, unsafe.Pointer(&number))
	}
	if err == nil {
		slave, err = os.OpenFile("/dev/pts/"+itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	}
	return master, slave, err
}

func ptyOpen(c *Call) (any, error) {
	p := processArgs{Cols: 80, Rows: 24}
	if err := c.Args(&p); err != nil {
		return nil, err
	}
	b, err := boxOf(p.SandboxID)
	if err != nil {
		return nil, err
	}
	plan, err := newPlan(b, &p, true)
	if err != nil {
		return nil, err
	}
	master, slave, err := openTerminal()
	if err == nil {
		err = setSize(master, p.Cols, p.Rows)
	}
	if err != nil {
		return nil, err
	}
	process, err := plan.start(true, slave, slave, slave)
	slave.Close()
	if err != nil {
		master.Close()
		return nil, err
	}
	r := &running{call: c, box: b, plan: plan, process: process, kind: "pty", input: master}
	return r.follow(p.TimeoutMs, map[string]*os.File{"": master})
}

var processMethods = methods{
	"process.start":  startProcess,
	"process.attach": attach,
	"process.signal": sendSignal,
	"process.list":   listJobs,
	"process.stdin":  withRunning(stdin),
	"process.close_stdin": withRunning(func(c *Call, p *inputArgs, r *running) (any, error) {
		return nil, r.input.Close()
	}),
	"pty.open":  ptyOpen,
	"pty.write": withRunning(stdin),
	"pty.resize": withRunning(func(c *Call, p *inputArgs, r *running) (any, error) {
		return nil, setSize(r.input, p.Cols, p.Rows)
	}),
	"pty.close": withRunning(func(c *Call, p *inputArgs, r *running) (any, error) {
		r.kill()
		return nil, nil
	}),
}
