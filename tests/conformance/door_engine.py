"""The engine as a door of the conformance suite, by plain HTTP, server-sent events and WebSocket (docs/engine-api.md): what a client
in any language would do. Methods and routes come from the table of operations, as everywhere."""

import base64
import http.client
import json
import pathlib
import sys
import threading
import urllib.parse

import door_cli
import interpreter
import websocket

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "scripts"))
import tables  # noqa: E402

BLOCK = 65536
PLACES = {":process": "processId", ":port": "port", ":context": "contextId"}
FROM_CALL = ("pty.write", "pty.resize", "pty.close")  # have no route: they belong to the terminal's WebSocket


def load_routes():
    """operation → (method, route, style); parameters by operation → type."""
    t = tables.load()
    methods = {op.id: op.method for op in t.ops}
    types = {}
    for param in t.params:
        types.setdefault(methods[param.op], {})[param.name] = param.type
    return {op.method: (op.http, op.route, op.style) for op in t.ops}, types


def id_of(route):
    """The parameter that :id of a route is."""
    return {"snapshots": "snapshotId", "templates": "template"}.get(route.split("/")[2], "sandboxId")


def flat(name, value):
    """A parameter as it stands in a query: pairs."""
    if isinstance(value, bool):
        return [(name, "true" if value else "false")]
    if isinstance(value, dict):
        return [(name, f"{key}={inner}") for key, inner in value.items()]
    if isinstance(value, list):
        return [(name, item) for item in value]
    return [(name, str(value))]


class Call(door_cli.Call):
    """`connection` or `socket` is what ends with a cancel; `sink` takes more input."""

    def __init__(self, door, method, params):
        super().__init__(door)
        self.method, self.params = method, params
        self.connection = self.socket = self.sink = None
        self.given_up = False

    def feed(self, data, close):
        if self.method == "sandbox.tunnel":
            self.socket.send(data)
            if close:
                self.socket.send('{"end":{}}')
            return
        if data:
            self.connection.send(b"%x\r\n%s\r\n" % (len(data), data))
        if close:
            self.connection.send(b"0\r\n\r\n")

    def cancel(self):
        self.given_up = True
        for one in (self.connection and self.connection.sock, self.socket and self.socket.socket):
            try:
                if one:
                    one.shutdown(2)
            except OSError:
                pass
        self.may_read.set()

    def broken(self, e):
        if self.ended:
            return
        if self.given_up:
            self.end(error={"code": "E5002", "type": "CancelledError", "message": "given up", "retryable": False})
        else:
            self.end(error={"code": None, "message": f"the connection broke: {e!r}"})


