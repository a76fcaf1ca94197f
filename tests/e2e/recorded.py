"""Replay of recorded exchanges with a real envd: the requests of a recording, sent to an envd of ours, and the
comparison of what comes back. The format is told in tests/data/recordings/envd/README.md."""

import base64
import gzip
import hashlib
import json
import os
import re
import socket
import struct
import subprocess
import threading
import time
import urllib.parse
import zlib

from harness import HELPERS, HERE, ROOT, wait_for

FOLDER = HERE.parent / "data/recordings/envd"
TOKEN = "abababababababab"
LIMIT = 40  # seconds after which an answer counts as missing

# Headers of a request that belong to the connection, not to the request.
OURS = {"content-length", "host", "connection", "transfer-encoding", "x-rec-open"}
# Headers of an answer that are compared.
COMPARED = {"content-type", "content-disposition", "content-range", "accept-ranges", "allow", "accept-post", "vary",
            "cache-control", "x-content-type-options", "connect-protocol-version"}
STREAMS = ("/Start", "/Connect", "/WatchDir", "/StreamInput")


class Exchange:
    """One line of a recording."""

    def __init__(self, file, number, line):
        self.file, self.number, self.line = file, number, line
        self.request, self.response = line["request"], line.get("response") or {}
        self.call = line.get("call")
        self.where = f"{file}:{number}"
        self.verb, self.target = self.request["line"].split()[:2]

    @property
    def is_data_plane(self):
        return (self.line.get("plane") != "control" and self.response.get("from") != "stub"
                and " 502" not in (self.response.get("line") or ""))

    @property
    def is_open(self):
        """Sent to an envd that asks for no token?"""
        return any(name_of(h) == "x-rec-open" or "iopen" in h for h in self.request["headers"])

    @property
    def is_stream(self):
        return self.target.endswith(STREAMS)

    @property
    def is_over_at_once(self):
        """A time limit of a millisecond: what a process says by then, and whether it has begun, is chance."""
        limits = [h.split(":", 1)[1].strip() for h in self.request["headers"] if name_of(h) == "connect-timeout-ms"]
        return limits == ["1"]

    @property
    def is_typed(self):
        """A shell on a terminal that somebody types at?"""
        return self.file.startswith(("pty-", "cli")) and '"pty"' in json.dumps(self.request.get("frames", ""))

    @property
    def closed_after(self):
        """Seconds until the client hung up, or None."""
        ms = self.line.get("client_closed_ms")
        return ms / 1000 if ms else None

    @property
    def started_pid(self):
        for frame in self.response.get("frames", []):
            pid = frame.get("json", {}).get("event", {}).get("start", {}).get("pid")
            if pid:
                return pid
        return None


def name_of(header):
    return header.split(":")[0].lower()


def load(file):
    lines = [json.loads(text) for text in (FOLDER / f"{file}.jsonl").read_text().splitlines()]
    for line in lines:
        request = line["request"]
        if "headers_as_line" in request:
            base = lines[request["headers_as_line"] - 1]["request"]["headers"]
            own = request.get("headers_own", [])
            names = {name_of(h) for h in own} | {"content-length"}
            request["headers"] = [h for h in base if name_of(h) not in names] + own
        request.setdefault("headers", [])
    return [Exchange(file, number, line) for number, line in enumerate(lines, 1)]


# --- the envd that answers -------------------------------------------------------------------------------


class Envd:
    """An envd with a machine of its own (envd_serve.c). A user who is not root gets one in a user namespace."""

    def __init__(self, token=TOKEN, user="", folder="", env=()):
        ids = [] if ROOT else ["unshare", "--user", "--map-root-user", "--map-auto"]
        self.process = subprocess.Popen([*ids, HELPERS / "envd_serve", token, user, folder, *env],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"PATH": os.environ["PATH"]})
        self.port = int(self.process.stdout.readline() or 0)
        assert self.port, "envd_serve does not start"
        self.lock = threading.Lock()

    def run(self, script):
        """A script as root, in the home of 'user'."""
        with self.lock:
            self.process.stdin.write(script.encode() + b"\n")
            self.process.stdin.flush()
            return int(self.process.stdout.readline())

    def later(self, seconds, script):
        timer = threading.Timer(seconds, self.run, [script])
        timer.start()
        return timer

    def close(self):
        self.process.stdin.close()
        self.process.wait(20)
        self.process.stdout.close()


