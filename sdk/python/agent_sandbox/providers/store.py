"""The store of providers, read: `~/.abx/providers` (`ABX_HOME` moves `~/.abx`).

What is installed there is written by `abx provider install` alone.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import stat
from dataclasses import dataclass
from typing import Any, List, Optional, Tuple

from .._check import checked_function
from .._home import home_folder
from .._items import object_of
from ..errors import ConfigError, ProviderIntegrityError, ProviderNotFoundError

RECEIPT = ".abx-receipt.json"
LISTING = ".abx-files"
SCHEMA = 1
RECEIPT_MAX = 1024 * 1024
BLOCK = 1024 * 1024
KINDS = ("rest", "exec", "node")
ID = re.compile(r"[a-z0-9][a-z0-9-]{0,62}\Z")


@dataclass(frozen=True)
class Receipt:
    """What the store knows of an installed provider.

    Attributes:
        kind: `rest`, `exec` or `node`.
        trust: `catalog`, `local` or `link`.
        tree_sha256: digest of its files; None for a link.
        folder: where its files are.
    """

    id: str
    name: str
    version: str
    kind: str
    trust: str
    source: str
    installed_at: str
    tree_sha256: Optional[str]
    consent: Tuple[str, ...]
    folder: str


def _broken(id: str, path: str, why: str) -> ProviderIntegrityError:
    return ProviderIntegrityError(
        f"the receipt of provider '{id}' cannot be used: '{path}' {why}",
        hint=f"Providers().remove('{id}'), then install it again",
    )


def _holder(place: str, id: str) -> Tuple[str, Optional[str]]:
    """(folder with the receipt, where the link leads or None)."""
    entry = os.path.join(place, id)
    try:
        target = os.readlink(entry)
    except FileNotFoundError:
        raise ProviderNotFoundError(
            f"no provider '{id}' is installed", hint=f"Providers().install('{id}') takes it from the catalog, if it is there"
        ) from None
    except OSError:
        return entry, None
    parts = target.split("/")
    if len(parts) != 3 or parts[0] != ".links" or parts[2] != "plugin" or parts[1] in ("", ".", ".."):
        raise ProviderIntegrityError(f"cannot use '{entry}': it is a link to '{target}'")
    holder = os.path.join(place, ".links", parts[1])
    return holder, os.readlink(os.path.join(holder, "plugin"))


@checked_function
def read_receipt(id: str, home: Optional[str] = None) -> Receipt:
    """What is installed under an id.

    Raises:
        ProviderNotFoundError: nothing is.
        ProviderIntegrityError: its receipt is missing, broken, or of a newer version.
    """
    if not ID.match(id):
        raise ProviderNotFoundError(f"'{id}' is no id of a provider")
    holder, target = _holder(os.path.join(home_folder(home), "providers"), id)
    path = os.path.join(holder, RECEIPT)
    try:
        with open(path, "rb") as file:
            text = file.read(RECEIPT_MAX)
    except FileNotFoundError:
        if not os.path.isdir(holder):
            raise ProviderNotFoundError(
                f"no provider '{id}' is installed", hint=f"Providers().install('{id}') takes it from the catalog, if it is there"
            ) from None
        raise _broken(id, path, "is not there") from None
    except OSError:
        raise _broken(id, path, "cannot be read") from None
    try:
        value = json.loads(text)
    except ValueError:
        raise _broken(id, path, "is no JSON") from None
    return _judge(id, path, value, holder if target is None else target, target is not None)


def _judge(id: str, path: str, value: Any, folder: str, is_link: bool) -> Receipt:
    receipt = object_of(value)
    if receipt is None or not isinstance(receipt.get("schema"), int):
        raise _broken(id, path, "has no schema")
    if receipt["schema"] > SCHEMA:
        raise ProviderIntegrityError(
            f"provider '{id}' was installed by a newer version of abx: '{path}' has schema {receipt['schema']}",
            hint="use the newer version, or remove the provider and install it again",
        )
    for name in ("id", "name", "version", "kind", "trust", "source", "installedAt"):
        if not isinstance(receipt.get(name), str) or not receipt[name]:
            raise _broken(id, path, "lacks a member")
    digest = receipt.get("tree_sha256")
    if receipt["id"] != id:
        raise _broken(id, path, "is of another provider")
    if receipt["kind"] not in KINDS or receipt["trust"] not in ("catalog", "local", "link"):
        raise _broken(id, path, "has a kind or a trust that is not known")
    if (receipt["trust"] == "link") != is_link:
        raise _broken(id, path, "does not fit what is there")
    if digest is not None if is_link else not (isinstance(digest, str) and re.match(r"[0-9a-f]{64}\Z", digest)):
        raise _broken(id, path, "has no usable tree_sha256")
    return Receipt(
        id=id,
        name=receipt["name"],
        version=receipt["version"],
        kind=receipt["kind"],
        trust=receipt["trust"],
        source=receipt["source"],
        installed_at=receipt["installedAt"],
        tree_sha256=digest,
        consent=tuple(str(one) for one in receipt.get("consent", [])),
        folder=folder,
    )


# --- the digest


def _hash_file(name: bytes, folder: int, path: bytes) -> str:
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ProviderIntegrityError(f"another took the place of '{os.fsdecode(path)}' while it was read")
        digest = hashlib.sha256()
        while True:
            data = os.read(fd, BLOCK)
            if not data:
                return digest.hexdigest()
            digest.update(data)
    finally:
        os.close(fd)


def _walk(folder: int, below: bytes, records: List[bytes]) -> None:
    for name in sorted(os.fsencode(one) for one in os.listdir(folder)):
        if not below and name in (RECEIPT.encode(), LISTING.encode()):
            continue
        path = below + b"/" + name if below else name
        what = os.stat(name, dir_fd=folder, follow_symlinks=False)
        mode = what.st_mode & 0o7777
        if stat.S_ISLNK(what.st_mode):
            target = os.readlink(name, dir_fd=folder)
            records.append(b"l 0777 " + hashlib.sha256(target).hexdigest().encode() + b" " + path + b"\0")
        elif stat.S_ISREG(what.st_mode):
            records.append(f"f {mode:04o} {_hash_file(name, folder, path)} ".encode() + path + b"\0")
        elif stat.S_ISDIR(what.st_mode):
            records.append(f"d {mode:04o} - ".encode() + path + b"\0")
            inner = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            try:
                _walk(inner, path, records)
            finally:
                os.close(inner)
        else:
            raise ProviderIntegrityError(f"'{os.fsdecode(path)}' is no file, folder or link")


@checked_function
def tree_sha256(folder: str) -> str:
    """The digest of a plugin's folder, as docs/providers/store.md defines it: 64 hexadecimal digits."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return _digest(fd)
    finally:
        os.close(fd)


