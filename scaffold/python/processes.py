"""process.* and pty.*: processes of this machine, in the folder of a sandbox.

One that runs in the foreground hangs on a pipe of this program and ends with it. One in the background outlives it: a
keeper (this program again, `--keep`) starts it, waits for it and writes down its end; its output goes to files. Each has
jobs/pPID.json; its marks in the environment find all that it started."""

import errno
import fcntl
import json
import os
import pty
import pwd
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import threading
import time

import epp
from boxes import Box, accept, kill_marked, rfc3339

CHUNK = 64 * 1024
running = {}  # id -> Running: those in the foreground


# --- ending --------------------------------------------------------------------------------------------------


def signal_number(word):
    try:
        if word.isdigit():
            return signal.Signals(int(word))
        return signal.Signals["SIG" + word.upper().removeprefix("SIG")]
    except (KeyError, ValueError):
        raise epp.Error("E1001", f"'{word}' is no signal") from None


def end_of(code, timed_out):
    """The result of a process from what wait() gave."""
    out = {"exitCode": code} if code >= 0 else {"signal": signal.Signals(-code).name}
    return {**out, "timedOut": True} if timed_out else out


# --- starting ------------------------------------------------------------------------------------------------


def prepare(box, p, terminal=False):
    """What Popen needs: arguments, folder, environment with the mark; or E6006."""
    cmd = p.get("cmd") or [shutil.which("bash") or "sh"]
    if p.get("shell"):
        cmd = ["sh", "-c", cmd]
    cwd = str(box.home / p.get("cwd", ""))
    env = {"PATH": os.environ.get("PATH", os.defpath), "HOME": str(box.home), "USER": pwd.getpwuid(os.getuid()).pw_name,
           "LANG": os.environ.get("LANG", "C.UTF-8"), **box.about["env"], **p.get("env", {})}
    if terminal:
        env["TERM"] = p.get("term", "xterm-256color")
    mark = os.urandom(8).hex()
    env.update(ABX_SANDBOX=box.id, ABX_JOB=mark)
    if not os.path.isdir(cwd):
        raise epp.Error("E6006", f"'{cwd}' is no folder")
    if not shutil.which(os.path.join(cwd, cmd[0]) if "/" in cmd[0] else cmd[0], path=env["PATH"]):
        raise epp.Error("E6006", f"'{cmd[0]}' cannot be run: there is no such program")
    return {"cmd": cmd, "cwd": cwd, "env": env, "mark": f"ABX_JOB={mark}"}


def spawn(plan, **how):
    until = time.monotonic() + 2
    while True:
        try:
            return subprocess.Popen(plan["cmd"], cwd=plan["cwd"], env=plan["env"], start_new_session=True, **how)
        except OSError as e:
            # A file that was just written is busy while another child of this program, between fork and exec, still has it open.
            if e.errno != errno.ETXTBSY or time.monotonic() > until:
                raise epp.Error("E6006", f"'{plan['cmd'][0]}' cannot be run: {e.strerror.lower()}") from None
            time.sleep(0.005)


def note(box, pid, plan, background):
    job = {"id": f"p{pid}", "pid": pid, "cmd": plan["cmd"], "cwd": plan["cwd"], "startedAt": rfc3339(time.time()),
           "background": background, "mark": plan["mark"], "keeper": os.getpid()}
    (box.jobs / f"p{pid}.json").write_text(json.dumps(job))
    return job


