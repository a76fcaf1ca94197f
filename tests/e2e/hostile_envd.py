"""A server that was taken over, in the place of a sandbox's pid 1: it answers what it likes.

hostile_server(mode) is the fixture. Run as a program this file is that server; a mode is a row of ANSWERS, or a word of
test_attacks.py. "stat-file:MODE" and "stat-dir:MODE" answer Stat honestly, so that a copy gets further."""

import fcntl
import gzip
import json
import os
import socket
import struct
import subprocess
import sys
import tarfile
import threading
import zlib

FAKE = "fakefakefake0000"

# --- messages ------------------------------------------------------------------------------------------------


def varint(n):
    n &= (1 << 64) - 1
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def envelope(body, flag=0, length=None):
    return struct.pack(">BI", flag, len(body) if length is None else length) + body


def event(number, body):
    return envelope(field(1, field(number, body)))


STARTED = event(1, field(1, 5) + field(1000, "p1"))
END_OF_STREAM = envelope(b"{}", 2)


def data(text):
    return event(2, field(1, text))


def ended(code, exited=1, more=b""):
    return event(3, field(1, (code << 1) ^ (code >> 63)) + field(2, exited) + field(3, "exit") + more)


def gap(stream, n):
    return event(1000, field(1, stream) + field(2, n))


def entry(name, path, size=5, mode=0o644, kind=1, word="file"):
    return (field(1, name) + field(2, kind) + field(3, path) + field(4, size) + field(5, mode) + field(7, "\x1b[31mo")
            + field(8, "g\n") + field(1000, word) + field(1001, mode))


def chunk(body):
    return b"%x\r\n" % len(body) + body + b"\r\n"


def forever(send, body):
    while True:
        send(body)


