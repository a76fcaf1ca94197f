"""Files and folders of execd."""

import email.utils
import fnmatch
import grp
import json
import os
import pwd
import re
import shutil
import stat
import tempfile
from datetime import datetime, timezone
from urllib.parse import quote

from commands import expand
from web import Failed, Gone

KINDS = {str: "string", int: "int", bool: "bool", dict: "map", list: "[]"}


def json_of(handler, kinds=None, empty=False, words="error parsing request, MAYBE invalid body format."):
    """The body as an object (kinds: member → type) or, with kinds a type, as that. null counts as absent."""
    text = handler.body().decode(errors="replace").lstrip()
    if empty and not text:
        return {}
    try:
        value, _ = json.JSONDecoder().raw_decode(text)
    except ValueError:
        raise Failed(400, "INVALID_REQUEST_BODY", f"{words} invalid character looking for beginning of value") from None
    wanted = kinds if isinstance(kinds, type) else dict
    if not isinstance(value, wanted):
        raise Failed(400, "INVALID_REQUEST_BODY", f"{words} json: cannot unmarshal into Go value")
    if isinstance(kinds, dict):
        value = {name: one for name, one in value.items() if one is not None}
        for name, kind in kinds.items():
            if name in value and type(value[name]) is not kind:
                raise Failed(400, "INVALID_REQUEST_BODY", f"{words} json: cannot unmarshal into Go struct field of type {KINDS[kind]}")
    return value


def words_of(e):
    return os.strerror(e.errno).lower() if e.errno else str(e)


def missing(e, path, call="stat"):
    return Failed(404, "FILE_NOT_FOUND", f"file not found. {call} {path}: {words_of(e)}")


def broken(e, path, call="open"):
    return Failed(500, "RUNTIME_ERROR", f"error accessing file: {call} {path}: {words_of(e)}")


def time_of(seconds):
    return datetime.fromtimestamp(seconds, timezone.utc).isoformat().replace("+00:00", "Z")


def info_of(path):
    st = os.lstat(path)
    kind = "symlink" if stat.S_ISLNK(st.st_mode) else "directory" if stat.S_ISDIR(st.st_mode) else \
        "file" if stat.S_ISREG(st.st_mode) else "other"

    def name(find, number):
        try:
            return find(number)[0]
        except KeyError:
            return str(number)

    return {"path": path, "type": kind, "size": st.st_size, "modified_at": time_of(st.st_mtime), "created_at": time_of(st.st_ctime),
            "owner": name(pwd.getpwuid, st.st_uid), "group": name(grp.getgrgid, st.st_gid), "mode": int(f"{st.st_mode & 0o777:o}")}


def one_path(handler):
    if not handler.ask("path"):
        raise Failed(400, "MISSING_QUERY", "missing query parameter 'path'")
    return expand(handler.ask("path"))


def info(handler):
    found = {}
    for asked in handler.query.get("path", []):
        path = expand(asked)
        try:
            found[asked] = info_of(path)
        except FileNotFoundError as e:
            if "old" in handler.server.faults:
                raise Failed(500, "RUNTIME_ERROR", f"error accessing file: stat {path}: {words_of(e)}") from None
            raise missing(e, path, "lstat") from None
        except OSError as e:
            raise broken(e, path, "lstat") from None
    handler.answer(200, found)


def permit(path, wanted):
    """Mode and owner; which of the two is absent or unknown becomes our own."""
    wanted = wanted or {}
    try:
        mode = wanted.get("mode") or 0
        if mode:
            os.chmod(path, int(str(mode), 8) & 0o777)
    except ValueError:
        raise Failed(500, "RUNTIME_ERROR", f"error changing permissions for {path}. strconv.ParseUint: parsing \"{mode}\"") from None

    def number(find, name, own):
        try:
            return find(name)[2] if name else own
        except KeyError:
            return own

    os.chown(path, number(pwd.getpwnam, wanted.get("owner"), os.getuid()), number(grp.getgrnam, wanted.get("group"), os.getgid()))


def checked_modes(table):
    for wanted in table.values():
        if wanted is not None and not isinstance((wanted or {}).get("mode") or 0, int):
            raise Failed(400, "INVALID_REQUEST_BODY", "error parsing request, MAYBE invalid body format. json: cannot unmarshal string")
    return table


def permissions(handler):
    for asked, wanted in checked_modes(json_of(handler)).items():
        path = expand(asked)
        try:
            permit(path, wanted)
        except OSError as e:
            raise Failed(500, "RUNTIME_ERROR", f"error changing permissions for {path}. chmod {path}: {words_of(e)}") from None


def remove(handler):
    for asked in handler.query.get("path", []):
        path = expand(asked)
        if os.path.isdir(path):
            raise Failed(500, "RUNTIME_ERROR", f"error removing file {path}. path is a directory: {path}")
        try:
            if os.path.exists(path):  # a dangling link stays
                os.unlink(path)
        except OSError as e:
            raise Failed(500, "RUNTIME_ERROR", f"error removing file {path}. remove {path}: {words_of(e)}") from None


