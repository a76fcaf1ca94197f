"""OpenSandbox's lifecycle server, a double for tests: its sandboxes are those of `abx` on `local`, and in each runs execd (the
folder beside this file, or the program that is given). What real servers do wrong at times is switched on in `Server.faults`."""

import io
import json
import os
import re
import socket
import subprocess
import sys
import tarfile
import threading
import time
import uuid
from datetime import datetime, timedelta, timezone
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "execd"))

sys.path.insert(0, str(HERE))

import egress  # noqa: E402
import web  # noqa: E402
from web import Failed, Gone  # noqa: E402

EXECD_PORT = 44772
BOOT = """set -e
mkdir -p /tmp/.execd && tar -x -C /tmp/.execd
cd; %s >/tmp/.execd/log 2>&1 &
"$@" <&- &
wait $!
"""


def text_of(moment):
    return moment.isoformat().replace("+00:00", "Z")


def now():
    return datetime.now(timezone.utc)


def executable(one):
    one.mode = 0o755
    return one


def packed(program=None):
    """The tar of what runs in a sandbox."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path in [Path(program)] if program else sorted((HERE / "execd").glob("*.py")):
            tar.add(path, "execd" if program else path.name, filter=executable)
    return out.getvalue()


class Gate:
    """A published port: what connects is passed on to the sandbox; while that is paused it waits."""

    def __init__(self, box, port):
        self.box, self.port, self.listener = box, port, socket.create_server(("127.0.0.1", 0), backlog=256)
        self.number = self.listener.getsockname()[1]
        self.forward = box.server.abx.start("port", box.name, str(port), "--forward", stderr=subprocess.DEVNULL)
        line = self.forward.stdout.readline().decode().strip()
        self.inner = int(line.rsplit(":", 1)[1]) if line else None
        self.open = []
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client = self.listener.accept()[0]
            except OSError:
                return
            threading.Thread(target=self.pass_on, args=(client,), daemon=True).start()

    def pass_on(self, client):
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.box.awake.wait()
        try:
            inner = socket.create_connection(("127.0.0.1", self.inner))
        except (OSError, TypeError):
            return client.close()
        inner.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.open += [client, inner]
        back = threading.Thread(target=copy, args=(inner, client, self.box.server.faults.get("cutAfter")), daemon=True)
        back.start()
        copy(client, inner)
        back.join()
        for one in (client, inner):
            self.open.remove(one)
            one.close()

    def close(self):
        end(self.listener)  # a thread that waits in accept would keep it open, and take connections of the next one
        self.listener.close()
        self.forward.kill()
        self.forward.wait()
        end(*self.open)


def copy(source, target, at_most=None):
    """Bytes until the end; at_most: then the connection is cut."""
    try:
        while data := source.recv(65536):
            target.sendall(data if at_most is None else data[:at_most])
            if at_most is not None and (at_most := at_most - len(data)) <= 0:
                return end(source, target)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        end(source, target)


def end(*sockets):
    for one in sockets:
        try:
            one.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


class Box:
    """A sandbox: one of local, execd and the entrypoint in it, and the ports that are published."""

    def __init__(self, server, asked):
        self.server, self.asked, self.id = server, asked, str(uuid.uuid4())
        self.awake, self.jar, self.gates, self.epoch = threading.Event(), {}, {}, 0
        self.awake.set()
        self.metadata, self.created, self.changed = dict(asked.get("metadata") or {}), now(), now()
        self.expires = now() + timedelta(seconds=asked["timeout"]) if asked.get("timeout") else None
        self.state, self.ended, self.lock, self.egress = "Running", None, threading.RLock(), None
        if asked.get("networkPolicy"):
            egress.adopt(self, asked["networkPolicy"])
        words = ["create", "--timeout", "none"]
        for name, value in (asked.get("env") or {}).items():
            words += ["-e", f"{name}={value}"] if value is not None else []
        if asked.get("snapshotId"):
            words += ["--snapshot", server.snapshots[asked["snapshotId"]]["local"]]
        limits = asked.get("resourceLimits") or {}
        if memory := re.fullmatch(r"(\d+)(Mi|Gi|)", limits.get("memory", "")):
            self.memory = int(memory[1]) * {"Mi": 1 << 20, "Gi": 1 << 30, "": 1}[memory[2]]
            words += ["--memory", str(self.memory)] if server.limits else []
        self.name = server.abx.ok(*words).text.strip()
        self.boot()

    def boot(self):
        execd = "exec /tmp/.execd/execd" if self.server.program else "exec python3 /tmp/.execd/execd.py"
        env = {"EXECD_FAULTS": ",".join(self.server.execd_faults), "EXECD_KERNELS": self.server.kernels, "TMPDIR": "/tmp/.execd", "EXECD_API_GRACE_SHUTDOWN": "300ms",
               "EXECD_ENVS": "/tmp/.execd/.env"}
        words = [word for name, value in env.items() for word in ("-e", f"{name}={value}")]
        entry = self.asked.get("entrypoint") or ["tail", "-f", "/dev/null"]
        self.process = self.server.abx.start("exec", *words, self.name, "--", "sh", "-c", BOOT % execd, "sh", *entry,
                                             stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.process.stdin.write(self.server.payload)
        self.process.stdin.close()
        threading.Thread(target=self.watch, daemon=True).start()

    def watch(self):
        self.process.stderr.read()
        self.ended = self.process.wait()
        self.changed = now()

    def published(self, port):
        with self.lock:
            if port not in self.gates:
                self.gates[port] = Gate(self, port)
            return self.gates[port]

    def close(self):
        self.awake.set()
        for gate in self.gates.values():
            gate.close()
        self.server.abx("kill", self.name)
        self.process.wait()

    def status(self):
        state, reason, message = self.state, "CONTAINER_RUNNING", "Sandbox container is running."
        if self.ended is not None:
            state, reason, message = ("Failed", "CONTAINER_EXITED_ERROR", f"Sandbox container exited with code {self.ended}.") \
                if self.ended else ("Terminated", "CONTAINER_EXITED", "Sandbox container exited successfully.")
        elif state == "Paused":
            reason, message = "CONTAINER_PAUSED", "Sandbox container is paused."
        return {"state": state, "reason": reason, "message": message, "lastTransitionAt": text_of(self.changed)}

    def said(self, made=False):
        whole = {"id": self.id, "status": self.status(), "metadata": self.metadata or None,
                 "expiresAt": self.expires and text_of(self.expires), "createdAt": text_of(self.created),
                 "entrypoint": self.asked.get("entrypoint") or ["tail", "-f", "/dev/null"], "platform": self.asked.get("platform")}
        if not made:
            whole["image"] = {"uri": self.asked["image"]["uri"]} if self.asked.get("image") else None
            whole["snapshotId"] = self.asked.get("snapshotId")
        return {name: value for name, value in whole.items() if value is not None}


class Server(web.Server):
    """abx: a harness's home, where the sandboxes live. faults: name → value: `status` [(path pattern, times, status, headers, body)],
    `pending` n GETs, `refuse` n answers 502 to execd through the proxy, `endpointHeaders` {name: value} that execd must bear,
    `cutAfter` n bytes of each connection to a sandbox, `createDelay` seconds, `noSnapshots`, `egress`: there is a sidecar. execd_faults: see execd.py."""

    def __init__(self, abx, key="key-of-tests", program=None, kernels="python,bash", version="A", limits=True):
        super().__init__(("127.0.0.1", 0), Lifecycle)
        self.abx, self.key, self.program, self.kernels, self.version, self.limits = abx, key, program, kernels, version, limits
        self.boxes, self.snapshots, self.faults, self.execd_faults, self.lock = {}, {}, {}, [], threading.RLock()
        self.payload = packed(program)
        self.seen = []  # method and path of each request
        self.domain = f"127.0.0.1:{self.server_address[1]}"
        self.url = f"http://{self.domain}"
        threading.Thread(target=self.serve_forever, daemon=True).start()
        self.closing = threading.Event()
        threading.Thread(target=self.expire, daemon=True).start()

    def expire(self):
        while not self.closing.wait(0.1):
            for box in [b for b in list(self.boxes.values()) if b.expires and b.expires < now()]:
                self.boxes.pop(box.id, None)
                box.close()

    def close(self):
        self.closing.set()
        self.shutdown()
        self.server_close()
        for box in list(self.boxes.values()):
            box.close()


LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
KEY = re.compile(r"([a-z0-9.-]{1,253}/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def invalid(where, kind, message):
    e = Failed(422, "", "")
    e.body = {"detail": [{"type": kind, "loc": where, "msg": message}]}
    return e


def check_labels(labels, bare=False):
    for name, value in labels.items():
        if value is not None and not isinstance(value, str):
            raise invalid(["body", name], "string_type", "Input should be a valid string")
        if name.startswith("opensandbox.io/"):
            code = "INVALID_METADATA_LABEL" if bare else "SANDBOX::INVALID_METADATA_LABEL"
            raise Failed(400, code, f"Metadata key '{name}' is reserved (opensandbox.io/ prefix).")
        if not KEY.fullmatch(name) or not LABEL.fullmatch(value or ""):
            raise Failed(400, "SANDBOX::INVALID_METADATA_LABEL", f"Metadata value '{value}' is invalid: must be 63 characters or less")


def check_create(server, asked):
    image = asked.get("image")
    if asked.get("resourceLimits") is None:
        raise invalid(["body", "resourceLimits"], "missing", "Field required")
    if bool(image) == bool(asked.get("snapshotId")) or (image and not (image.get("uri") or "").strip()):
        raise invalid(["body"], "value_error", "Value error, exactly one of image and snapshotId")
    if image and not asked.get("entrypoint"):
        raise invalid(["body"], "value_error", "Value error, entrypoint is required")
    timeout = asked.get("timeout")
    if timeout is not None:
        try:
            asked["timeout"] = int(timeout)
        except ValueError:
            raise invalid(["body", "timeout"], "int_parsing", "Input should be a valid integer") from None
        if asked["timeout"] != float(timeout) or asked["timeout"] < 60:
            raise invalid(["body", "timeout"], "greater_than_equal", "Input should be greater than or equal to 60")
        if asked["timeout"] > 86400:
            raise Failed(400, "SANDBOX::INVALID_PARAMETER", "Sandbox timeout exceeds configured maximum of 86400s")
    check_labels(asked.get("metadata") or {})
    if asked.get("snapshotId") and asked["snapshotId"] not in server.snapshots:
        raise Failed(404, "SNAPSHOT::NOT_FOUND", f"Snapshot '{asked['snapshotId']}' not found.")
    if (asked.get("networkPolicy") and not server.faults.get("egress")) or asked.get("secureAccess"):
        raise Failed(400, "SANDBOX::INVALID_PARAMETER", "egress.image must be configured when networkPolicy is provided.")
    for volume in asked.get("volumes") or []:
        if "host" in volume:
            raise Failed(400, "VOLUME::HOST_PATH_NOT_ALLOWED", f"Host path '{volume['host'].get('path')}' is not allowed.")
    if image and image["uri"].startswith("missing"):
        raise Failed(500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED", f"Failed to pull image {image['uri']}: 404 Client Error")


def box_of(handler, id):
    if id not in handler.server.boxes:
        raise Failed(404, "DOCKER::SANDBOX_NOT_FOUND", f"Sandbox {id} not found.")
    return handler.server.boxes[id]


def body_of(handler):
    try:
        if "json" not in handler.headers.get("Content-Type", ""):
            raise ValueError
        value = json.loads(handler.body() or b"{}")
        if not isinstance(value, dict):
            raise ValueError
        return value
    except ValueError:
        raise invalid(["body"], "model_attributes_type", "Input should be a valid dictionary") from None


def health(handler):
    handler.answer(200, {"status": "healthy"})


def create(handler):
    asked, server = body_of(handler), handler.server
    check_create(server, asked)
    time.sleep(server.faults.get("createDelay", 0))
    box = Box(server, asked)
    server.boxes[box.id] = box
    box.pending = server.faults.get("pending", 0)
    said = box.said(made=True)
    if box.pending:
        said["status"]["state"] = "Pending"
    handler.answer(202, said)


def number(handler, name, default, low, high):
    try:
        value = int(handler.ask(name, default))
    except ValueError:
        raise invalid(["query", name], "int_parsing", "Input should be a valid integer") from None
    if not low <= value <= high:
        raise invalid(["query", name], "greater_than_equal" if value < low else "less_than_equal", "Input out of range")
    return value


def paged(handler, items):
    page, size = number(handler, "page", "1", 1, 1 << 30), number(handler, "pageSize", "20", 1, 200)
    pages = -(-len(items) // size)
    handler.answer(200, {"items": items[(page - 1) * size:page * size], "pagination": {
        "page": page, "pageSize": size, "totalItems": len(items), "totalPages": pages, "hasNextPage": page < pages}})


def list_all(handler):
    states = [s.lower() for s in handler.query.get("state", [])]
    try:
        labels = dict(parse_qsl(handler.ask("metadata", ""), keep_blank_values=True, strict_parsing=bool(handler.ask("metadata"))))
    except ValueError as e:
        raise Failed(400, "INVALID_METADATA_FORMAT", f"Invalid metadata format: {e}") from None
    boxes = sorted(handler.server.boxes.values(), key=lambda b: b.created, reverse=True)
    said = [b.said() for b in boxes if labels.items() <= b.metadata.items()]
    paged(handler, [one for one in said if not states or one["status"]["state"].lower() in states])


def get(handler, id):
    box = box_of(handler, id)
    said = box.said()
    if getattr(box, "pending", 0) > 0:
        box.pending -= 1
        said["status"]["state"] = "Allocated" if box.pending == 1 else "Pending"
    handler.answer(200, said)


def patch_metadata(handler, id):
    box, change = box_of(handler, id), body_of(handler)
    check_labels(change, bare=True)
    for name, value in change.items():
        box.metadata.pop(name, None) if value is None else box.metadata.update({name: value})
    handler.answer(200, box.said())


def delete(handler, id):
    box = box_of(handler, id)
    del handler.server.boxes[id]
    box.close()
    handler.answer(204)


def pause(handler, id):
    box = box_of(handler, id)
    with box.lock:
        if box.ended is not None or (box.state == "Paused" and handler.server.version == "D"):
            raise Failed(409, "DOCKER::SANDBOX_NOT_RUNNING", "Sandbox is not in a running state.")
        if box.state == "Paused":
            raise Failed(500, "DOCKER::SANDBOX_PAUSE_FAILED", "Failed to pause sandbox container: 409 Client Error")
        box.awake.clear()
        handler.server.abx.ok("pause", box.name)
        box.state, box.changed = "Paused", now()
    handler.answer(202)


def resume(handler, id):
    box = box_of(handler, id)
    with box.lock:
        if box.state != "Paused":
            raise Failed(409, "DOCKER::SANDBOX_NOT_PAUSED", "Sandbox is not in a paused state.")
        handler.server.abx.ok("resume", box.name, "--timeout", "none")
        box.state, box.changed = "Running", now()
        box.epoch += 1
        box.awake.set()
    handler.answer(202)


def renew(handler, id):
    box, asked = box_of(handler, id), body_of(handler).get("expiresAt")
    try:
        moment = datetime.fromtimestamp(asked, timezone.utc) if isinstance(asked, (int, float)) else datetime.fromisoformat(asked)
    except (TypeError, ValueError):
        raise invalid(["body", "expiresAt"], "datetime_from_date_parsing", "Input should be a valid datetime or date") from None
    moment = (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).astimezone(timezone.utc)
    if moment <= now():
        raise Failed(400, "DOCKER::INVALID_EXPIRATION", "New expiration time must be in the future.")
    if not box.expires:
        raise Failed(409, "DOCKER::INVALID_EXPIRATION", f"Sandbox {id} does not have automatic expiration enabled.")
    box.expires = moment
    handler.answer(200, {"expiresAt": text_of(moment)})


def endpoint(handler, id, port):
    box = box_of(handler, id)
    if not re.fullmatch(r"-?\d+", port):
        raise invalid(["path", "port"], "int_parsing", "Input should be a valid integer")
    port = int(port)
    if not 1 <= port <= 65535:
        raise Failed(400, "DOCKER::INVALID_PORT", "Port must be between 1 and 65535.")
    if handler.ask("expires"):
        raise Failed(400, "SANDBOX::API_NOT_SUPPORTED", "Signed endpoints are not supported.")
    if port == 18080 and box.egress:
        return handler.answer(200, egress.endpoint(handler, box))
    if handler.ask("use_server_proxy") == "true":
        prefix = "/v1" if handler.server.version == "D" else ""
        said = {"endpoint": f"{handler.headers.get('Host')}{prefix}/sandboxes/{id}/proxy/{port}"}
    elif port == 8080:
        said = {"endpoint": f"127.0.0.1:{box.published(8080).number}"}
    else:
        said = {"endpoint": f"127.0.0.1:{box.published(EXECD_PORT).number}/proxy/{port}"}
    if headers := handler.server.faults.get("endpointHeaders"):
        said["headers"] = headers
    handler.answer(200, said)


def snapshot_make(handler, id):
    box, server = box_of(handler, id), handler.server
    if server.faults.get("noSnapshots"):
        raise Failed(501, "SNAPSHOT::NOT_IMPLEMENTED", "Snapshots are not supported by this runtime.")
    if box.state != "Running":
        raise Failed(409, "SNAPSHOT::INVALID_SOURCE_STATE", "Sandbox must be running.")
    name = body_of(handler).get("name") if handler.unread else None
    sid = str(uuid.uuid4())
    one = {"id": sid, "sandboxId": id, "name": name, "status": {"state": "Creating"}, "createdAt": text_of(now())}
    server.snapshots[sid] = {**one, "local": server.abx.ok("snapshot", "create", box.name).text.strip(), "polls": 1}
    handler.answer(202, {k: v for k, v in one.items() if v is not None}, {"Location": f"/v1/snapshots/{sid}"})


def snapshot_said(one):
    one["polls"] -= 1
    state = "Creating" if one["polls"] >= 0 else "Ready"
    said = {**one, "status": {"state": state}}
    return {k: v for k, v in said.items() if v is not None and k not in ("local", "polls")}


def snapshot_list(handler):
    said = [snapshot_said(s) for s in handler.server.snapshots.values()]
    wanted = {k: handler.ask(k) for k in ("sandboxId",) if handler.ask(k)}
    paged(handler, [s for s in said if wanted.items() <= s.items() and handler.ask("state") in (None, s["status"]["state"])])


def snapshot_of(handler, sid):
    if sid not in handler.server.snapshots:
        raise Failed(404, "SNAPSHOT::NOT_FOUND", f"Snapshot '{sid}' not found.")
    return handler.server.snapshots[sid]


def snapshot_get(handler, sid):
    handler.answer(200, snapshot_said(snapshot_of(handler, sid)))


def snapshot_delete(handler, sid):
    one = snapshot_of(handler, sid)
    handler.server.abx.ok("snapshot", "rm", one["local"])
    del handler.server.snapshots[sid]
    handler.answer(204)


def diagnostics(handler, id, kind):
    box = box_of(handler, id)
    text = f"{text_of(box.created)} execd listens\n"
    if not handler.ask("scope"):
        return handler.answer(200, text.encode(), {"Deprecation": "true"}, "text/plain; charset=utf-8")
    if handler.server.version != "D":
        raise Failed(501, "DIAGNOSTICS_NOT_IMPLEMENTED", "The stable Diagnostics API is not implemented by this OpenSandbox server.")
    handler.answer(200, {"sandboxId": id, "kind": kind, "scope": handler.ask("scope"), "delivery": "inline", "contentType": "text/plain",
                         "content": text, "contentLength": len(text), "truncated": False})


def no_pools(handler):
    raise Failed(501, "KUBERNETES::POOL_NOT_SUPPORTED", "Pool management is only available when runtime.type is 'kubernetes'.")


HOP = {"connection", "keep-alive", "te", "trailer", "transfer-encoding", "upgrade", "host", "authorization", "cookie",
       "open-sandbox-api-key", "proxy-connection"}


def proxied(handler, id, port, rest):
    """Through the server to a port of the sandbox."""
    upgrade = "websocket" in handler.headers.get("Upgrade", "").lower()
    if id not in handler.server.boxes and upgrade:
        return web.WebSocket(handler).close(1011, "Sandbox not found")
    box = box_of(handler, id)
    if not 1 <= int(port) <= 65535:
        raise Failed(400, "DOCKER::INVALID_PORT", "Port must be between 1 and 65535.")
    if handler.command in ("HEAD", "OPTIONS"):
        return handler.answer(405, {"detail": "Method Not Allowed"})
    if handler.server.faults.get("refuse", 0) > 0:
        handler.server.faults["refuse"] -= 1
        raise unreachable(handler)
    box.awake.wait()
    backend = socket.create_connection(("127.0.0.1", box.published(EXECD_PORT).number))
    query = urlsplit(handler.path).query
    if handler.server.version != "D":
        query = query.replace("%20", "+")
    lines = [f"{handler.command} /proxy/{port}{rest or '/'}{'?' + query if query else ''} HTTP/1.1", f"Host: 127.0.0.1:{port}"]
    lines += [f"{k}: {v}" for k, v in handler.headers.items() if k.lower() not in HOP]
    lines += [f"Cookie: {'; '.join(f'{k}={v}' for k, v in box.jar.items())}"] if box.jar else []
    lines += ["Transfer-Encoding: chunked"] if handler.chunked else []
    lines += ["Upgrade: websocket", "Connection: Upgrade"] if upgrade else ["Connection: close"]
    backend.sendall("\r\n".join([*lines, "", ""]).encode("latin-1"))
    if upgrade:
        return proxied_socket(handler, backend)
    chunked = handler.chunked
    while part := handler.read_some():
        backend.sendall(b"%x\r\n%b\r\n" % (len(part), part) if chunked else part)
    if chunked:
        backend.sendall(b"0\r\n\r\n")
    relay(handler, box, backend)


def unreachable(handler):
    code = "BACKEND_CONNECTION_FAILED" if handler.server.version == "D" else "GENERAL::UNKNOWN_ERROR"
    return Failed(502, code, "Could not connect to the backend sandbox endpoint='127.0.0.1:44772' headers=None: All connection attempts failed")


def relay(handler, box, backend):
    """The backend's answer to the client, until the backend closes; its cookies go into the common jar."""
    with backend, backend.makefile("rb") as source:
        head = []
        while (line := source.readline()) not in (b"\r\n", b""):
            head.append(line)
        if not head:
            raise unreachable(handler)
        for line in head:
            if found := re.match(rb"set-cookie: *([^=;]+)=([^;\r]*)", line, re.I):
                box.jar[found[1].decode()] = found[2].decode()
        handler.answered = handler.close_connection = True
        head = [line for line in head if not line.lower().startswith((b"connection:", b"x-request-id:"))]
        handler.wfile.write(b"".join(head) + f"X-Request-ID: {handler.request_id}\r\nConnection: close\r\n\r\n".encode())
        while data := source.read1(65536):
            handler.wfile.write(data)
            handler.wfile.flush()


