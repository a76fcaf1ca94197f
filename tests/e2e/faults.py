"""A proxy that does harm, to stand before any HTTP/1.1 server of a test, or in its place.

    with FaultProxy(port) as proxy:                  # port of the server on 127.0.0.1; None: there is none
        proxy.add(Fault("/files?", cut=100))         # requests whose first line holds this text
        proxy.add(Fault("/Start", answer=page(502), times=1))
        ... a client that uses proxy.url ...
        proxy.requests                               # heads that came, in order
        proxy.clear()

A request meets the first fault that matches it and is not used up; without one it passes. Every request gets a connection of its
own: the proxy asks both sides for that.

What a fault may do, in this order:
  delay=SECONDS       wait before anything is sent to the client
  answer=BYTES        send this instead of asking the server (answer(), page(), stream(), redirect() make such bytes)
  stall=True          say nothing until the client goes away
  take=N              take N bytes of the request's body, then end the connection without an answer
  alter=FUNCTION      the server's answer goes through it, piece by piece
  corrupt=N           turn over the bits of the N-th byte of the answer, counted from the end of its head
  cut=N, cut_body=N   end the connection after N bytes of the answer, or of what follows its head
  slow=(N, SECONDS)   send pieces of N bytes, with a pause behind each
  end="reset"         how the connection is ended then: "close" (default), "reset", "stall" (open, silent), "tls" (close
                      without TLS's goodbye; the same as close without TLS)
  times=N             for so many requests, then it is used up"""

import json
import socket
import ssl
import struct
import threading
import time

PIECE = 65536


class Fault:
    def __init__(self, match="", answer=None, delay=0, stall=False, take=None, alter=None, corrupt=None, cut=None,
                 cut_body=None, slow=None, end="close", times=None):
        self.match, self.answer, self.delay, self.stall, self.take = match, answer, delay, stall, take
        self.alter, self.corrupt, self.cut, self.cut_body = alter, corrupt, cut, cut_body
        self.slow, self.end, self.times = slow, end, times
        self.used = 0


# --- answers ---------------------------------------------------------------------------------------------


def answer(status, body=b"", kind="application/json", headers=(), length=None):
    """A whole answer; length: a wrong one to announce."""
    body = json.dumps(body).encode() if isinstance(body, (dict, list)) else body
    body = body.encode() if isinstance(body, str) else body
    lines = [f"HTTP/1.1 {status} Status", f"Content-Type: {kind}", *headers,
             f"Content-Length: {len(body) if length is None else length}", "Connection: close"]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def page(status, title="Bad Gateway"):
    """What a proxy sends to a browser."""
    return answer(status, f"<!DOCTYPE html><html><head><title>{title}</title></head><body>{title}</body></html>", "text/html")


def redirect(to, status=302):
    return answer(status, "", "text/plain", [f"Location: {to}"])


def gone(sandbox="sb1"):
    """E2B's answer for a sandbox that is not there."""
    return answer(502, {"sandboxId": sandbox, "message": "The sandbox was not found", "code": 502})


def port_closed(sandbox="sb1", port=49983):
    return answer(502, {"sandboxId": sandbox, "message": "The sandbox is running but port is not open", "port": port,
                        "code": 502})


def envelope(message, flags=0, length=None):
    body = json.dumps(message).encode() if isinstance(message, dict) else message
    return bytes([flags]) + struct.pack(">I", len(body) if length is None else length) + body


END = envelope({}, 2)


def chunked(head_lines, pieces, last=True):
    text = "\r\n".join(["HTTP/1.1 200 OK", *head_lines, "Transfer-Encoding: chunked", "Connection: close"]).encode() + b"\r\n\r\n"
    for piece in pieces:
        text += b"%x\r\n%s\r\n" % (len(piece), piece) if piece else b""
    return text + (b"0\r\n\r\n" if last else b"")


def stream(*envelopes, last=True, kind="application/connect+json", headers=()):
    """A Connect stream; envelopes: dicts or bytes. last: with the end of HTTP's chunks. The end mark is END, if it is wanted."""
    pieces = [envelope(e) if isinstance(e, dict) else e for e in envelopes]
    return chunked([f"Content-Type: {kind}", *headers], pieces, last)


STARTED = {"event": {"start": {"pid": 4242}}}
EXITED = {"event": {"end": {"exited": True, "status": "exit status 0"}}}


# --- the proxy -------------------------------------------------------------------------------------------


def read_head(s):
    """The head of a request, with the empty line, and what came behind it."""
    data = b""
    while b"\r\n\r\n" not in data:
        more = s.recv(PIECE)
        data += more
        if not more or len(data) > 1 << 20 or data[:1] == b"\x16":  # the hello of TLS
            return None, b""
    head, _, rest = data.partition(b"\r\n\r\n")
    return head + b"\r\n\r\n", rest