def move(handler):
    for pair in json_of(handler, list):
        source, target = expand(pair.get("src", "")), expand(pair.get("dest", ""))
        if not os.path.exists(source):
            raise Failed(404, "FILE_NOT_FOUND", f"file not found. source path not found: {source}: no such file or directory")
        if os.path.lexists(target):
            raise Failed(500, "RUNTIME_ERROR", f"error accessing file: destination path already exists: {target}")
        try:
            os.makedirs(os.path.dirname(target), exist_ok=True)
            os.rename(source, target)
        except OSError as e:
            raise broken(e, target, "rename") from None


def glob(pattern):
    """execd's pattern for a base name as a list of fnmatch's."""
    pattern = pattern.removeprefix("**/")
    if pattern.count("[") > pattern.count("]"):
        raise Failed(500, "RUNTIME_ERROR", f"error searching files. invalid pattern {pattern}: syntax error in pattern")
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    return [one for word in found[1].split(",") for one in glob(pattern[:found.start()] + word + pattern[found.end():])]


def search(handler):
    root, patterns = one_path(handler), glob(handler.ask("pattern") or "**")
    try:
        os.lstat(root)
    except OSError as e:
        raise missing(e, root) from None
    found = []
    if os.path.islink(root) or not os.path.isdir(root):
        names = [root]
    else:
        names = [os.path.join(top, name) for top, folders, files in os.walk(root)
                 for name in sorted(files + [f for f in folders if os.path.islink(os.path.join(top, f))])]
    for path in names:
        if any(fnmatch.fnmatchcase(os.path.basename(path), p.replace("**", "*")) for p in patterns):
            found.append(info_of(path))
    handler.answer(200, found)


def replace(handler):
    counts = {}
    for asked, change in json_of(handler).items():
        path, old, new = expand(asked), change.get("old") or "", change.get("new") or ""
        if not old:
            raise Failed(400, "INVALID_REQUEST_BODY", "old content must not be empty")
        try:
            with open(path, "r+", encoding="utf-8", newline="") as f:
                text = f.read()
                f.seek(0)
                f.write(text.replace(old, new))
                f.truncate()
        except FileNotFoundError as e:
            raise missing(e, path) from None
        except OSError as e:
            raise broken(e, path, "read") from None
        counts[asked] = {"replacedCount": text.count(old)}
    handler.answer(200, counts if handler.ask("verbose") == "true" else None)


def parts_of(handler):
    """The parts of a multipart body, each in a file: [(name, file)]; only those with a file name count."""
    found = re.search(r'boundary="?([^";]+)', handler.headers.get("Content-Type", ""))
    if not found:
        handler.drop_body()
        raise Failed(400, "INVALID_FILE", "request Content-Type isn't multipart/form-data")
    mark, parts, spool = b"\r\n--" + found[1].encode(), [], tempfile.TemporaryFile()
    data, done, headers = b"\r\n", False, None
    while True:
        more = handler.read_some()
        data += more
        while True:
            if headers is None:  # at a mark, its header, or in front of the first
                start = data.find(mark)
                if start < 0 or (end := data.find(b"\r\n\r\n", start)) < 0 and data[start + len(mark):start + len(mark) + 2] != b"--":
                    break
                if data[start + len(mark):start + len(mark) + 2] == b"--":
                    done = True
                    break
                headers, data = data[start + len(mark):end].decode(errors="replace"), data[end + 4:]
                spool = tempfile.TemporaryFile()
            at = data.find(mark)
            keep = max(0, len(data) - len(mark)) if at < 0 else at
            spool.write(data[:keep])
            data = data[keep:]
            if at < 0:
                break
            name = re.search(r'\bname="([^"]*)"', headers)
            if name and "filename=" in headers:
                spool.seek(0)
                parts.append((name[1], spool))
            headers = None
        if done or not more:
            break
    handler.drop_body()
    if not done:
        raise Failed(400, "INVALID_FILE", "multipart: NextPart: unexpected EOF")
    return parts


def upload(handler):
    try:
        parts = parts_of(handler)
    except Gone:
        raise Failed(400, "INVALID_FILE", "multipart: NextPart: unexpected EOF") from None
    heads, bodies = ([file for name, file in parts if name == kind] for kind in ("metadata", "file"))
    if not heads:
        raise Failed(400, "INVALID_FILE_METADATA", "metadata file is missing")
    if not bodies:
        raise Failed(400, "INVALID_FILE_CONTENT", "file is missing")
    if len(heads) != len(bodies):
        raise Failed(400, "INVALID_FILE", "metadata and file count mismatch")
    for head, content in zip(heads, bodies):
        try:
            asked = json.loads(head.read())
            path = asked["path"]
        except (ValueError, KeyError, TypeError):
            raise Failed(400, "INVALID_FILE_METADATA", "invalid metadata format") from None
        if not path or not isinstance(asked.get("mode") or 0, int):
            raise Failed(400, "INVALID_FILE_METADATA", "invalid metadata format")
        path = expand(path)
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb", opener=lambda name, flags: os.open(name, flags, 0o777)) as f:
                shutil.copyfileobj(content, f, 1 << 20)
        except OSError as e:
            raise Failed(500, "RUNTIME_ERROR", f"error opening destination file {path}. open {path}: {words_of(e)}") from None
        try:
            permit(path, asked)
        except OSError as e:
            raise Failed(500, "RUNTIME_ERROR", f"error chmoding file {path}. chown {path}: {words_of(e)}") from None