class Running:
    """A process in the foreground: its call waits in follow(), others write to it and signal it."""

    def __init__(self, call, box, plan, process, input_fd):
        self.call, self.box, self.plan, self.process, self.input_fd = call, box, plan, process, input_fd
        self.job = note(box, process.pid, plan, False)
        self.write_lock = threading.Lock()
        running[self.job["id"]] = self
        call.on_cancel = self.kill
        if call.cancelled:
            self.kill()

    def kill(self):
        kill_marked(self.plan["mark"], [self.process.pid] if self.process.poll() is None else [])

    def feed(self, data):
        """Raises BrokenPipeError when nobody reads it any more."""
        with self.write_lock:
            while data:
                if self.input_fd < 0:
                    raise BrokenPipeError
                data = data[os.write(self.input_fd, data):]

    def close_input(self):
        with self.write_lock:
            if self.input_fd >= 0:
                os.close(self.input_fd)
            self.input_fd = -1

    def follow(self, outputs, timeout_ms, kind):
        """Pass on what comes from outputs (descriptor -> channel, None for a terminal) until the process ends: what others
        still hold open does not delay it."""
        self.call.notify(f"{kind}.started", id=self.job["id"], pid=self.process.pid)
        deadline = time.monotonic() + timeout_ms / 1000 if timeout_ms else None
        ended, timed_out = os.pidfd_open(self.process.pid), False
        poll = select.poll()
        for fd in [ended, *outputs]:
            poll.register(fd, select.POLLIN)
        try:
            while outputs or ended >= 0:
                left = max(0, deadline - time.monotonic()) * 1000 if deadline and not timed_out else None
                ready = [fd for fd, _ in poll.poll(0 if ended < 0 else left)]
                if not ready and ended < 0:
                    break
                if not ready:
                    timed_out = True
                    self.kill()
                for fd in ready:
                    if fd == ended:
                        poll.unregister(fd)
                        os.close(fd)
                        ended = -1
                    elif not self.pass_on(fd, outputs[fd], kind):
                        poll.unregister(fd)
                        del outputs[fd]
            end = end_of(self.process.wait(), timed_out)
            if not Box(self.box.id).about:
                raise epp.Error("E6004", f"sandbox '{self.box.id}' was ended")
            self.call.notify(f"{kind}.exit", **end)
            return {"id": self.job["id"], "pid": self.process.pid, **end}
        except BaseException:
            self.kill()
            raise
        finally:
            if ended >= 0:
                os.close(ended)

    def pass_on(self, fd, channel, kind):
        try:
            data = os.read(fd, CHUNK)
        except OSError:  # a terminal that nobody has open
            data = b""
        if data:
            self.call.send_bytes(f"{kind}.output", data, **({"channel": channel} if channel else {}))
        return data

    def leave(self):
        running.pop(self.job["id"], None)
        self.close_input()
        (self.box.jobs / f"{self.job['id']}.json").unlink(missing_ok=True)


def end_all():
    for process in list(running.values()):
        process.kill()


def start(call):
    p = call.params
    accept(p, "sandboxId", "cmd", "shell", "cwd", "env", "stdin", "input", "background", "timeoutMs")
    box = Box.of(p)
    plan = prepare(box, p)
    if p.get("background"):
        return start_background(box, plan, p)
    streams = p.get("stdin") == "stream" or "input" in p
    process = spawn(plan, stdin=subprocess.PIPE if streams else subprocess.DEVNULL, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)
    it = Running(call, box, plan, process, os.dup(process.stdin.fileno()) if streams else -1)
    if streams:
        process.stdin.close()
    if "input" in p:
        threading.Thread(target=give, args=(it, epp.bytes_of(p["input"])), daemon=True).start()
    try:
        return it.follow({process.stdout.fileno(): "stdout", process.stderr.fileno(): "stderr"}, p.get("timeoutMs"),
                         "process")
    finally:
        it.leave()
        process.stdout.close()
        process.stderr.close()


def give(it, data):
    try:
        it.feed(data)
    except OSError:
        pass  # it does not read to the end: that is its own matter
    it.close_input()


# --- background ----------------------------------------------------------------------------------------------


def start_background(box, plan, p):
    asked = {"box": box.id, "plan": plan, "timeoutMs": p.get("timeoutMs")}
    keeper = subprocess.Popen([sys.executable, os.path.abspath(sys.argv[0]), "--keep", json.dumps(asked)],
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                              start_new_session=True)
    answer = json.loads(keeper.stdout.readline() or b'{"error": "its keeper failed"}')
    keeper.stdout.close()
    threading.Thread(target=keeper.wait, daemon=True).start()
    if "error" in answer:
        raise epp.Error("E6006", answer["error"])
    return answer


def keep(asked):
    """The keeper: says the pid on stdout, then waits until the process, its time limit or the sandbox ends."""
    box, plan = Box(asked["box"]), asked["plan"]
    out, err = (box.jobs / f"{os.getpid()}.{name}" for name in ("out", "err"))
    try:
        with open(out, "wb") as stdout, open(err, "wb") as stderr:
            process = spawn(plan, stdin=subprocess.DEVNULL, stdout=stdout, stderr=stderr)
    except epp.Error as e:
        print(json.dumps({"error": str(e)}), flush=True)
        return 1
    job = f"p{process.pid}"
    out.rename(box.jobs / f"{job}.out")
    err.rename(box.jobs / f"{job}.err")
    note(box, process.pid, plan, True)
    print(json.dumps({"id": job, "pid": process.pid}), flush=True)
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    timeout = asked["timeoutMs"]
    limit = time.monotonic() + timeout / 1000 if timeout else None
    timed_out = False
    while process.poll() is None:
        try:
            process.wait(max(0.01, min(5, limit - time.monotonic())) if limit and not timed_out else 5)
        except subprocess.TimeoutExpired:
            timed_out = timed_out or limit is not None and time.monotonic() >= limit
            if timed_out:
                kill_marked(plan["mark"], [process.pid])
            Box(box.id).lives()  # its life may be over, and nobody else may look
    try:
        new = box.jobs / f"{job}.new"
        new.write_text(json.dumps(end_of(process.returncode, timed_out)))
        new.rename(box.jobs / f"{job}.exit")
    except OSError:
        pass  # the sandbox has been ended
    return 0