class Door:
    """port, token: the engine; connection: the object of X-Abx-Connection."""

    def __init__(self, port, token, connection):
        self.port = port
        text = base64.urlsafe_b64encode(json.dumps(connection).encode()).decode().rstrip("=")
        self.headers = {"Authorization": f"Bearer {token}", "X-Abx-Connection": text}
        self.routes, self.types = load_routes()
        self.terminals = {}  # (sandbox, process) → the call that opened it

    def start(self, method, params, data, ends, deadline_ms, paused):
        call = Call(self, method, params)
        if not paused:
            call.may_read.set()
        style = self.routes[method][2]
        if method in FROM_CALL:
            run, args = self.of_terminal, (data,)
        elif method in ("pty.open", "sandbox.tunnel"):
            run, args = self.duplex, (data, ends)
        else:
            run, args = self.exchange, (style, data, ends, deadline_ms)
        if not ends or method in FROM_CALL:
            run(call, *args)  # what is fed comes behind the start
        else:
            threading.Thread(target=run, args=(call, *args), daemon=True).start()
        return call

    # --- requests

    def target(self, method, params):
        """The path, and the parameters that are not in it."""
        route, left = self.routes[method][1], dict(params)
        parts = []
        for part in route.split("/"):
            if part.startswith(":"):
                value = left.pop(PLACES.get(part) or id_of(route), "")
                part = urllib.parse.quote(str(value), safe="")
            parts.append(part)
        return "/".join(parts), left

    def with_query(self, path, params):
        pairs = [pair for name, value in params.items() for pair in flat(name, value)]
        return path + ("?" + urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote) if pairs else "")

    def exchange(self, call, style, data, ends, deadline_ms):
        method = self.routes[call.method][0]
        path, left = self.target(call.method, call.params)
        headers, body = dict(self.headers), None
        if deadline_ms:
            headers["X-Abx-Timeout-Ms"] = str(deadline_ms)
        if "fromOffset" in left:
            given = left.pop("fromOffset")
            headers["Last-Event-ID"] = str(given["pty"]) if "pty" in given else f"{given.get('stdout', 0)}.{given.get('stderr', 0)}"
        fed = style == "BODY_IN" and not ends
        if style == "BODY_IN":
            body = data or b""
            headers["Content-Type"] = "application/octet-stream"
        elif method in ("POST", "PUT"):
            body = json.dumps(left).encode()
            headers["Content-Type"] = "application/json"
            left = {}
        connection = call.connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)
        try:
            connection.putrequest(method, self.with_query(path, left))
            for name, value in headers.items():
                connection.putheader(name, value)
            if fed:
                connection.putheader("Transfer-Encoding", "chunked")
            elif body is not None:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders()
        except OSError as e:
            call.broken(e)
            return
        reader = threading.Thread(target=self.read, args=(call,), daemon=True)
        reader.start()
        try:
            if body and fed:
                call.feed(body, False)
            elif body:
                connection.send(body)
        except OSError:
            pass  # the answer tells why
        if ends:
            reader.join()

    def read(self, call):
        try:
            self.answered(call, call.connection.getresponse())
        except Exception as e:
            call.broken(e)
        finally:
            call.connection.close()

    def answered(self, call, answer):
        kind = answer.getheader("Content-Type", "")
        if answer.status >= 400:
            call.end(error=json.loads(answer.read())["error"])
        elif kind == "text/event-stream":
            self.events(call, answer)
        elif call.method == "fs.read":
            self.body(call, answer)
        else:
            text = answer.read()
            call.end(json.loads(text) if text else {})

    def body(self, call, answer):
        size = 0
        while True:
            call.may_read.wait()
            data = answer.read1(BLOCK)
            if not data:
                break
            size += len(data)
            call.chunk("body", data)
        if answer.length:
            raise http.client.IncompleteRead(b"", answer.length)
        call.end({"size": size})

    # --- server-sent events

    def events(self, call, answer):
        started = {}
        rest = b""
        while not call.ended:
            call.may_read.wait()
            data = answer.read1(BLOCK)
            if not data:
                break
            *whole, rest = (rest + data).split(b"\n\n")
            for block in whole:
                fields = dict(line.split(": ", 1) for line in block.decode().split("\n") if not line.startswith(":"))
                if fields:
                    self.event(call, fields["event"], json.loads(fields["data"]), started)
        if not call.ended:
            call.broken(EOFError("a stream without an end"))

    def event(self, call, kind, told, started):
        assert told.pop("type") == kind
        if kind in interpreter.CHANNELS:
            call.chunk(kind, told["text"].encode() if "text" in told else base64.b64decode(told["base64"], validate=True))
        elif kind == "error" and "error" in told:
            call.end(error=told["error"])
        elif kind == "end":
            call.end(told)
        else:
            call.event({"type": kind, **told})
            if kind == "started":
                started.update({name: told[name] for name in ("id", "pid") if name in told})
            if kind == "exit":
                call.end({**started, **told})

    # --- WebSocket

    def duplex(self, call, data, ends):
        path, left = self.target(call.method, call.params)
        try:
            socket = websocket.WebSocket("127.0.0.1", self.port, self.with_query(path, left), self.headers)
        except websocket.Refused as e:
            call.end(error=json.loads(e.body)["error"])
            return
        call.socket = socket
        threading.Thread(target=self.frames, args=(call,), daemon=True).start()
        if data or ends and call.method == "sandbox.tunnel":
            call.feed(data or b"", ends)

    def frames(self, call):
        outcome = {}
        while True:
            call.may_read.wait()
            try:
                message = call.socket.receive()
            except OSError:
                message = None
            if message is None:
                break
            if isinstance(message, bytes):
                call.chunk("body" if call.method == "sandbox.tunnel" else "pty", message)
                continue
            (kind, told), = json.loads(message).items()
            if kind == "error":
                call.end(error=told)
            else:
                self.frame(call, kind, told, outcome)
        if call.socket.closed == 1000 and not call.ended:
            call.end(outcome)
        call.broken(f"closed with {call.socket.closed}")
        call.socket.drop()

    def frame(self, call, kind, told, outcome):
        if kind == "started" and "id" in told:
            self.terminals[call.params["sandboxId"], told["id"]] = call
        if kind == "exit":
            outcome.update(told)
        call.event({"type": kind, **told})

    def of_terminal(self, call, data):
        key = call.params["sandboxId"], call.params["ptyId"]
        if key not in self.terminals:
            call.end(error={"code": "E3003", "type": "ProcessNotFoundError", "message": "no terminal of this door", "retryable": False})
            return
        socket = self.terminals[key].socket
        try:
            if call.method == "pty.write":
                socket.send(data)
            elif call.method == "pty.resize":
                socket.send(json.dumps({"resize": {"cols": call.params["cols"], "rows": call.params["rows"]}}))
            else:
                end = self.start("process.signal", {"sandboxId": key[0], "processId": key[1], "signal": "KILL"}, None, True, None, False)
                with end.changed:
                    end.changed.wait_for(lambda: end.ended, 30)
                call.end(error=end.error)
                return
        except OSError:
            pass
        call.end()
