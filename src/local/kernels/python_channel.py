# The Python kernel of a sandbox: runs cells with kept state. The program hands this text to the sandbox's own
# python3 (3.8 or newer, no packages needed) over descriptor 3; it is never a file inside.
#
# Descriptor 3 speaks frames "WORD LENGTH\n" + that many bytes:
#   in   __abx_env NAME=VALUE (of the next run) · __abx_run CODE · __abx_run_e2b CODE · __abx_ack
#   out  ready · line JSON (answered by ack) · sync (answered by ack) · done
# Output goes to descriptors 1 and 2 as it is. Who reads them takes all that is there before it takes a frame, so a
# sync between two streams and the ack after a line keep everything in order.
#
# It is one program in four parts, put together in this order by cmake/kernels.cmake:
#   python_channel.py  the control channel, the standard streams
#   python_results.py  rich results
#   python_cell.py     one cell: errors, lines that are no Python, running
#   python_start.py    modules that notebooks have, the start
import contextlib
import functools
import io
import json
import os
import sys
import threading

CONTROL = 3
PID = os.getpid()
MAIN = threading.get_ident()


# --- the control channel ------------------------------------------------------------------------------------
class State:
    running = False
    forked = False
    last = None  # the stream that was written last; None: all was read; 0: a child may have written
    depth = 0  # of critical sections of the main thread
    pending = False  # an interrupt came inside of one
    count = 0
    strip = False  # E2B shows texts without their quotes
    shown = ()  # figures that were results of this run


lock = threading.RLock()
received = bytearray()


class Critical:
    """No interrupt, and no other thread, inside."""

    def __enter__(self):
        if threading.get_ident() == MAIN:
            State.depth += 1
        lock.acquire()

    def __exit__(self, *what):
        lock.release()
        if threading.get_ident() != MAIN:
            return
        State.depth -= 1
        if State.depth == 0 and State.pending:
            State.pending = False
            if State.running:
                raise KeyboardInterrupt


critical = Critical()


# Functions that no interrupt leaves: what comes while one of them is at work waits for the code of the cell.
steady = set()


def on_interrupt(number, frame):
    if not State.running:
        return
    if State.depth > 0 or (frame is not None and frame.f_code in steady):
        State.pending = True
        return
    raise KeyboardInterrupt


def write_all(fd, data):
    view = memoryview(data).cast("B")
    while view:
        n = os.write(fd, view[:65536])
        view = view[n:]


def send(word, body=b""):
    write_all(CONTROL, b"%s %d\n" % (word, len(body)) + body)


def take(n):
    while len(received) < n:
        more = os.read(CONTROL, 65536)
        if not more:
            os._exit(0)
        received.extend(more)
    part = bytes(received[:n])
    del received[:n]
    return part


def receive():
    while b"\n" not in received:
        more = os.read(CONTROL, 65536)
        if not more:
            os._exit(0)
        received.extend(more)
    word, length = take(received.index(b"\n") + 1).split()
    return word, take(int(length))


def sync():
    """All that was written so far has been read."""
    with critical:
        State.last = None
        if State.running and not State.forked:
            send(b"sync")
            receive()


def send_line(line):
    data = json.dumps(line, ensure_ascii=False).encode("utf-8", "replace")
    with critical:
        if State.running and not State.forked:
            State.last = None
            send(b"line", data)
            receive()


def before_child(event, arguments):
    if event in CHILD_EVENTS and State.running and not State.forked:
        sync()
        State.last = 0


CHILD_EVENTS = frozenset(
    ("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec")
)


def in_child():
    global lock
    lock = threading.RLock()
    State.depth = 0
    if not State.forked:  # in a grandchild the number may be another's by now
        State.forked = True
        with contextlib.suppress(OSError):
            os.close(CONTROL)


# --- standard streams ------------------------------------------------------------------------------------------
class Out(io.BufferedIOBase):
    def __init__(self, fd):
        self.fd = fd

    def fileno(self):
        return self.fd

    def writable(self):
        return True

    def write(self, data):
        view = memoryview(data).cast("B")
        with critical:
            if State.last not in (None, self.fd):
                sync()
            State.last = self.fd
            write_all(self.fd, view)
        return len(view)


class StdinNotImplementedError(NotImplementedError):
    """Code that runs in a kernel has nobody to ask."""


StdinNotImplementedError.__module__ = "builtins"
NO_INPUT = (
    "a code cell has no standard input: put the value into the code, a file or an environment variable, "
    "or run the program with 'abx exec -it'"
)


class NoInput(io.TextIOBase):
    encoding = "utf-8"

    def fileno(self):
        return 0

    def readable(self):
        return True

    def close(self):
        pass

    def read(self, *a):
        raise StdinNotImplementedError(NO_INPUT)

    readline = readlines = __next__ = read


def refuse_input(prompt=""):
    raise StdinNotImplementedError(NO_INPUT)


def encode_rest(error):
    """Undecodable bytes of file names go out as they came in; other surrogates are shown."""
    out = b""
    for c in error.object[error.start : error.end]:
        escaped = 0xDC80 <= ord(c) <= 0xDCFF
        out += bytes((ord(c) - 0xDC00,)) if escaped else b"\\u%04x" % ord(c)
    return out, error.end


def make_stream(fd):
    s = io.TextIOWrapper(Out(fd), encoding="utf-8", errors="abx", write_through=True, newline="\n")
    s.mode = "w"
    return s


plain_print = print


@functools.wraps(plain_print)
def whole_print(*values, sep=None, end=None, file=None, flush=False):
    """One write a call, so that lines of threads stay whole."""
    out = sys.stdout if file is None else file
    ours = type(out) is io.TextIOWrapper and isinstance(out.buffer, Out)
    if not ours or not all(x is None or isinstance(x, str) for x in (sep, end)):
        plain_print(*values, sep=sep, end=end, file=file, flush=flush)
        return
    out.write((" " if sep is None else sep).join(map(str, values)) + ("\n" if end is None else end))