# --- looking ---------------------------------------------------------------------------------------------------


def lives(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def read_job(box, process_id):
    """What is known of a process of this sandbox, with its end under "end"."""
    missing = epp.Error("E3003", f"there is no process '{process_id}'")
    if not process_id.isalnum():
        raise missing
    try:
        job = json.loads((box.jobs / f"{process_id}.json").read_text())
    except (OSError, ValueError):
        raise missing from None
    alive = lives(job["pid"]) or lives(job["keeper"])  # asked before its end is looked for
    try:
        job["end"] = json.loads((box.jobs / f"{process_id}.exit").read_text())
    except OSError:
        job["end"] = None if alive else {}
    return job


def list_jobs(call):
    box, out = Box.of(call.params), []
    for file in sorted(box.jobs.glob("*.json"), key=lambda f: f.stat().st_mtime_ns):
        try:
            job = read_job(box, file.stem)
        except epp.Error:
            continue  # it has gone just now
        end = job.pop("end")
        del job["mark"], job["keeper"]
        out.append({**job, "state": "running" if end is None else "exited", **(end or {})})
    return {"processes": out}


def send_signal(call):
    number = signal_number(call.params["signal"])
    job = read_job(Box.of(call.params), call.params["processId"])
    if job["end"] is not None:
        raise epp.Error("E3003", f"process '{job['id']}' has ended")
    try:
        os.killpg(job["pid"], number)
    except ProcessLookupError:
        raise epp.Error("E3003", f"process '{job['id']}' has ended") from None
    if number == signal.SIGKILL:
        kill_marked(job["mark"])


def attach(call):
    p = call.params
    accept(p, "sandboxId", "processId", "fromOffset", "follow")
    box = Box.of(p)
    job = read_job(box, p["processId"])
    if not job["background"]:
        raise epp.Error("E4001", f"process '{job['id']}' runs in the foreground: its output is its caller's")
    call.notify("process.started", id=job["id"], pid=job["pid"])
    files = {name: open(box.jobs / f"{job['id']}.{name[3:]}", "rb") for name in ("stdout", "stderr")}
    try:
        for name, file in files.items():
            if p.get("fromOffset"):
                file.seek(p["fromOffset"].get(name, 0))
            else:
                file.seek(0, os.SEEK_END)
        while True:
            end = read_job(box, job["id"])["end"]  # first: what it wrote before is there then
            for name, file in files.items():
                while data := file.read(CHUNK):
                    call.send_bytes("process.output", data, channel=name)
            if end is not None:
                call.notify("process.exit", **end)
                return {"id": job["id"], "pid": job["pid"], **end}
            if not p.get("follow", True):
                return {"id": job["id"], "pid": job["pid"]}
            call.check()
            time.sleep(0.02)
    finally:
        for file in files.values():
            file.close()


# --- input and terminals ---------------------------------------------------------------------------------------


def find_running(call, name="processId"):
    Box.of(call.params)
    it = running.get(call.params[name])
    if not it or it.box.id != call.params["sandboxId"]:
        raise epp.Error("E3003", f"no '{call.params[name]}' runs here with an open input")
    return it


def stdin(call):
    it = find_running(call)
    try:
        for data in call.body():
            it.feed(data)
    except BrokenPipeError:
        raise epp.Error("E3003", f"process '{it.job['id']}' does not read its input any more") from None
    if call.params.get("close"):
        it.close_input()


def close_stdin(call):
    find_running(call).close_input()


def set_size(fd, p):
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", p.get("rows", 24), p.get("cols", 80), 0, 0))


def pty_open(call):
    p = call.params
    accept(p, "sandboxId", "cmd", "cols", "rows", "term", "cwd", "env", "timeoutMs")
    box = Box.of(p)
    plan = prepare(box, p, terminal=True)
    master, slave = pty.openpty()
    try:
        set_size(master, p)
        process = spawn(plan, stdin=slave, stdout=slave, stderr=slave,
                        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    except BaseException:
        os.close(master)
        raise
    finally:
        os.close(slave)
    it = Running(call, box, plan, process, os.dup(master))
    try:
        return it.follow({master: None}, p.get("timeoutMs"), "pty")
    finally:
        it.leave()
        os.close(master)


def pty_write(call):
    it = find_running(call, "ptyId")
    for data in call.body():
        it.feed(data)


def pty_resize(call):
    it = find_running(call, "ptyId")
    with it.write_lock:
        set_size(it.input_fd, call.params)


def pty_close(call):
    find_running(call, "ptyId").kill()


METHODS = {"process.start": start, "process.attach": attach, "process.signal": send_signal, "process.list": list_jobs,
           "process.stdin": stdin, "process.close_stdin": close_stdin, "pty.open": pty_open, "pty.write": pty_write,
           "pty.resize": pty_resize, "pty.close": pty_close}
