"""The plugin's end of EPP/1: JSON-RPC 2.0, one message a line, on stdin and stdout. Nothing here knows a backend.

    epp.serve(features, handlers)    serve until the host goes; handlers: method -> function(call) -> result (a dict)

Each request runs in a thread of its own. What a function raises is the answer: epp.Error with a code of the protocol,
OSError by what it means. Nothing else may write to stdout: print() there would break the protocol. stderr is the log.
"""

import base64
import errno
import json
import queue
import sys
import threading

WINDOW = 1 << 20  # bytes of a stream that may be on their way before the host has taken any
CHUNK = 48 * 1024


class Error(Exception):
    def __init__(self, code, message, hint=None):
        super().__init__(message)
        self.code, self.hint = code, hint


def error_of(e):
    """Any exception as an Error."""
    if isinstance(e, Error):
        return e
    if isinstance(e, OSError):
        codes = {errno.ENOENT: "E3002", errno.ENOSPC: "E4003", errno.EDQUOT: "E4003"}
        path = f"'{e.filename}': " if e.filename else ""
        return Error(codes.get(e.errno, "E6005"), path + (e.strerror or str(e)).lower())
    return Error("E6002", f"{type(e).__name__}: {e}")


class Call:
    """One request. `params` is what the host sent; the rest is for functions that stream."""

    def __init__(self, line, request_id, method, params):
        self.id, self.method, self.params = request_id, method, params
        self.cancelled = False
        self.on_cancel = None  # called once, from another thread, when the host gives up
        self._line = line
        self._room = WINDOW
        self._change = threading.Condition()
        self._incoming = queue.Queue()

    def notify(self, method, **members):
        """An event of this stream, before the answer."""
        self._line.send({"method": method, "params": {"stream": self.id, **members}})

    def send_bytes(self, method, data, **members):
        """Bytes of this stream; waits while the host does not take them. Raises when the call was cancelled."""
        while data:
            with self._change:
                while self._line.flow and self._room <= 0 and not self.cancelled:
                    self._change.wait()
                self.check()
                size = min(CHUNK, self._room) if self._line.flow else CHUNK
                piece, data = data[:size], data[size:]
                self._room -= len(piece)
            self.notify(method, **members, **as_member(piece))

    def body(self):
        """The bytes that the host sends with this request, piece by piece. Each is acknowledged when it was used."""
        while True:
            request_id, piece = self._incoming.get()
            self.check()
            if piece is None:
                self._line.answer(request_id, {})
                return
            yield piece
            self._line.answer(request_id, {})

    def check(self):
        if self.cancelled:
            raise Error("E5002", "cancelled")

    # --- from the thread that reads

    def cancel(self):
        with self._change:
            self.cancelled = True
            self._change.notify_all()
        self._incoming.put((None, None))
        if self.on_cancel:
            self.on_cancel()

    def grant(self, n):
        with self._change:
            self._room += n
            self._change.notify_all()

    def feed(self, request_id, piece):
        self._incoming.put((request_id, piece))


def as_member(data):
    try:
        return {"text": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def bytes_of(params):
    if "text" in params:
        return params["text"].encode()
    return base64.b64decode(params.get("base64", ""))


class Line:
    def __init__(self, features, handlers):
        self.features, self.handlers = features, handlers
        self.calls = {}
        self.flow = False
        self._out = sys.stdout.buffer
        self._write = threading.Lock()
        sys.stdout = sys.stderr  # a stray print() goes to the log

    def send(self, message):
        text = json.dumps({"jsonrpc": "2.0", **message}, separators=(",", ":")).encode() + b"\n"
        with self._write:
            self._out.write(text)
            self._out.flush()

    def answer(self, request_id, result):
        if request_id is not None:
            self.send({"id": request_id, "result": result})

    def fail(self, request_id, e):
        data = {"code": e.code, **({"hint": e.hint} if e.hint else {})}
        self.send({"id": request_id, "error": {"code": -32000, "message": str(e), "data": data}})

    def run(self, call):
        try:
            result = self.handlers[call.method](call)
            call.check()
            self.calls.pop(call.id, None)
            self.answer(call.id, result or {})
        except Exception as e:
            self.calls.pop(call.id, None)
            if not isinstance(e, (Error, OSError)):
                sys.excepthook(*sys.exc_info())
            self.fail(call.id, Error("E5002", "cancelled") if call.cancelled else error_of(e))

    def take(self, message):
        """One message of the host. False: the last one."""
        request_id, method, params = message.get("id"), message.get("method"), message.get("params") or {}
        stream = self.calls.get(params.get("stream")) if method else None
        if method == "initialize":
            self.flow = params.get("flow") is True
            self.handlers.get("initialize", lambda p: None)(params)
            self.answer(request_id, {"protocol": "epp/1", "features": self.features, "flow": True})
        elif method == "shutdown":
            self.answer(request_id, {})
            return False
        elif method == "cancel" and stream:
            stream.cancel()
        elif method == "stream.window" and stream:
            stream.grant(params.get("bytes", 0))
        elif method in ("stream.write", "stream.end") and stream:
            stream.feed(request_id, bytes_of(params) if method == "stream.write" else None)
        elif method in ("stream.write", "stream.end"):
            self.answer(request_id, {})  # of a call that has ended: nobody needs the bytes
        elif method in self.handlers:
            call = self.calls[request_id] = Call(self, request_id, method, params)
            threading.Thread(target=self.run, args=(call,), daemon=True).start()
        elif request_id is not None:
            self.send({"id": request_id, "error": {"code": -32601, "message": f"no method '{method}'"}})
        return True


def serve(features, handlers):
    """features: name -> "native" or "unsupported". Returns when the host has gone; calls that still run are cancelled."""
    line = Line(features, handlers)
    for text in sys.stdin.buffer:
        if not line.take(json.loads(text)):
            break
    for call in list(line.calls.values()):
        call.cancel()