def answer_stream(send, kind, *parts, more=b""):
    send(b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n" + more + b"Transfer-Encoding: chunked\r\n\r\n")
    for part in parts:
        send(chunk(part))


def answer_whole(send, kind, body, status=b"200 OK", more=b"", length=None):
    send(b"HTTP/1.1 " + status + b"\r\nContent-Type: " + kind + b"\r\n" + more + b"Content-Length: %d\r\n\r\n" %
         (len(body) if length is None else length) + body)


# --- answers: a name, and what is sent on a connection ------------------------------------------------------------


def bomb(n):
    """n MiB of zeros as a gzip file, in a thousand bytes each; its checksum is false."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    block = packer.compress(bytes(1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08" + bytes(6) + b"\xff" + block * n + b"\x03\0" + bytes(8)


def deep_json(n):
    return b'{"code":' + b"[" * n + b"]" * n + b"}"


def silent(send, kind, path):
    threading.Event().wait()


def headless(text):
    return lambda send, kind, path: send(text)


def descriptors(send, kind, path, conn=None):
    """A descriptor beside the first bytes."""
    with open("/proc/self/maps") as f:
        socket.send_fds(conn, [b"HTTP/1.1 200 OK\r\nContent-Type: " + kind + b"\r\n"], [f.fileno()] * 200)
    threading.Event().wait()


def twice(send, kind, path):
    body = STARTED + ended(0) + END_OF_STREAM
    answer_whole(send, kind, body)
    answer_whole(send, kind, body)


def after_the_end(send, kind, path):
    answer_stream(send, kind, STARTED + ended(0) + data(b"more") + ended(5) + STARTED + END_OF_STREAM + b"garbage")
    forever(send, chunk(data(b"A" * 60000)))


def endless(body):
    def answer(send, kind, path):
        answer_stream(send, kind)
        forever(send, chunk(body))
    return answer


def headed(more, body, status=b"200 OK"):
    return lambda send, kind, path: answer_whole(send, kind, body() if callable(body) else body, status, more)


def lines(text):
    return lambda send, kind, path: answer_whole(send, b"application/json", text)


def tars(build):
    """What tar in the sandbox is said to have written."""
    def answer(send, kind, path):
        answer_stream(send, kind, STARTED)
        for part in build():
            send(chunk(data(part)))
        send(chunk(ended(0) + END_OF_STREAM))
        send(b"0\r\n\r\n")
    return answer


def header(name="x", kind=tarfile.REGTYPE, size=0, link=""):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname = kind, size, link
    return info.tobuf(tarfile.GNU_FORMAT)


def endless_zeros():
    yield header("./x", size=1 << 40)
    while True:
        yield bytes(60000)


def endless_pax():
    yield header("./x", tarfile.XHDTYPE, 1 << 33)
    while True:
        yield b"30 comment=aaaaaaaaaaaaaaaaaa\n" * 1000


def endless_name():
    yield header("././@LongLink", tarfile.GNUTYPE_LONGNAME, 1 << 33)
    while True:
        yield b"a" * 60000


def evil_names():
    for name in ("../../victim", "/victim", "./a/../../../victim", "..", "./\x1b[31mred", "./new\nline"):
        yield header(name, size=4) + b"evil" + bytes(508)
    yield header("./l", tarfile.SYMTYPE, link="../..") + header("./l/victim", size=4) + b"evil" + bytes(508)
    yield header("./h", tarfile.LNKTYPE, link="../../victim") + header("./h", size=4) + b"evil" + bytes(508)
    yield header("./dev", tarfile.CHRTYPE) + header("./blk", tarfile.BLKTYPE) + header("./fifo", tarfile.FIFOTYPE)
    yield bytes(1024)


ANSWERS = {
    "silent": silent,
    "nul": headless(b"HTTP/1.1 200 OK\0\r\n\r\n"),
    "version 0.9": headless(b"hello"),
    "version 2": headless(b"HTTP/2 200\r\n\r\n"),
    "switching": headless(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nhello"),
    "no content": headless(b"HTTP/1.1 204 No Content\r\nContent-Length: 50\r\n\r\n" + b"x" * 50),
    "two lengths": headless(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 9\r\n\r\nhello"),
    "negative length": headless(b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhello"),
    "huge length": headless(b"HTTP/1.1 200 OK\r\nContent-Type: application/proto\r\nContent-Length: 4294967296\r\n\r\nhello"),
    "length and chunks": headless(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nhello"),
    "huge chunk": headless(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\nhello"),
    "chunk without end": lambda send, kind, path: (send(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"),
                                                   forever(send, b"0" * 60000)),
    "trailers": lambda send, kind, path: (answer_stream(send, kind), send(b"0\r\n"), forever(send, b"X: " + b"y" * 1000 + b"\r\n")),
    "cookies": headed(b"Set-Cookie: a=b; Domain=envd; Path=/\r\n" * 100, b""),
    "location": headed(b"Location: http://127.0.0.1:1/\r\n", b"", b"307 Temporary Redirect"),
    "location of a file": headed(b"Location: file:///etc/passwd\r\n", b"", b"301 Moved"),
    "location without end": headed(b"Location: /x\r\n", b"", b"308 Permanent Redirect"),
    "login": headed(b"WWW-Authenticate: Basic realm=x\r\n", b"", b"401 Unauthorized"),
    "html": lambda send, kind, path: answer_whole(send, b"text/html", b"<html>\x1b[31m</html>" * 100),
    "no type": headless(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"),
    "deep json": lines(deep_json(1000000)),
    "deep json error": lambda send, kind, path: answer_whole(send, b"application/json", deep_json(100000), b"500 no"),
    "json of another kind": lines(b'[{"code":5}]'),
    "error of escapes": lambda send, kind, path: answer_whole(
        send, b"application/json", json.dumps({"code": "not_found", "message": "\x1b]0;title\x07\x1b[2J\nerror: fake\r"}).encode(),
        b"404 no"),
    "gzip of zeros": headed(b"Content-Encoding: gzip\r\n", lambda: bomb(512)),
    "gzip in gzip": headed(b"Content-Encoding: gzip, gzip\r\n", lambda: gzip.compress(bomb(64))),
    "gzip cut": headed(b"Content-Encoding: gzip\r\n", lambda: bomb(8)[:-9]),
    "message of zeros": lambda send, kind, path: (
        answer_stream(send, kind, more=b"Connect-Content-Encoding: gzip\r\n"),
        [send(chunk(envelope(bomb(64), 1))) for _ in range(8)], send(b"0\r\n\r\n")),
    "message of 4 GiB": lambda send, kind, path: (answer_stream(send, kind, envelope(b"x", length=0xFFFFFFFF)),
                                                  forever(send, chunk(b"A" * 60000))),
    "unknown flags": lambda send, kind, path: (answer_stream(send, kind, envelope(b"x", 0xFC), END_OF_STREAM), send(b"0\r\n\r\n")),
    "cut message": lambda send, kind, path: (answer_stream(send, kind, STARTED + b"\0\0\0"), send(b"0\r\n\r\n")),
    "empty messages": endless(envelope(b"") * 10000),
    "unknown events": endless(event(77, b"x" * 1000) * 50),
    "keepalives": endless(event(4, b"") * 5000),
    "starts": endless(STARTED * 1000),
    "huge pid": lambda send, kind, path: (answer_stream(send, kind, event(1, field(1, -1)), ended(0), END_OF_STREAM), send(b"0\r\n\r\n")),
    "broken text": lambda send, kind, path: answer_whole(send, kind, field(1, entry("\xff\xfe\0x".encode("latin1"), b"/\x80"))),
    "many entries": lambda send, kind, path: answer_whole(send, kind, field(1, entry("x", "/x")) * 200000),
    "entries without end": endless(field(1, entry("x", "/x")) * 500),
    "twice": twice,
    "after the end": after_the_end,
    "descriptors": descriptors,
    "short file": lambda send, kind, path: answer_whole(send, b"application/octet-stream", b"hello", length=4096),
    "long file": lambda send, kind, path: (answer_whole(send, b"application/octet-stream", b"hello"), send(b"and more" * 1000)),
    "endless file": lambda send, kind, path: (answer_stream(send, b"application/octet-stream"), forever(send, chunk(bytes(60000)))),
    "slow file": lambda send, kind, path: (answer_stream(send, b"application/octet-stream"), send(chunk(b"x")), silent(send, kind, path)),
    "tar zeros": tars(endless_zeros),
    "tar attributes": tars(endless_pax),
    "tar name": tars(endless_name),
    "tar names": tars(evil_names),
    "tar garbage": tars(lambda: [os.urandom(50000)]),
    "output": endless(data(b"A" * 60000)),
}


def answer(mode, path, kind, conn):
    if mode.startswith("stat-"):
        what, mode = mode[5:].split(":", 1)
        if "Stat" in path:
            is_dir = what == "dir"
            answer_whole(conn.sendall, kind, field(1, entry("x", "/x", 5, 0o755, 2 if is_dir else 1, "dir" if is_dir else "file")))
            return
    if mode == "descriptors":
        descriptors(conn.sendall, kind, path, conn)
    ANSWERS[mode](conn.sendall, kind, path)


def serve(mode, c, answerer):
    got = b""
    try:
        while b"\r\n\r\n" not in got:
            more = c.recv(65536)
            if not more:
                return
            got += more
        head = got.split(b"\r\n\r\n")[0].split(b"\r\n")
        kind = next((x.split(b":", 1)[1].strip() for x in head if x.lower().startswith(b"content-type:")), b"x/x")
        answerer(mode, head[0].split()[1].decode(), kind, c)
    except OSError:
        pass
    finally:
        c.close()


def server_main(home, mode, like, answerer=answer):
    """Take the place of pid 1 of a sandbox: the state of a real one, with this process as its pid 1."""
    from pathlib import Path
    sandboxes = Path(home) / "local/sandboxes"
    folder = sandboxes / FAKE
    folder.mkdir(mode=0o711)
    start = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    state = json.loads((sandboxes / like / "state.json").read_text())
    state.update(id=FAKE, name="fake", pid=os.getpid(), start=start, pidNs=os.stat("/proc/self/ns/pid").st_ino,
                 uid=os.getuid(), ids="single", slot=0)
    entry_file = Path(home) / "ledger" / f"{FAKE}.json"
    note = json.loads((Path(home) / "ledger" / f"{like}.json").read_text())
    note.update(key=FAKE, id=FAKE, name="fake")
    lock = open(folder / "lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    s = socket.socket(socket.AF_UNIX)
    s.bind(str(folder / "s"))
    s.listen(50)
    for file, text in [(folder / "state.json", state), (entry_file, note)]:
        with open(os.open(file, os.O_CREAT | os.O_WRONLY, 0o600), "w") as f:
            f.write(json.dumps(text))
    print("ready", flush=True)
    while True:
        threading.Thread(target=serve, args=(mode, s.accept()[0], answerer), daemon=True).start()


def hostile_fixture(abx, program):
    """What a fixture hostile_server yields: start(mode) makes a sandbox named FAKE, served by this program."""
    started = []
    like = abx.create()

    def clear():
        for p in started:
            p.kill()
            p.wait()
            p.stdout.close()
        started.clear()
        for name in ["local/sandboxes/" + FAKE, f"ledger/{FAKE}.json"]:
            subprocess.run(["rm", "-rf", str(abx.home / name)], check=True)

    def start(mode):
        clear()
        p = subprocess.Popen([sys.executable, "-SE", program, str(abx.home), mode, like], stdout=subprocess.PIPE)
        started.append(p)
        assert p.stdout.readline() == b"ready\n"
        return FAKE

    yield start
    clear()


if __name__ == "__main__":
    server_main(*sys.argv[1:])