# --- requests --------------------------------------------------------------------------------------------


def sign(path, operation, user, token, expiration=None):
    text = f"{path}:{operation}:{user}:{token}" + (f":{expiration}" if expiration is not None else "")
    return "v1_" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode().rstrip("=")


def envelope(flags, data):
    return bytes([flags]) + struct.pack(">I", len(data)) + data


def whole_body(request):
    """A body of which the recording has only the first bytes and the hash."""
    size, digest = re.match(r"(\d+) bytes, sha256 (\w+)", request["cut"]).groups()
    size = int(size)
    head = base64.b64decode(request["body_b64"]) if "body_b64" in request else request["body"].encode()
    boundary = re.search(r"boundary=(\S+)", " ".join(request["headers"]))
    if boundary:
        end = f"\r\n--{boundary[1]}--\r\n".encode()
        head = head[:head.index(b"\r\n\r\n") + 4]
    elif head.startswith(b"{"):
        end, begin = b'YWE="}}', head.index(b"YWFh")
        head = head[:begin] + b"YWFh" * ((size - begin - len(end)) // 4)
    else:
        end, head = b"", head * (size // len(head) + 1) if head.strip(b"\0") else b""
        head = (b"0123456789abcdef" * (size // 16 + 1))[:size] if head else b""
    body = head + bytes(size - len(head) - len(end)) + end
    assert hashlib.sha256(body).hexdigest() == digest, f"cannot make {request['line']} whole"
    return body


class Replay:
    """Requests of one recording against an envd, in their order. Here the ids that our envd gave out are put in place
    of the recorded ones."""

    def __init__(self):
        self.pids, self.watchers = {}, {}

    def translate(self, text):
        text = re.sub(r'("pid"\s*:\s*)(\d+)',
                      lambda m: m[1] + str(self.pids.get(int(m[2]), int(m[2]))), text)
        for recorded, own in self.watchers.items():
            text = text.replace(recorded, own)
        return text

    def frame(self, frame):
        if "json" in frame:
            text = self.translate(json.dumps(frame["json"], separators=(",", ":")))
            return envelope(frame["flags"], text.encode())
        return envelope(frame["flags"], base64.b64decode(frame["b64"]))

    def body(self, request):
        if "frames" in request:
            return (b"".join(self.frame(f) for f in request["frames"])
                    + base64.b64decode(request.get("rest_b64", "")))
        for key in ("rest_b64", "gzip_b64"):
            if key in request:
                return base64.b64decode(request[key])
        if "cut" in request:
            body = whole_body(request)
            return self.translate(body.decode()).encode() if body.startswith(b"{") else body
        if "gzip_bytes" in request:
            return gzip.compress(request["body"].encode())
        if "body" in request:
            is_json = "json" in " ".join(request["headers"]).lower()
            return (self.translate(request["body"]) if is_json else request["body"]).encode()
        return base64.b64decode(request.get("body_b64") or request.get("raw_b64") or "")

    def head(self, exchange, body):
        request = exchange.request
        lines = [fresh_signature(exchange), "Host: x"]
        lines += [h for h in request["headers"] if name_of(h) not in OURS]
        if request["framing"] == "chunked":
            lines.append("Transfer-Encoding: chunked")
        elif exchange.verb == "POST" or body:
            # Who hung up in the middle promised more than came.
            promised = [h.split(":")[1].strip() for h in request["headers"] if name_of(h) == "content-length"]
            has_hung_up = promised and not exchange.response.get("line")
            lines.append(f"Content-Length: {promised[0] if has_hung_up else len(body)}")
        lines.append("Connection: close")
        return "\r\n".join(lines).encode("utf-8") + b"\r\n\r\n"

    def write_chunks(self, s, request, body):
        """In the recorded chunks; frames that came apart in time come apart again."""
        frames = request.get("frames") or []
        start = time.monotonic()

        def wait_until(ms):
            time.sleep(max(0, (ms or 0) / 1000 - (time.monotonic() - start)))

        def write(piece):
            if piece:
                s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))

        if len(frames) > 1 or frames and request.get("end_ms", 0) > 50:
            for frame in frames:
                wait_until(frame.get("t"))
                write(self.frame(frame))
            wait_until(request.get("end_ms"))
        else:
            sizes = request.get("chunks") or []
            for size in sizes if sum(sizes) == len(body) else [len(body)]:
                write(body[:size])
                body = body[size:]
        s.sendall(b"0\r\n\r\n")

    def send(self, exchange, envd, answer):
        """Send it and read the answer to its end into answer.raw."""
        body = self.body(exchange.request)
        with socket.create_connection(("127.0.0.1", envd.port)) as s:
            try:
                s.sendall(self.head(exchange, body))
                if exchange.request["framing"] == "chunked":
                    self.write_chunks(s, exchange.request, body)
                else:
                    s.sendall(body)
            except OSError:
                pass  # refused before it was read; the answer tells
            self.read(exchange, s, answer)
        found = re.search(rb'"watcherId":\s*"(\w+)"', answer.raw)
        recorded = re.search(r'"watcherId":\s*"(\w+)"', exchange.response.get("body") or "")
        if found and recorded and "/CreateWatcher" in exchange.target:
            self.watchers[recorded[1]] = found[1].decode()

    def read(self, exchange, s, answer):
        now = time.monotonic()
        end = now + LIMIT
        s.settimeout(0.02)
        while time.monotonic() < end:
            hung_up = exchange.closed_after and time.monotonic() > now + exchange.closed_after
            if hung_up and (answer.frames() or not exchange.response.get("frames")):
                break
            try:
                data = s.recv(65536)
            except socket.timeout:
                continue
            except OSError:
                break
            if not data:
                break
            answer.raw += data
            if len(answer.raw) < 65536:
                self.note_pid(exchange, answer)
        answer.is_over = True

    def note_pid(self, exchange, answer):
        recorded = exchange.started_pid
        if recorded and recorded not in self.pids:
            for _, data in answer.frames():
                found = re.search(rb'"start":\{"pid":(\d+)', data.replace(b" ", b""))
                if found:
                    self.pids[recorded] = int(found[1])


def fresh_signature(exchange):
    """The request line; a signature that was valid then and would be too old now is made anew."""
    line = exchange.request["line"]
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(exchange.target).query)
    if "signature_expiration" not in query or " 200 " not in (exchange.response.get("line") or ""):
        return line
    until = str(int(time.time()) + 1000)
    fresh = sign(query.get("path", [""])[0], "read" if exchange.verb == "GET" else "write",
                 query.get("username", [""])[0], TOKEN, until)
    line = line.replace(query["signature_expiration"][0], until)
    return re.sub(r"signature=[^& ]*", "signature=" + urllib.parse.quote(fresh, safe=""), line)


# --- answers ---------------------------------------------------------------------------------------------


def without_chunks(data):
    pieces, at = [], 0
    while True:
        end = data.find(b"\r\n", at)
        n = int(data[at:end], 16) if end > at else 0
        if n == 0:
            return b"".join(pieces)
        pieces.append(data[end + 2:end + 2 + n])
        at = end + 2 + n + 2


class Answer:
    def __init__(self):
        self.raw, self.is_over = bytearray(), False

    def parts(self):
        """Status, headers, body; (None, [], b"") without an answer."""
        raw = bytes(self.raw)
        while raw.startswith(b"HTTP/1.1 100"):
            raw = raw.partition(b"\r\n\r\n")[2]
        head, end, body = raw.partition(b"\r\n\r\n")
        if not end:
            return None, [], b""
        lines = head.decode("utf-8", "surrogateescape").split("\r\n")
        if any(h.lower() == "transfer-encoding: chunked" for h in lines):
            body = without_chunks(body)
        return lines[0].split()[1], lines[1:], body

    def frames(self):
        body, found, at = self.parts()[2], [], 0
        while len(body) >= at + 5:
            n = struct.unpack_from(">I", body, at + 1)[0]
            found.append((body[at], body[at + 5:at + 5 + n]))
            at += 5 + n
        return found


def clean(value):
    """Without what differs from run to run."""
    if isinstance(value, dict):
        if "processes" in value:  # E2B lists them in no order
            value["processes"] = sorted(value["processes"], key=lambda p: json.dumps(p["config"]))
        if not ROOT:  # the owner of the machine's own files is nobody in a user namespace
            value = {k: "root" if k in ("owner", "group") and v == "65534" else v for k, v in value.items()}
        value = {k: clean(v) for k, v in value.items()
                 if k not in ("modifiedTime", "pid", "watcherId") and not k.startswith("abx")}
        if value.get("type") == "FILE_TYPE_DIRECTORY":
            value.pop("size", None)
        return value
    if isinstance(value, list):
        return [clean(v) for v in value]
    if isinstance(value, str):
        value = re.sub(r"process '\d+'", "process 'N'", value)
        value = re.sub(r"pid \d+", "pid N", value)
        return re.sub(r"watcher with id w\w{20}", "watcher W", value).replace("\u00a0", " ")
    return value


def events_of(frames):
    """The events in their order; data between two others is joined, by stream. Keepalives are only told of."""
    order, has_keepalive = [], False
    for flags, value in frames:
        event = value.get("event", value) if isinstance(value, dict) else value
        if "keepalive" in event:
            has_keepalive = True
        elif "data" in event:
            if not order or "data" not in order[-1]:
                order.append({"data": {}})
            for stream, text in event["data"].items():
                joined = order[-1]["data"]
                joined[stream] = joined.get(stream, "") + base64.b64decode(text).decode("latin-1")
        elif "start" in event:
            order.append({"start": True})
        else:
            order.append({"end of stream": bool(flags & 2), **clean(event)})
            # A file is looked at soon after it changed: how much it held by then is chance.
            order[-1].get("filesystem", {}).get("entry", {}).pop("size", None)
    for event in order:
        if "pty" in event.get("data", {}):
            event["data"]["pty"] = re.sub(r"/dev/pts/\d+", "/dev/pts/N", event["data"]["pty"])
    return order, has_keepalive


def plain(flags, data):
    return zlib.decompressobj(31).decompress(data) if flags & 1 else data


def compare_protobuf(recorded, answer):
    """Frames byte for byte, but the first event, which holds the pid."""
    mine = [(flags & 2, data) for flags, data in answer.frames()]
    theirs = []
    for frame in recorded:
        data = base64.b64decode(frame["b64"]) if "b64" in frame else json.dumps(frame["json"]).encode()
        theirs.append((frame["flags"] & 2, plain(frame["flags"], data)))
    return None if theirs[1:] == mine[1:] else ("events", theirs, mine)


def compare_frames(exchange, answer):
    recorded = exchange.response["frames"]
    content_type = " ".join(h for h in exchange.response["headers"] if name_of(h) == "content-type")
    if "proto" in content_type:
        return compare_protobuf(recorded, answer)
    theirs, their_keepalive = events_of(
        (f["flags"], f["json"] if "json" in f else json.loads(plain(f["flags"], base64.b64decode(f["b64"]))))
        for f in recorded if "json" in f or "b64" in f)
    mine, my_keepalive = events_of((flags, json.loads(data)) for flags, data in answer.frames())
    if exchange.is_typed:
        return compare_terminal(theirs, mine, is_whole=not any("note" in f for f in recorded))
    if any("note" in f or "cut" in f for f in recorded):
        theirs, mine = without_left_out(recorded, theirs, mine)
    if exchange.is_over_at_once:
        theirs, mine = theirs[-1:], mine[-1:]
    if exchange.line.get("aborted"):
        shortest = min(len(theirs), len(mine))
        theirs, mine = theirs[:shortest], mine[:shortest]
    elif their_keepalive and not my_keepalive:
        return "keepalive", True, False
    return None if theirs == mine else ("events", theirs, mine)


def without_left_out(recorded, theirs, mine):
    """The recording has only the first and the last frames; of events their number too."""
    if any("cut" in f for f in recorded):
        return [e for e in theirs if "data" not in e], [e for e in mine if "data" not in e]
    at = next(i for i, f in enumerate(recorded) if "note" in f)
    number = int(recorded[at]["note"].split()[0])
    return theirs, mine[:at] + mine[at + number:]


def printed(text):
    """(lines, what was typed at a prompt) of a shell's terminal."""
    text = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", text)
    lines = [line for line in re.split(r"[\r\n]+", text) if line]
    prompts = [re.match(r"\w+@\w+:\S*[$#] ?(.*)", line) for line in lines]
    return [line for line, p in zip(lines, prompts) if not p], {p[1] for p in prompts if p}


def compare_terminal(theirs, mine, is_whole):
    """Whether a key arrives before or after the prompt is chance: compared is what commands print. Who was killed may
    have come less far."""
    their_text, my_text = ("".join(e["data"]["pty"] for e in events if "data" in e) for events in (theirs, mine))
    (their_lines, typed), (my_lines, also_typed) = printed(their_text), printed(my_text)
    typed |= also_typed
    their_lines, my_lines = ([x for x in lines if x not in typed] for lines in (their_lines, my_lines))
    theirs, mine = ([e for e in events if "data" not in e] for events in (theirs, mine))
    if not is_whole:
        my_lines = [x for x in my_lines if x in their_lines]
    if "signal: killed" in json.dumps(theirs):
        shortest = min(len(their_lines), len(my_lines))
        their_lines, my_lines = their_lines[:shortest], my_lines[:shortest]
    return None if (theirs, their_lines) == (mine, my_lines) else ("events", theirs + their_lines, mine + my_lines)


def members_of(text):
    return re.findall(r'"(name|type|path|permissions|symlinkTarget)"\s*:\s*"([^"]*)"', text)


def compare_cut(exchange, body):
    """The recording has the first bytes and the hash."""
    size, digest = re.match(r"(\d+) bytes, sha256 (\w+)", exchange.response["cut"]).groups()
    if hashlib.sha256(body).hexdigest() == digest and len(body) == int(size):
        return None
    theirs = members_of(exchange.response.get("body", ""))
    mine = members_of(body.decode("utf-8", "replace"))[:len(theirs)]
    return None if theirs and theirs == mine else ("body", theirs, mine or body[:200])


def compare_body(exchange, status, body):
    response = exchange.response
    if response.get("cut"):
        return compare_cut(exchange, body)
    recorded = (response.get("body") or "").encode()
    if "body_b64" in response:
        recorded = base64.b64decode(response["body_b64"])
    if recorded == body:
        return None
    try:
        theirs, mine = clean(json.loads(recorded)), clean(json.loads(body))
    except ValueError:
        return "body", recorded[:1000], body[:1000]
    if exchange.target == "/metrics" and status == "200":
        theirs, mine = sorted(theirs), sorted(mine)
    return None if theirs == mine else ("body", theirs, mine)


def compare(exchange, answer):
    """None when the answer is the recorded one, else (what differs, recorded, ours)."""
    response = exchange.response
    status, headers, body = answer.parts()
    if not response.get("line"):
        return ("answer", None, bytes(answer.raw[:200])) if answer.raw else None
    if status is None:
        return "answer", response["line"], None
    if status != response["line"].split()[1]:
        return "status", response["line"].split()[1], status + " " + body[:200].decode("utf-8", "replace")
    found = compare_frames(exchange, answer) if "frames" in response else compare_body(exchange, status, body)
    if found:
        return found

    left_out = set()
    if any(h.lower() == "content-encoding: gzip" for h in response["headers"]):
        left_out = {"accept-ranges"}  # what is not compressed can be asked for in ranges
        if "Content-Type: application/octet-stream" in response["headers"]:
            left_out.add("content-type")  # and its type is told from the first bytes
    if exchange.verb == "POST" and exchange.target.startswith("/files") and status == "200":
        left_out = {"content-type"}  # ours says what it is, there it is guessed from the first bytes

    def kept(lines):
        return sorted(f"{name_of(h)}: {h.split(':', 1)[1].strip()}" for h in lines if name_of(h) not in left_out
                      and (name_of(h) in COMPARED or name_of(h).startswith("access-control-")))

    theirs, mine = kept(response["headers"]), kept(headers)
    if theirs == mine:
        return None
    return "headers", [h for h in theirs if h not in mine], [h for h in mine if h not in theirs]


def wait_for_start(exchange, answer, seconds=10):
    """Until a stream has begun and a shell has shown its prompt."""
    sign_of_life = b'"pty"' if exchange.is_typed else b"{"
    wait_for(lambda: answer.is_over or sign_of_life in answer.parts()[2], "the first frame of a stream", seconds)


def wait_for_silence(answer):
    """Until the shell has done what was typed."""
    before = -1
    while before != len(answer.raw) and not answer.is_over:
        before = len(answer.raw)
        time.sleep(0.3)
