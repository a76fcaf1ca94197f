# Part of the Python kernel (python_channel.py): values as rich results, by the notebook display protocol.
import base64
import builtins
import contextlib
import io
import json
import sys

MAX_LINE = 24 * 1024 * 1024
MAX_ROWS = 10000
METHODS = (
    ("text/html", "_repr_html_"),
    ("text/markdown", "_repr_markdown_"),
    ("image/svg+xml", "_repr_svg_"),
    ("image/png", "_repr_png_"),
    ("image/jpeg", "_repr_jpeg_"),
    ("application/pdf", "_repr_pdf_"),
    ("text/latex", "_repr_latex_"),
    ("application/json", "_repr_json_"),
    ("application/javascript", "_repr_javascript_"),
)
KEYS = {
    "text/plain": "text",
    "text/html": "html",
    "text/markdown": "markdown",
    "image/svg+xml": "svg",
    "image/png": "png",
    "image/jpeg": "jpeg",
    "application/pdf": "pdf",
    "text/latex": "latex",
    "application/json": "json",
    "application/javascript": "javascript",
    "e2b/data": "data",
    "e2b/chart": "chart",
}
TREES = ("application/json", "e2b/data", "e2b/chart")


def clean(value, depth=0):
    """A value that JSON has."""
    if depth > 20:
        return None
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return int(value) if abs(value) < 2**63 else str(value)
    if isinstance(value, float):
        return float(value) if value - value == 0 else None
    if isinstance(value, dict):
        return {str(k): clean(v, depth + 1) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [clean(v, depth + 1) for v in value]
    if hasattr(value, "tolist") and not isinstance(value, type):
        return clean(value.tolist(), depth + 1)
    if hasattr(value, "isoformat"):
        return str(value.isoformat())
    return str(value)


def plain(value):
    text = repr(value)
    if 79 < len(text) < 100000 and isinstance(value, (dict, list, tuple, set, frozenset)):
        import pprint

        text = pprint.pformat(value, width=79, sort_dicts=False)
    return text


def figure_png(figure):
    out = io.BytesIO()
    figure.savefig(out, format="png", bbox_inches="tight")
    return out.getvalue()


def is_figure(value):
    module = sys.modules.get("matplotlib.figure")
    kind = getattr(module, "Figure", None)
    return isinstance(kind, type) and isinstance(value, kind)


def table_of(value):
    """{column: [values]} of a data frame, or None."""
    if type(value).__name__ != "DataFrame" or not callable(getattr(value, "to_dict", None)):
        return None
    if len(value) > MAX_ROWS:
        return None
    try:
        return value.to_dict(orient="list")
    except TypeError:
        return value.to_dict(as_series=False)


def attempt(bundle, mime, make):
    try:
        data = make()
    except Exception:
        show_error(*sys.exc_info())
        return
    if isinstance(data, tuple) and len(data) == 2:
        data = data[0]
    if data is not None:
        bundle[mime] = data


def has_method(value, name):
    """Not so where any name is answered, or the question fails."""
    if isinstance(value, type):
        return False
    try:
        return callable(getattr(value, name, None)) and not hasattr(value, "_abx_no_object_has_this_")
    except Exception:
        return False


def bundle_of(value):
    bundle = {}
    if has_method(value, "_repr_mimebundle_"):
        found = {}
        attempt(found, "all", lambda: value._repr_mimebundle_(include=None, exclude=None))
        if isinstance(found.get("all"), dict):
            bundle.update(found["all"])
    for mime, name in METHODS:
        if mime not in bundle and has_method(value, name):
            attempt(bundle, mime, getattr(value, name))
    if is_figure(value):
        State.shown += (value,)
        attempt(bundle, "image/png", lambda: figure_png(value))
    attempt(bundle, "e2b/data", lambda: table_of(value))
    if "text/plain" not in bundle:
        attempt(bundle, "text/plain", lambda: plain(value))
    return bundle


def text_of(mime, data):
    if isinstance(data, (bytes, bytearray, memoryview)):
        data = bytes(data)
        if mime.startswith("text/") or mime in ("image/svg+xml", "application/javascript"):
            return data.decode("utf-8", "replace")
        return base64.b64encode(data).decode()
    if mime in TREES:
        if mime == "application/json" and isinstance(data, str):
            with contextlib.suppress(ValueError):
                data = json.loads(data)
        return clean(data)
    if isinstance(data, str):
        if mime in ("image/png", "image/jpeg", "application/pdf"):
            return "".join(data.split())
        return data
    return clean(data) if mime not in KEYS else str(data)


def unquoted(text):
    if len(text) > 1 and text[0] == text[-1] and text[0] in "'\"":
        return text[1:-1]
    return text


def send_result(bundle, main):
    if not bundle:
        return
    line = {"type": "result", "extra": {}, "is_main_result": main}
    for mime, data in bundle.items():
        value = text_of(mime, data)
        if mime == "text/plain" and State.strip:
            value = unquoted(value)
        if mime in KEYS:
            line[KEYS[mime]] = value
        else:
            line["extra"][str(mime)] = value
    sizes = {k: len(json.dumps(v)) for k, v in line.items()}
    while sum(sizes.values()) > MAX_LINE:
        big = max(sizes, key=sizes.get)
        sys.stderr.write("abx: a result's '%s' of %d bytes is too large to be shown\n" % (big, sizes[big]))
        line[big] = {} if big == "extra" else None
        sizes[big] = 4
    send_line({k: v for k, v in line.items() if v is not None})


def display(*values, raw=False, include=None, exclude=None, metadata=None, **more):
    """Show values as rich results, as notebooks do."""
    for value in values:
        send_result(value if raw and isinstance(value, dict) else bundle_of(value), False)


def show_value(value):
    if value is None:
        return
    builtins._ = value
    send_result(bundle_of(value), True)