def span_of(text, size):
    """(first, count) of a Range; None: all of it."""
    if not text:
        return None
    found = re.match(r"bytes=(\d*)-(\d*)", text)
    if not found or found[1] + found[2] == "":
        raise ValueError(text)
    if not found[1]:
        count = min(int(found[2]), size)
        return size - count, count
    first, last = int(found[1]), min(int(found[2] or size), size - 1)
    if found[2] and int(found[2]) < first:
        raise ValueError(text)
    if first >= size:
        raise IndexError(size)
    return first, last - first + 1


def download(handler):
    path = one_path(handler)
    try:
        f = open(path, "rb")
        size = f.seek(0, 2)
        if os.path.isdir(path) or (size == 0 and path.startswith("/proc/")):
            raise OSError(21, "")
    except FileNotFoundError as e:
        raise missing(e, path, "open") from None
    except OSError:
        return handler.answer(500, b"seeker can't seek\n", {"X-Content-Type-Options": "nosniff"})
    with f:
        name = re.sub(r"[\r\n]", " ", os.path.basename(path))
        plain = name.isascii()
        headers = {"Content-Disposition": f'attachment; filename="{name if plain else quote(name)}"' +
                   ("" if plain else f"; filename*=UTF-8''{quote(name)}"), "Accept-Ranges": "bytes",
                   "Last-Modified": email.utils.formatdate(os.fstat(f.fileno()).st_mtime, usegmt=True)}
        if handler.headers.get("If-Modified-Since") == headers["Last-Modified"]:
            return handler.answer(304, None, headers)
        try:
            span = span_of(handler.headers.get("Range"), size)
        except IndexError:
            if size:
                return handler.answer(416, b"invalid range: failed to overlap\n", {"Content-Range": f"bytes */{size}"})
            span = None
        except ValueError:  # what it sends is no answer to speak of
            handler.send_response(416)
            handler.send_header("Content-Length", str(size))
            handler.end_headers()
            handler.answered = True
            return handler.cut()
        first, count = span or (0, size)
        if span:
            headers["Content-Range"] = f"bytes {first}-{first + count - 1}/{size}"
        send_file(handler, f, first, count, 206 if span else 200, headers)


def send_file(handler, f, first, count, status, headers):
    handler.send_response(status)
    for name, text in headers.items():
        handler.send_header(name, text.encode().decode("latin-1"))
    handler.send_header("Content-Type", "application/octet-stream")
    handler.send_header("Content-Length", str(count))
    handler.end_headers()
    handler.wfile.flush()
    handler.answered = True
    f.seek(first)
    if "cutDownload" in handler.server.faults and count > 1000:
        handler.wfile.write(f.read(count // 2))
        return handler.cut()
    while count > 0 and (data := f.read(min(count, 1 << 18))):
        handler.wfile.write(data)
        count -= len(data)
    handler.wfile.flush()
    if count:
        handler.cut()


def folder_list(handler):
    path = one_path(handler)
    try:
        depth = int(handler.ask("depth", "1"))
        if depth < 0:
            raise ValueError
    except ValueError:
        raise Failed(400, "INVALID_REQUEST_BODY", f"invalid query parameter 'depth': {handler.ask('depth')}") from None
    if os.path.islink(path):
        raise Failed(400, "INVALID_REQUEST_BODY", f"path is a symbolic link, refusing to traverse: {path}")
    try:
        os.stat(path)
    except FileNotFoundError as e:
        raise missing(e, path, "lstat") from None
    except OSError as e:
        raise broken(e, path, "lstat") from None
    if not os.path.isdir(path):
        raise Failed(400, "INVALID_REQUEST_BODY", f"path is not a directory: {path}")

    def walk(top, left):
        for name in sorted(os.listdir(top)) if left else []:
            one = os.path.join(top, name)
            yield info_of(one)
            if os.path.isdir(one) and not os.path.islink(one):
                yield from walk(one, left - 1)

    try:
        handler.answer(200, list(walk(path, depth)))
    except OSError as e:
        raise broken(e, path) from None


def folder_make(handler):
    for asked, wanted in checked_modes(json_of(handler)).items():
        path = expand(asked)
        try:
            os.makedirs(path, exist_ok=True)
            permit(path, wanted)
        except FileExistsError:
            raise Failed(500, "RUNTIME_ERROR", f"error accessing file: mkdir {path}: not a directory") from None
        except OSError as e:
            raise broken(e, path, "mkdir") from None


def folder_remove(handler):
    for asked in handler.query.get("path", []):
        path = expand(asked)
        try:
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            elif os.path.lexists(path):
                os.unlink(path)
        except OSError as e:
            raise Failed(500, "RUNTIME_ERROR", f"error removing directory {path}. unlinkat {path}: {words_of(e)}") from None