def _digest(fd: int) -> str:
    records = [b"abx-tree/1\0"]
    _walk(fd, b"", records)
    digest = hashlib.sha256()
    for record in records:
        digest.update(record)
    return digest.hexdigest()


def _check_owner(fd: int, path: str, owners: Tuple[int, ...]) -> None:
    what = os.fstat(fd)
    if what.st_uid not in owners:
        raise ProviderIntegrityError(f"'{path}' belongs to another user (uid {what.st_uid})")
    if what.st_mode & 0o022:
        raise ProviderIntegrityError(
            f"'{path}' can be written by others (mode {what.st_mode & 0o7777:04o})", hint=f"chmod go-w '{path}'"
        )


@checked_function
def verify_integrity(id: str, home: Optional[str] = None) -> Receipt:
    """Recompute the digest of an installed provider's files and compare it, in constant time, with its receipt. Of a link only the
    owner and the mode of its folder are checked.

    Returns:
        The receipt.

    Raises:
        ProviderNotFoundError: nothing is installed under this id.
        ProviderIntegrityError: its files are not those that were installed; do not run it.
    """
    for attempt in range(3):
        receipt = read_receipt(id, home)
        try:
            fd = os.open(receipt.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise ConfigError(f"cannot open '{receipt.folder}': {error.strerror}") from None
        try:
            me = os.geteuid()
            _check_owner(fd, receipt.folder, (me, 0) if receipt.trust == "link" else (me,))
            if receipt.tree_sha256 is None or hmac.compare_digest(_digest(fd), receipt.tree_sha256):
                return receipt
            # An upgrade may have come between the receipt and the files: then the new one counts.
            there, here = os.stat(receipt.folder), os.fstat(fd)
            if attempt < 2 and (there.st_dev, there.st_ino) != (here.st_dev, here.st_ino):
                continue
        finally:
            os.close(fd)
        break
    raise ProviderIntegrityError(
        f"the files of provider '{id}' are not those that were installed",
        hint=f"Providers().verify('{id}') names them; install it again to put it right",
    )