def reset(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


class FaultProxy:
    def __init__(self, port=None, host="127.0.0.1", cert=None, key=None):
        self.target = (host, port) if port else None
        self.faults, self.requests, self.open = [], [], set()
        self.sent = 0  # bytes of answers
        self.lock = threading.Lock()
        self.tls = None
        if cert:
            self.tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.tls.load_cert_chain(cert, key)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.url = f"{'https' if cert else 'http'}://127.0.0.1:{self.port}"
        threading.Thread(target=self.accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def add(self, *faults):
        with self.lock:
            self.faults += faults
        return self

    def clear(self):
        with self.lock:
            self.faults, self.requests = [], []

    def close(self):
        try:
            self.listener.shutdown(socket.SHUT_RDWR)  # a thread that waits in accept would keep it open
        except OSError:
            pass
        self.listener.close()
        with self.lock:
            left = list(self.open)
        for s in left:
            self.drop(s)

    def break_all(self):
        """Reset every connection that is open now."""
        with self.lock:
            left = list(self.open)
        for s in left:
            try:
                reset(s)
            except OSError:
                pass
            self.drop(s)

    # --- one connection ---

    def hold(self, s):
        with self.lock:
            self.open.add(s)
        return s

    def drop(self, s):
        with self.lock:
            self.open.discard(s)
        try:
            s.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        s.close()

    def accept(self):
        while True:
            try:
                s, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(self.hold(s),), daemon=True).start()

    def find(self, line):
        with self.lock:
            self.requests.append(line)
            for fault in self.faults:
                if fault.match in line.split("\r\n")[0] and (fault.times is None or fault.used < fault.times):
                    fault.used += 1
                    return fault
        return Fault()

    def serve(self, s):
        client = s
        try:
            if self.tls:
                client = self.tls.wrap_socket(s, server_side=True)
                with self.lock:
                    self.open.discard(s)
                self.hold(client)
            head, rest = read_head(client)
            if head:
                self.exchange(client, head, rest, self.find(head.decode("latin-1")))
        except (OSError, ssl.SSLError):
            pass
        finally:
            self.drop(client)

    def exchange(self, client, head, rest, fault):
        time.sleep(fault.delay)
        if fault.stall:
            self.wait_gone(client)
        elif fault.take is not None:
            n = len(rest)
            while n < fault.take:
                more = client.recv(PIECE)
                if not more:
                    return
                n += len(more)
            self.finish(client, fault)
        elif fault.answer is not None:
            threading.Thread(target=self.swallow, args=(client,), daemon=True).start()
            self.send(client, fault, fault.answer, Position())
            self.finish(client, fault)
        elif self.target is None:
            client.sendall(answer(502, "no server", "text/plain"))
        else:
            self.pass_on(client, head, rest, fault)

    def pass_on(self, client, head, rest, fault):
        server = self.hold(socket.create_connection(self.target))
        lines = [line for line in head[:-4].split(b"\r\n") if not line.lower().startswith(b"connection:")]
        server.sendall(b"\r\n".join([*lines, b"Connection: close"]) + b"\r\n\r\n" + rest)
        threading.Thread(target=self.upward, args=(client, server), daemon=True).start()
        at = Position()
        try:
            while True:
                data = server.recv(PIECE)
                if not data:
                    break
                if not self.send(client, fault, fault.alter(data) if fault.alter else data, at):
                    self.finish(client, fault)
                    return
        except OSError:
            reset(client)  # as the server did
        finally:
            self.drop(server)

    def upward(self, client, server):
        try:
            while True:
                data = client.recv(PIECE)
                if not data:
                    break
                server.sendall(data)
        except OSError:
            pass
        self.drop(server)

    def swallow(self, client):
        try:
            while client.recv(PIECE):
                pass
        except OSError:
            pass

    def wait_gone(self, client):
        self.swallow(client)

    def finish(self, client, fault):
        if fault.end == "stall":
            self.wait_gone(client)
        elif fault.end == "reset":
            reset(client)

    def send(self, client, fault, data, at):
        """False: the fault's limit was reached."""
        self.sent += len(data)
        data, whole = at.take(fault, data)
        size, pause = fault.slow or (len(data) or 1, 0)
        for i in range(0, len(data), size):
            client.sendall(data[i:i + size])
            time.sleep(pause)
        return whole


class Position:
    """Where in the answer we are."""

    def __init__(self):
        self.sent, self.body, self.head = 0, None, b""

    def take(self, fault, data):
        """What of the next bytes is to be sent, and whether that is all of them."""
        start = self.sent  # of data in the answer
        if self.body is None:
            self.head += data
            end = self.head.find(b"\r\n\r\n")
            self.body = end + 4 if end >= 0 else None
        self.sent += len(data)
        limit = fault.cut
        if fault.cut_body is not None and self.body is not None:
            limit = self.body + fault.cut_body
        if fault.corrupt is not None and self.body is not None:
            i = self.body + fault.corrupt - start
            if 0 <= i < len(data):
                data = data[:i] + bytes([data[i] ^ 0xFF]) + data[i + 1:]
        if limit is not None and self.sent >= limit:
            return data[:max(0, limit - start)], False
        return data, True
