"""Plugin folders for the tests of the store, and tree_sha256 once more, from its definition in docs/providers/store.md."""

import hashlib
import os
import stat

MANIFEST = """schema = 1
id = "{id}"
name = "Demo"
version = "{version}"
[runtime]
kind = "exec"
protocol = "epp/1"
command = ["./plugin"]
features = ["process"]
[connection]
inherit = ["apiKey", "domain"]
"""


def make_plugin(folder, id="demo", version="1.0.0", files=None):
    """A plugin that would run, with further files (name -> bytes)."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o755)
    (folder / "abx-provider.toml").write_text(MANIFEST.format(id=id, version=version))
    (folder / "plugin").write_text("#!/bin/sh\nexit 0\n")
    (folder / "plugin").chmod(0o755)
    for name, content in (files or {}).items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return folder


def tree_sha256(folder):
    folder = os.fsencode(folder)
    total = hashlib.sha256(b"abx-tree/1\0")
    paths = []
    for top, folders, files in os.walk(folder):
        for name in folders + files:
            path = os.path.relpath(os.path.join(top, name), folder)
            if path not in (b".abx-receipt.json", b".abx-files"):
                paths.append(path)
    for path in sorted(paths, key=lambda p: p.split(b"/")):
        full = os.path.join(folder, path)
        st = os.lstat(full)
        mode, kind, digest = stat.S_IMODE(st.st_mode), b"f", b"-"
        if stat.S_ISLNK(st.st_mode):
            kind, mode, digest = b"l", 0o777, hashlib.sha256(os.readlink(full)).hexdigest().encode()
        elif stat.S_ISDIR(st.st_mode):
            kind = b"d"
        else:
            with open(full, "rb") as f:
                digest = hashlib.sha256(f.read()).hexdigest().encode()
        total.update(b"%s %04o %s %s\0" % (kind, mode, digest, path))
    return total.hexdigest()
