"""The operations. Made from the project's tables by scripts/gen_python.py.

A row: feature that it needs, style, HTTP method and route of the engine, and its parameters: name, type, needed.
"""

from __future__ import annotations

from typing import Dict, FrozenSet, NamedTuple, Tuple


class Op(NamedTuple):
    """A row of the table of operations."""

    feature: str
    style: str
    http: str
    route: str
    params: Tuple[Tuple[str, str, bool], ...]


FEATURES: FrozenSet[str] = frozenset(
    (
        "sandbox",
        "connect",
        "list",
        "timeout",
        "pause",
        "metrics",
        "logs",
        "network",
        "ports",
        "process",
        "process.stdin",
        "process.replay",
        "filesystem",
        "filesystem.range",
        "filesystem.watch",
        "pty",
        "snapshot",
        "fork",
        "templates",
        "code",
        "code.contexts",
        "upkeep",
    )
)

OPS: Dict[str, Op] = {
    "sandbox.create": Op(
        "sandbox",
        "UNARY",
        "POST",
        "/v1/sandboxes",
        (
            ("name", "STRING", False),
            ("metadata", "MAP", False),
            ("env", "MAP", False),
            ("timeoutMs", "INT", False),
            ("idleMs", "INT", False),
            ("onTimeout", "STRING", False),
            ("template", "STRING", False),
            ("image", "STRING", False),
            ("snapshot", "STRING", False),
            ("network", "STRING", False),
            ("idempotencyKey", "STRING", False),
            ("reuse", "BOOL", False),
            ("allowWeaker", "LIST", False),
            ("tied", "BOOL", False),
            ("memoryBytes", "INT", False),
            ("cpus", "NUMBER", False),
            ("diskBytes", "INT", False),
            ("processes", "INT", False),
            ("openFiles", "INT", False),
        ),
    ),
    "sandbox.info": Op(
        "sandbox",
        "UNARY",
        "GET",
        "/v1/sandboxes/:id",
        (
            ("sandboxId", "STRING", True),
        ),
    ),
    "sandbox.kill": Op(
        "sandbox",
        "UNARY",
        "DELETE",
        "/v1/sandboxes/:id",
        (
            ("sandboxId", "STRING", True),
        ),
    ),
    "sandbox.connect": Op(
        "connect",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/connect",
        (
            ("sandboxId", "STRING", True),
            ("timeoutMs", "INT", False),
        ),
    ),
    "sandbox.list": Op(
        "list",
        "UNARY",
        "GET",
        "/v1/sandboxes",
        (
            ("metadata", "MAP", False),
        ),
    ),
    "sandbox.set_timeout": Op(
        "timeout",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/timeout",
        (
            ("sandboxId", "STRING", True),
            ("timeoutMs", "INT", True),
        ),
    ),
    "sandbox.pause": Op(
        "pause",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/pause",
        (
            ("sandboxId", "STRING", True),
        ),
    ),
    "sandbox.metrics": Op(
        "metrics",
        "UNARY",
        "GET",
        "/v1/sandboxes/:id/metrics",
        (
            ("sandboxId", "STRING", True),
        ),
    ),
    "sandbox.logs": Op(
        "logs",
        "UNARY",
        "GET",
        "/v1/sandboxes/:id/logs",
        (
            ("sandboxId", "STRING", True),
            ("since", "STRING", False),
            ("limit", "INT", False),
        ),
    ),
    "sandbox.set_network": Op(
        "network",
        "UNARY",
        "PUT",
        "/v1/sandboxes/:id/network",
        (
            ("sandboxId", "STRING", True),
            ("network", "STRING", True),
        ),
    ),
    "sandbox.snapshot_create": Op(
        "snapshot",
        "STREAM",
        "POST",
        "/v1/sandboxes/:id/snapshot",
        (
            ("sandboxId", "STRING", True),
            ("name", "STRING", False),
        ),
    ),
    "sandbox.snapshot_list": Op(
        "snapshot",
        "UNARY",
        "GET",
        "/v1/snapshots",
        (
        ),
    ),
    "sandbox.snapshot_remove": Op(
        "snapshot",
        "UNARY",
        "DELETE",
        "/v1/snapshots/:id",
        (
            ("snapshotId", "STRING", True),
        ),
    ),
    "sandbox.fork": Op(
        "fork",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/fork",
        (
            ("sandboxId", "STRING", True),
            ("name", "STRING", False),
            ("metadata", "MAP", False),
            ("network", "STRING", False),
            ("env", "MAP", False),
            ("timeoutMs", "INT", False),
            ("idempotencyKey", "STRING", False),
        ),
    ),
    "sandbox.template_list": Op(
        "templates",
        "UNARY",
        "GET",
        "/v1/templates",
        (
        ),
    ),
    "sandbox.template_info": Op(
        "templates",
        "UNARY",
        "GET",
        "/v1/templates/:id",
        (
            ("template", "STRING", True),
        ),
    ),
    "sandbox.template_add": Op(
        "templates",
        "STREAM",
        "POST",
        "/v1/templates",
        (
            ("name", "STRING", False),
            ("source", "STRING", True),
        ),
    ),
    "sandbox.template_remove": Op(
        "templates",
        "UNARY",
        "DELETE",
        "/v1/templates/:id",
        (
            ("template", "STRING", True),
        ),
    ),
    "sandbox.ports": Op(
        "ports",
        "UNARY",
        "GET",
        "/v1/sandboxes/:id/ports",
        (
            ("sandboxId", "STRING", True),
        ),
    ),
    "sandbox.host": Op(
        "ports",
        "UNARY",
        "GET",
        "/v1/sandboxes/:id/ports/:port",
        (
            ("sandboxId", "STRING", True),
            ("port", "INT", True),
        ),
    ),
    "sandbox.tunnel": Op(
        "ports",
        "DUPLEX",
        "GET",
        "/v1/sandboxes/:id/ports/:port/tunnel",
        (
            ("sandboxId", "STRING", True),
            ("port", "INT", True),
        ),
    ),
    "process.start": Op(
        "process",
        "STREAM",
        "POST",
        "/v1/sandboxes/:id/processes",
        (
            ("sandboxId", "STRING", True),
            ("cmd", "ARGV", True),
            ("shell", "BOOL", False),
            ("cwd", "STRING", False),
            ("env", "MAP", False),
            ("user", "STRING", False),
            ("stdin", "STRING", False),
            ("input", "BYTES", False),
            ("background", "BOOL", False),
            ("timeoutMs", "INT", False),
            ("onDisconnect", "STRING", False),
        ),
    ),
    "process.attach": Op(
        "process.replay",
        "STREAM",
        "GET",
        "/v1/sandboxes/:id/processes/:process/stream",
        (
            ("sandboxId", "STRING", True),
            ("processId", "STRING", True),
            ("fromOffset", "OBJECT", False),
            ("follow", "BOOL", False),
            ("timestamps", "BOOL", False),
            ("missed", "BOOL", False),
        ),
    ),
    "process.detach": Op(
        "process",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/processes/:process/detach",
        (
            ("sandboxId", "STRING", True),
            ("processId", "STRING", True),
        ),
    ),
    "process.signal": Op(
        "process",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/processes/:process/signal",
        (
            ("sandboxId", "STRING", True),
            ("processId", "STRING", True),
            ("signal", "STRING", True),
        ),
    ),
    "process.list": Op(
        "process",
        "UNARY",
        "GET",
        "/v1/sandboxes/:id/processes",
        (
            ("sandboxId", "STRING", True),
        ),
    ),
    "process.stdin": Op(
        "process.stdin",
        "BODY_IN",
        "POST",
        "/v1/sandboxes/:id/processes/:process/stdin",
        (
            ("sandboxId", "STRING", True),
            ("processId", "STRING", True),
            ("close", "BOOL", False),
        ),
    ),
    "process.close_stdin": Op(
        "process.stdin",
        "UNARY",
        "DELETE",
        "/v1/sandboxes/:id/processes/:process/stdin",
        (
            ("sandboxId", "STRING", True),
            ("processId", "STRING", True),
        ),
    ),
    "fs.read": Op(
        "filesystem",
        "BODY_OUT",
        "GET",
        "/v1/sandboxes/:id/files",
        (
            ("sandboxId", "STRING", True),
            ("path", "STRING", True),
            ("user", "STRING", False),
            ("offset", "INT", False),
            ("limit", "INT", False),
        ),
    ),
    "fs.write": Op(
        "filesystem",
        "BODY_IN",
        "PUT",
        "/v1/sandboxes/:id/files",
        (
            ("sandboxId", "STRING", True),
            ("path", "STRING", True),
            ("user", "STRING", False),
            ("size", "INT", False),
            ("mode", "INT", False),
            ("whole", "BOOL", False),
            ("modifiedAt", "STRING", False),
            ("metadata", "MAP", False),
        ),
    ),
    "fs.stat": Op(
        "filesystem",
        "UNARY",
        "GET",
        "/v1/sandboxes/:id/files/stat",
        (
            ("sandboxId", "STRING", True),
            ("path", "STRING", True),
            ("user", "STRING", False),
        ),
    ),
    "fs.list": Op(
        "filesystem",
        "UNARY",
        "GET",
        "/v1/sandboxes/:id/files/list",
        (
            ("sandboxId", "STRING", True),
            ("path", "STRING", True),
            ("depth", "INT", False),
            ("user", "STRING", False),
        ),
    ),
    "fs.make_dir": Op(
        "filesystem",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/files/mkdir",
        (
            ("sandboxId", "STRING", True),
            ("path", "STRING", True),
            ("user", "STRING", False),
        ),
    ),
    "fs.rename": Op(
        "filesystem",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/files/rename",
        (
            ("sandboxId", "STRING", True),
            ("from", "STRING", True),
            ("to", "STRING", True),
            ("user", "STRING", False),
        ),
    ),
    "fs.remove": Op(
        "filesystem",
        "UNARY",
        "DELETE",
        "/v1/sandboxes/:id/files",
        (
            ("sandboxId", "STRING", True),
            ("path", "STRING", True),
            ("user", "STRING", False),
        ),
    ),
    "fs.watch": Op(
        "filesystem.watch",
        "STREAM",
        "GET",
        "/v1/sandboxes/:id/files/watch",
        (
            ("sandboxId", "STRING", True),
            ("path", "STRING", True),
            ("recursive", "BOOL", False),
            ("entries", "BOOL", False),
            ("user", "STRING", False),
        ),
    ),
    "pty.open": Op(
        "pty",
        "STREAM",
        "GET",
        "/v1/sandboxes/:id/terminal",
        (
            ("sandboxId", "STRING", True),
            ("cmd", "ARGV", False),
            ("cols", "INT", False),
            ("rows", "INT", False),
            ("term", "STRING", False),
            ("cwd", "STRING", False),
            ("env", "MAP", False),
            ("user", "STRING", False),
            ("timeoutMs", "INT", False),
            ("onDisconnect", "STRING", False),
        ),
    ),
    "pty.write": Op(
        "pty",
        "BODY_IN",
        "",
        "",
        (
            ("sandboxId", "STRING", True),
            ("ptyId", "STRING", True),
        ),
    ),
    "pty.resize": Op(
        "pty",
        "UNARY",
        "",
        "",
        (
            ("sandboxId", "STRING", True),
            ("ptyId", "STRING", True),
            ("cols", "INT", True),
            ("rows", "INT", True),
        ),
    ),
    "pty.close": Op(
        "pty",
        "UNARY",
        "",
        "",
        (
            ("sandboxId", "STRING", True),
            ("ptyId", "STRING", True),
        ),
    ),
    "code.run": Op(
        "code",
        "STREAM",
        "POST",
        "/v1/sandboxes/:id/code",
        (
            ("sandboxId", "STRING", True),
            ("code", "STRING", True),
            ("language", "STRING", False),
            ("contextId", "STRING", False),
            ("env", "MAP", False),
            ("timeoutMs", "INT", False),
        ),
    ),
    "code.interrupt": Op(
        "code",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/code/contexts/:context/interrupt",
        (
            ("sandboxId", "STRING", True),
            ("contextId", "STRING", True),
        ),
    ),
    "code.context_create": Op(
        "code.contexts",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/code/contexts",
        (
            ("sandboxId", "STRING", True),
            ("language", "STRING", False),
            ("cwd", "STRING", False),
            ("env", "MAP", False),
        ),
    ),
    "code.context_list": Op(
        "code.contexts",
        "UNARY",
        "GET",
        "/v1/sandboxes/:id/code/contexts",
        (
            ("sandboxId", "STRING", True),
        ),
    ),
    "code.context_restart": Op(
        "code.contexts",
        "UNARY",
        "POST",
        "/v1/sandboxes/:id/code/contexts/:context/restart",
        (
            ("sandboxId", "STRING", True),
            ("contextId", "STRING", True),
        ),
    ),
    "code.context_remove": Op(
        "code.contexts",
        "UNARY",
        "DELETE",
        "/v1/sandboxes/:id/code/contexts/:context",
        (
            ("sandboxId", "STRING", True),
            ("contextId", "STRING", True),
        ),
    ),
    "provider.gc": Op(
        "upkeep",
        "UNARY",
        "",
        "",
        (
            ("dryRun", "BOOL", False),
        ),
    ),
    "provider.doctor": Op(
        "upkeep",
        "UNARY",
        "",
        "",
        (
        ),
    ),
}
