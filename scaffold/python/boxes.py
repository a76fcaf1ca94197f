"""sandbox.*: a sandbox is a folder of this machine, known by what lies in it, so that any run of this program finds it."""

import json
import os
import shutil
import signal
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path

import epp

ROOT = Path(tempfile.gettempdir()) / f"abx-@NAME@-{os.getuid()}"
DEFAULT_LIFE_MS = 3600 * 1000


def rfc3339(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def accept(params, *known):
    """A parameter that cannot be honoured is an error, never ignored."""
    for name in params:
        if name not in known:
            raise epp.Error("E8004", f"this provider has no '{name}' here")


def kill_marked(mark, pids=()):
    """KILL to the groups of these processes, then to all that have this mark in their environment, until there is none."""
    for pid in pids:
        try:
            os.killpg(pid, signal.SIGKILL)
        except OSError:
            pass
    quiet = 0
    while quiet < 2:  # one that is just becoming another program shows no environment
        quiet += 1
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/environ", "rb") as file:
                    if mark.encode() in file.read().split(b"\0"):
                        os.kill(int(pid), signal.SIGKILL)
                        quiet = 0
            except OSError:
                pass  # it has gone, or is not ours
        time.sleep(0.005)


class Box:
    """A sandbox: ROOT/ID holds box.json (what is known of it), home (what is in it) and jobs (its processes)."""

    def __init__(self, sandbox_id):
        self.id = sandbox_id
        self.folder = ROOT / sandbox_id
        self.home = self.folder / "home"
        self.jobs = self.folder / "jobs"
        try:
            self.about = json.loads((self.folder / "box.json").read_text())
        except (OSError, ValueError):
            self.about = None

    @staticmethod
    def of(params):
        """The living sandbox that a call names."""
        sandbox_id = params["sandboxId"]
        box = Box(sandbox_id) if sandbox_id.isalnum() else None
        if not box or not box.lives():
            raise epp.Error("E3001", f"there is no sandbox '{sandbox_id}'")
        return box

    def lives(self):
        """One whose life is over is removed by whoever looks at it."""
        if self.about and self.about["expires"] and self.about["expires"] < time.time():
            self.remove()
        return self.about is not None

    def save(self):
        new = self.folder / f"box.{os.getpid()}.new"
        new.write_text(json.dumps(self.about))
        new.replace(self.folder / "box.json")

    def remove(self):
        """First it is not there any more, then what runs in it is ended, then its files go."""
        self.about = None
        gone = self.folder.with_name(f".gone-{self.id}")
        try:
            self.folder.rename(gone)
        except OSError:
            return  # another was faster
        jobs = [json.loads(file.read_text()) for file in gone.glob("jobs/*.json")]
        kill_marked(f"ABX_SANDBOX={self.id}", [job["pid"] for job in jobs if not (gone / f"jobs/{job['id']}.exit").exists()])
        shutil.rmtree(gone, ignore_errors=True)

    def set_life(self, ms):
        self.about["expires"] = time.time() + ms / 1000 if ms else 0
        self.save()

    def describe(self):
        about = self.about
        out = {"id": self.id, "state": "running", "createdAt": rfc3339(about["created"]), "metadata": about["metadata"]}
        if about["name"]:
            out["name"] = about["name"]
        if about["expires"]:
            out["expiresAt"] = rfc3339(about["expires"])
        return out


# --- sandbox.* ---------------------------------------------------------------------------------------------


def create(call):
    p = call.params
    accept(p, "id", "name", "metadata", "env", "timeoutMs", "idempotencyKey", "tied")
    ROOT.mkdir(mode=0o700, exist_ok=True)
    box = Box(p.get("id") or os.urandom(8).hex())
    box.home.mkdir(parents=True, mode=0o700)
    box.jobs.mkdir()
    box.about = {"created": time.time(), "name": p.get("name"), "metadata": p.get("metadata", {}), "env": p.get("env", {})}
    box.set_life(p.get("timeoutMs", DEFAULT_LIFE_MS))
    return box.describe()


def info(call):
    return Box.of(call.params).describe()


def kill(call):
    Box.of(call.params).remove()


def connect(call):
    """Renews the life of a sandbox, never shortens it."""
    box = Box.of(call.params)
    ms = call.params.get("timeoutMs")
    if ms is not None and box.about["expires"]:
        if ms == 0 or time.time() + ms / 1000 > box.about["expires"]:
            box.set_life(ms)
    return box.describe()


def list_all(call):
    wanted = call.params.get("metadata", {}).items()
    names = [f.name for f in ROOT.iterdir() if f.name.isalnum()] if ROOT.is_dir() else []
    boxes = [box for box in map(Box, sorted(names)) if box.lives()]
    return {"sandboxes": [box.describe() for box in boxes if wanted <= box.about["metadata"].items()]}


def set_timeout(call):
    box = Box.of(call.params)
    box.set_life(call.params["timeoutMs"])
    out = box.describe()
    return {"expiresAt": out["expiresAt"]} if "expiresAt" in out else {}


METHODS = {"sandbox.create": create, "sandbox.info": info, "sandbox.kill": kill, "sandbox.connect": connect,
           "sandbox.list": list_all, "sandbox.set_timeout": set_timeout}
