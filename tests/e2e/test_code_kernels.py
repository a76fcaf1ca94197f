"""The kernels alone, by their control channel: an interrupt that comes at the worst moments."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import time

import pytest

from harness import wait_for

pytestmark = pytest.mark.once

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "local" / "kernels"
STARTERS = (ROOT / "src" / "local" / "envd" / "kernel_language.c").read_text()
BUSY = {"python": "while True: pass", "javascript": "while (true) {}", "bash": "while :; do :; done"}
SET = {"python": "x = 20", "javascript": "x = 20", "bash": "x=20"}
GET = {"python": "print(x)", "javascript": "console.log(x)", "bash": "echo $x"}
BASH_LINES = re.search(r'commands = ((?:"[^\n]*"\s*)+)', STARTERS)


def c_text(literals):
    return "".join(re.findall(r'"((?:[^"\\]|\\.)*)"', literals)).encode().decode("unicode_escape")


def starter(name):
    return c_text(re.search(r"static const char %s\[\] =(.*?);\n" % name, STARTERS, re.S).group(1))


class Kernel:
    def __init__(self, language):
        self.language = language
        self.control, theirs = socket.socketpair()
        self.control.settimeout(30)
        if language == "python":
            names = ("python_channel.py", "python_results.py", "python_cell.py", "python_start.py")
            argv = ["python3", "-c", starter("PYTHON")]
        elif language == "javascript":
            names, argv = ("node.js",), ["node", "-e", starter("NODE")]
        else:
            names, argv = ("bash.sh",), ["bash", "--noprofile", "--norc", "--noediting", "-i", "+m"]
        text = b"".join((SOURCE / name).read_bytes() for name in names)
        self.process = subprocess.Popen(
            argv, close_fds=False, preexec_fn=lambda: os.dup2(theirs.fileno(), 3),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        theirs.close()
        self.seen = b""
        if language == "bash":
            self.process.stdin.write(text)
            self.process.stdin.flush()
        else:
            self.send(b"driver", text)
        assert self.take()[0] == b"ready"

    def send(self, word, body=b""):
        self.control.sendall(b"%s %d\n" % (word, len(body)) + body)

    def take(self):
        while b"\n" not in self.seen:
            more = self.control.recv(65536)
            assert more, "the kernel has ended"
            self.seen += more
        head, _, rest = self.seen.partition(b"\n")
        word, length = head.split()
        while len(rest) < int(length):
            more = self.control.recv(65536)
            assert more, "the kernel has ended"
            rest += more
        self.seen = rest[int(length):]
        return word, rest[: int(length)]

    def start(self, code):
        """Begins a run; returns when its first line is here, which is not answered yet."""
        self.send(b"__abx_run", code.encode())
        if self.language == "bash":
            self.process.stdin.write(c_text(BASH_LINES.group(1)).encode())
            self.process.stdin.flush()
        word, body = self.take()
        assert word == b"line" and b"number_of_executions" in body

    def acknowledge(self):
        if self.language != "bash":
            self.send(b"__abx_ack")

    def end(self):
        """All lines until it is done."""
        lines = b""
        self.acknowledge()
        while True:
            word, body = self.take()
            if word == b"done":
                return lines
            lines += body
            self.acknowledge()

    def interrupt(self):
        os.killpg(self.process.pid, signal.SIGINT)

    def output(self):
        return os.read(self.process.stdout.fileno(), 65536)

    def close(self):
        self.control.close()
        self.process.kill()
        self.process.communicate()


@pytest.fixture(params=BUSY)
def kernel(request):
    k = Kernel(request.param)
    yield k
    k.close()


def keeps_its_state(kernel):
    kernel.start(GET[kernel.language])
    kernel.end()
    assert kernel.output().strip() == b"20"


def test_an_interrupt_before_the_code_has_begun(kernel):
    kernel.start(SET[kernel.language])
    kernel.end()
    kernel.start(BUSY[kernel.language])
    kernel.interrupt()  # before the line is answered: there is no code to be interrupted yet
    lines = kernel.end()
    if kernel.language != "bash":
        assert {"python": b"KeyboardInterrupt", "javascript": b"Interrupted"}[kernel.language] in lines
        assert b"File " not in lines
    keeps_its_state(kernel)


def test_many_interrupts_at_once(kernel):
    kernel.start(SET[kernel.language])
    kernel.end()
    for _ in range(20):
        kernel.start(BUSY[kernel.language])
        kernel.acknowledge()
        for _ in range(30):
            kernel.interrupt()
        kernel.interrupt()
        while kernel.take()[0] != b"done":
            kernel.acknowledge()
    keeps_its_state(kernel)


def test_an_interrupt_of_nothing(kernel):
    kernel.start(SET[kernel.language])
    kernel.end()
    for _ in range(20):
        kernel.interrupt()
        time.sleep(0.005)
    keeps_its_state(kernel)
    assert wait_for(lambda: kernel.process.poll() is None)