def proxied_socket(handler, backend):
    """A refused handshake becomes a WebSocket that is closed at once: its status is lost."""
    head = b""
    while b"\r\n\r\n" not in head and (data := backend.recv(4096)):
        head += data
    if b" 101 " not in head.split(b"\r\n", 1)[0]:
        return web.WebSocket(handler).close(1008 if head and b" 502 " not in head else 1011)
    handler.answered = handler.close_connection = True
    handler.wfile.write(head)
    handler.wfile.flush()
    back = threading.Thread(target=copy, args=(backend, handler.connection), daemon=True)
    back.start()
    try:
        while data := handler.rfile.read1(65536):
            backend.sendall(data)
        backend.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    back.join()
    backend.close()
    handler.cut()


ROUTES = [
    ("POST", r"/sandboxes", create),
    ("GET", r"/sandboxes", list_all),
    ("GET", r"/sandboxes/([^/]+)", get),
    ("PATCH", r"/sandboxes/([^/]+)/metadata", patch_metadata),
    ("DELETE", r"/sandboxes/([^/]+)", delete),
    ("POST", r"/sandboxes/([^/]+)/pause", pause),
    ("POST", r"/sandboxes/([^/]+)/resume", resume),
    ("POST", r"/sandboxes/([^/]+)/renew-expiration", renew),
    ("GET", r"/sandboxes/([^/]+)/endpoints/([^/]+)", endpoint),
    ("POST", r"/sandboxes/([^/]+)/snapshots", snapshot_make),
    ("GET", r"/sandboxes/([^/]+)/diagnostics/(logs|events)", diagnostics),
    ("GET", r"/snapshots", snapshot_list),
    ("GET", r"/snapshots/([^/]+)", snapshot_get),
    ("DELETE", r"/snapshots/([^/]+)", snapshot_delete),
    ("GET", r"/pools", no_pools),
]


