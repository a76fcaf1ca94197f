"""fs.*: the files of a sandbox. A relative path begins at its home; an absolute one is one of this machine."""

import grp
import os
import pwd
import shutil
import stat as kinds
import tempfile
import time
from datetime import datetime
from pathlib import Path

import epp
from boxes import Box, accept, rfc3339

CHUNK = 256 * 1024


def place(call, name="path"):
    if not call.params[name]:
        raise epp.Error("E1001", "an empty path is no path")
    return Path(os.path.normpath(Box.of(call.params).home / call.params[name]))


def name_of(lookup, number):
    try:
        return lookup(number)[0]
    except KeyError:
        return str(number)


def text(path):
    """A name may hold bytes that are no UTF-8; a message may not."""
    return os.fsencode(path).decode(errors="replace")


def describe(path):
    at = os.lstat(path)
    type_of = {kinds.S_IFDIR: "dir", kinds.S_IFREG: "file", kinds.S_IFLNK: "symlink"}
    out = {"path": text(path), "name": text(path.name), "type": type_of.get(kinds.S_IFMT(at.st_mode), "other"),
           "size": at.st_size, "mode": kinds.S_IMODE(at.st_mode), "owner": name_of(pwd.getpwuid, at.st_uid),
           "group": name_of(grp.getgrgid, at.st_gid), "modifiedAt": rfc3339(at.st_mtime)}
    if out["type"] == "symlink":
        out["target"] = text(os.readlink(path))
    return out


def read(call):
    accept(call.params, "sandboxId", "path")
    size = 0
    with open(place(call), "rb") as file:
        while data := file.read(CHUNK):
            call.send_bytes("fs.output", data)
            size += len(data)
    return {"size": size}


def write(call):
    """Into a file beside it, which takes its place when all is there: nobody ever sees a half."""
    p = call.params
    accept(p, "sandboxId", "path", "size", "mode", "whole", "modifiedAt")
    path = place(call)
    target = Path(os.path.realpath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_dir():
        raise epp.Error("E6005", f"'{path}' is a folder")
    size = 0
    descriptor, new = tempfile.mkstemp(prefix=".new-", dir=target.parent)
    try:
        with open(descriptor, "wb") as file:
            for data in call.body():
                file.write(data)
                size += len(data)
        if size != p.get("size", size):
            raise epp.Error("E1001", f"{p['size']} bytes were announced, {size} came")
        former = target.stat().st_mode if target.exists() else 0o644
        os.chmod(new, p.get("mode", kinds.S_IMODE(former)))
        if "modifiedAt" in p:
            at = datetime.fromisoformat(p["modifiedAt"].replace("Z", "+00:00")).timestamp()
            os.utime(new, (at, at))
        os.replace(new, target)
    except BaseException:
        os.unlink(new)
        raise
    return {"path": text(path), "size": size}


def stat(call):
    accept(call.params, "sandboxId", "path")
    return describe(place(call))


def below(folder, depth):
    for entry in os.scandir(folder):
        yield Path(entry.path)
        if depth > 1 and entry.is_dir(follow_symlinks=False):
            yield from below(entry.path, depth - 1)


def list_folder(call):
    accept(call.params, "sandboxId", "path", "depth")
    found = below(place(call), call.params.get("depth", 1))
    return {"files": [describe(path) for path in sorted(found, key=os.fsencode)]}


def make_dir(call):
    accept(call.params, "sandboxId", "path")
    path = place(call)
    if path.is_dir():
        return {"created": False}
    path.mkdir(parents=True)
    return {"created": True}


def rename(call):
    accept(call.params, "sandboxId", "from", "to")
    os.rename(place(call, "from"), place(call, "to"))


def remove(call):
    """What is not there is removed already."""
    accept(call.params, "sandboxId", "path")
    path = place(call)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


METHODS = {"fs.read": read, "fs.write": write, "fs.stat": stat, "fs.list": list_folder, "fs.make_dir": make_dir,
           "fs.rename": rename, "fs.remove": remove}
