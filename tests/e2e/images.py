"""Container images made by hand: layers as tar streams, put together as `docker save` or the OCI layout does."""

import functools
import gzip
import hashlib
import io
import json
import os
import platform
import shutil
import tarfile

ARCH = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
BUSYBOX = shutil.which("busybox", path="/usr/bin:/bin") or "/bin/busybox"
APPLETS = ["ls", "cat", "id", "env", "stat", "pwd", "touch", "rm", "mkdir", "ln", "chmod", "true", "sleep", "dd", "mv",
           "test", "find", "sync"]


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def entry(name, type=tarfile.REGTYPE, data=b"", mode=0o644, owner=0, link="", mtime=1_000_000_000, **more):
    info = tarfile.TarInfo(name)
    info.type, info.mode, info.uid, info.gid, info.linkname = type, mode, owner, owner, link
    info.size, info.mtime = len(data), mtime
    for key, value in more.items():
        setattr(info, key, value)
    return info, data


def folder(name, mode=0o755, owner=0, **more):
    return entry(name, tarfile.DIRTYPE, mode=mode, owner=owner, **more)


def file(name, data=b"", mode=0o644, owner=0, **more):
    return entry(name, data=data, mode=mode, owner=owner, **more)


def symlink(name, target, **more):
    return entry(name, tarfile.SYMTYPE, link=target, mode=0o777, **more)


def hardlink(name, target, **more):
    return entry(name, tarfile.LNKTYPE, link=target, **more)


def layer(*entries):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for info, data in entries:
            tar.addfile(info, io.BytesIO(data) if info.isreg() else None)
    return out.getvalue()


def pack(data):
    return gzip.compress(data, 1)


@functools.cache
def busybox():
    """A layer that is a small system."""
    with open(BUSYBOX, "rb") as f:
        program = f.read()
    return layer(folder("bin"), file("bin/busybox", program, 0o755), hardlink("bin/sh", "bin/busybox", mode=0o755),
                 *(symlink(f"bin/{a}", "busybox") for a in APPLETS),
                 folder("etc"), file("etc/passwd", b"root:x:0:0:root:/root:/bin/sh\nsvc:x:77:77::/:/bin/sh\n"),
                 folder("tmp", 0o1777))


class Image:
    def __init__(self, *layers, diff_ids=None, **config):
        self.layers = layers
        self.config = json.dumps({
            "os": "linux", "architecture": ARCH, "config": config,
            "rootfs": {"type": "layers", "diff_ids": diff_ids or ["sha256:" + sha256(x) for x in layers]},
        }).encode()

    def docker(self, path, compress=lambda x: x):
        """As `docker save` writes it."""
        names = [f"{sha256(x)[:12]}{i}/layer.tar" for i, x in enumerate(self.layers)]
        config = sha256(self.config) + ".json"
        manifest = [{"Config": config, "RepoTags": ["test:1"], "Layers": names}]
        data = layer(*(file(n, x) for n, x in zip(names, self.layers)), file(config, self.config),
                     file("manifest.json", json.dumps(manifest).encode()))
        path.write_bytes(compress(data))
        return path

    def blobs(self, compress=pack):
        packed = [compress(x) for x in self.layers]
        manifest = json.dumps({
            "schemaVersion": 2,
            "config": {"digest": "sha256:" + sha256(self.config), "size": len(self.config)},
            "layers": [{"digest": "sha256:" + sha256(x), "size": len(x)} for x in packed],
        }).encode()
        index = json.dumps({"schemaVersion": 2, "manifests": [
            {"digest": "sha256:" + "0" * 64, "platform": {"os": "windows", "architecture": ARCH}},
            {"digest": "sha256:" + sha256(manifest), "platform": {"os": "linux", "architecture": ARCH}},
        ]}).encode()
        files = {"oci-layout": b'{"imageLayoutVersion":"1.0.0"}', "index.json": index}
        files.update({"blobs/sha256/" + sha256(x): x for x in [*packed, manifest, self.config]})
        return files

    def oci(self, path, **more):
        """As a folder in the OCI layout."""
        for name, data in self.blobs(**more).items():
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            (path / name).write_bytes(data)
        return path

    def oci_archive(self, path, **more):
        path.write_bytes(layer(*(file(n, x) for n, x in self.blobs(**more).items())))
        return path


def readable(path):
    os.chmod(path, 0o755)
    return path