class Lifecycle(web.Handler):
    routes = [(method, re.compile("(?:/v1)?" + path), function) for method, path, function in ROUTES]

    def send_response(self, status, message=None):
        super().send_response(status, message)
        self.send_header("X-Request-ID", self.request_id)

    def fail_on_purpose(self):
        for fault in self.server.faults.get("status", []):
            if fault["times"] > 0 and re.search(fault["path"], f"{self.command} {self.where}"):
                fault["times"] -= 1
                kind = "text/html" if isinstance(fault["body"], bytes) else None
                self.answer(fault["status"], fault["body"], fault.get("headers", {}), kind)
                return True
        return False

    def route(self):
        self.request_id = self.headers.get("X-Request-ID") or uuid.uuid4().hex
        self.server.seen.append((self.command, self.path))
        if self.fail_on_purpose():
            return None
        if self.where == "/health":
            return health(self)
        through = re.fullmatch(r"(?:/v1)?/sandboxes/([^/]+)/proxy/(\d+)(/.*)?", self.where)
        if through and ".." not in self.where:
            return proxied(self, *through.groups())
        sidecar = re.fullmatch(r"/egress/([^/]+)/policy", self.where)
        if sidecar and (box := self.server.boxes.get(sidecar[1])) and box.egress:
            return egress.policy(self, box)
        key = self.headers.get("OPEN-SANDBOX-API-KEY")
        if self.server.key and key != self.server.key:
            code = "INVALID_API_KEY" if key else "MISSING_API_KEY"
            raise Failed(401, code, "Authentication credentials are missing or invalid.")
        if self.server.version == "D" and self.where.endswith("/metrics/events"):
            return self.answer(204)
        if re.fullmatch(r"(/v1)?/sandboxes/([^/]+)/proxy/([^/]*)(/.*)?", self.where):
            raise invalid(["path", "port"], "int_parsing", "Input should be a valid integer")
        for method, pattern, function in self.routes:
            if found := pattern.fullmatch(self.where):
                if method == self.command:
                    return function(self, *found.groups())
        known = any(pattern.fullmatch(self.where) for _, pattern, _ in self.routes)
        self.answer(405 if known else 404, {"detail": "Method Not Allowed" if known else "Not Found"})


def main():
    """Serves until its standard input ends; prints address and key."""
    sys.path.insert(0, str(HERE.parent / "e2e"))
    from harness import Abx

    abx = Abx(furnished=True)
    server = Server(abx, program=os.environ.get("EXECD_PROGRAM"))
    print(json.dumps({"url": server.url, "domain": server.domain, "key": server.key}), flush=True)
    sys.stdin.read()
    server.close()
    abx.close()


if __name__ == "__main__":
    try:
        main()
    except (KeyboardInterrupt, Gone):
        pass
