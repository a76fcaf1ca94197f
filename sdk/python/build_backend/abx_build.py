"""Builds the distribution abx-sandbox: a PEP 517 backend that needs nothing but Python.

A wheel carries the program `abx` and `libabx.so.0`. They are taken from the folder that ABX_BUILD names, else from build/release of
the checkout, else from where abx is installed on this machine. The wheel's tag says the oldest glibc that has all that they use.
"""

import base64
import gzip
import hashlib
import io
import os
import platform
import re
import shutil
import tarfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
PACKAGE = "agent_sandbox"
BINARIES = ("abx", "libabx.so.0")
EPOCH = (2020, 1, 1, 0, 0, 0)


def get_requires_for_build_wheel(config_settings=None):
    return []


def get_requires_for_build_sdist(config_settings=None):
    return []


def get_requires_for_build_editable(config_settings=None):
    return []


# --- what is said about it


def project():
    """The plain texts and lists of texts of [project] in pyproject.toml."""
    text = (HERE / "pyproject.toml").read_text(encoding="utf-8")
    table = re.search(r"^\[project\]\n(.*?)(?=^\[)", text, re.S | re.M)[1]
    found = {}
    for name, value in re.findall(r'^([\w-]+) = ("(?:[^"]*)"|\[[^\]]*\])', table, re.M):
        texts = re.findall(r'"([^"]*)"', value)
        found[name] = texts if value.startswith("[") else texts[0]
    return found


def metadata():
    p = project()
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {p['name']}",
        f"Version: {p['version']}",
        f"Summary: {p['description']}",
        f"License-Expression: {p['license']}",
        "License-File: LICENSE",
        f"Keywords: {','.join(p['keywords'])}",
        *[f"Classifier: {one}" for one in p["classifiers"]],
        f"Requires-Python: {p['requires-python']}",
        "Description-Content-Type: text/markdown",
        "",
    ]
    return "\n".join(lines) + "\n" + (HERE / "README.md").read_text(encoding="utf-8")


def stem():
    p = project()
    return f"{p['name'].replace('-', '_')}-{p['version']}"


def licence():
    for path in (HERE / "LICENSE", HERE.parent.parent / "LICENSE"):
        if path.is_file():
            return path.read_bytes()
    raise SystemExit("there is no LICENSE beside pyproject.toml")


def sources():
    """The package's own files, by name."""
    for path in sorted((HERE / PACKAGE).rglob("*")):
        parts = path.relative_to(HERE).parts
        if path.is_file() and path.suffix in (".py", ".typed") and "__pycache__" not in parts and "_native" not in parts:
            yield "/".join(parts), path.read_bytes()


# --- what is carried


def installed():
    """Folders in which an installed abx has its two files, as (program, library)."""
    program = shutil.which("abx")
    if not program:
        return
    prefix = Path(program).resolve().parent.parent
    for folder in ("lib", "lib64", f"lib/{platform.machine()}-linux-gnu"):
        yield Path(program), prefix / folder / "libabx.so.0"


def binaries():
    """{name: bytes} of abx and libabx.so.0."""
    places = [HERE.parent.parent / "build" / "release"]
    if os.environ.get("ABX_BUILD"):
        places = [Path(os.environ["ABX_BUILD"])]
    for pair in [tuple(place / name for name in BINARIES) for place in places] + list(installed()):
        if all(path.is_file() for path in pair):
            return {name: path.read_bytes() for name, path in zip(BINARIES, pair)}
    raise SystemExit(
        f"abx and libabx.so.0 are not in {places[0]}. Build them with\n"
        "  cmake --preset release && cmake --build --preset release\n"
        "in a checkout of abx, or let ABX_BUILD name the folder that they are in."
    )


def platform_tag(files):
    versions = {(int(a), int(b)) for data in files.values() for a, b in re.findall(rb"GLIBC_(\d+)\.(\d+)", data)}
    if any(b"GLIBC_ABI_DT_RELR" in data for data in files.values()):
        versions.add((2, 36))  # the first that reads relocations of this kind
    major, minor = max(versions)
    return f"manylinux_{major}_{minor}_{platform.machine()}"


# --- writing


class Wheel:
    """A wheel in the making; the record of its files comes last."""

    def __init__(self, folder, tag):
        self.name = f"{stem()}-{tag}.whl"
        self.info = f"{stem()}.dist-info"
        self.tag = tag
        self.record = []
        self.zip = zipfile.ZipFile(Path(folder) / self.name, "w", zipfile.ZIP_DEFLATED, compresslevel=6)

    def add(self, name, data, mode=0o644):
        data = data.encode() if isinstance(data, str) else data
        info = zipfile.ZipInfo(name, EPOCH)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (0o100000 | mode) << 16
        self.zip.writestr(info, data)
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        self.record.append(f"{name},sha256={digest},{len(data)}")

    def finish(self):
        self.add(f"{self.info}/METADATA", metadata())
        self.add(f"{self.info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: abx\nRoot-Is-Purelib: false\nTag: {self.tag}\n")
        self.add(f"{self.info}/entry_points.txt", "[console_scripts]\nabx = agent_sandbox._program:main\n")
        self.add(f"{self.info}/top_level.txt", PACKAGE + "\n")
        self.add(f"{self.info}/licenses/LICENSE", licence())
        self.record.append(f"{self.info}/RECORD,,")
        info = zipfile.ZipInfo(f"{self.info}/RECORD", EPOCH)
        info.external_attr = 0o100644 << 16
        self.zip.writestr(info, "\n".join(self.record) + "\n")
        self.zip.close()
        return self.name


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    files = binaries()
    wheel = Wheel(wheel_directory, f"py3-none-{platform_tag(files)}")
    for name, data in sources():
        wheel.add(name, data)
    for name, data in files.items():
        wheel.add(f"{PACKAGE}/_native/{name}", data, 0o755)
    return wheel.finish()


def build_editable(wheel_directory, config_settings=None, metadata_directory=None):
    """The package where it lies; it takes abx and libabx.so.0 from build/release of the checkout."""
    wheel = Wheel(wheel_directory, "py3-none-any")
    wheel.add("__editable__.abx_sandbox.pth", f"{HERE}\n")
    return wheel.finish()


def build_sdist(sdist_directory, config_settings=None):
    base = stem()
    files = [(name, data) for name, data in sources()]
    for name in ("pyproject.toml", "README.md", "build_backend/abx_build.py"):
        files.append((name, (HERE / name).read_bytes()))
    files += [("LICENSE", licence()), ("PKG-INFO", metadata().encode())]
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for name, data in sorted(files):
            info = tarfile.TarInfo(f"{base}/{name}")
            info.size, info.mode, info.mtime = len(data), 0o644, 1577836800
            tar.addfile(info, io.BytesIO(data))
    name = f"{base}.tar.gz"
    with open(Path(sdist_directory) / name, "wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=0) as packed:
        packed.write(raw.getvalue())
    return name
