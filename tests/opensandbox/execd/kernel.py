"""A kernel: takes {"code"} a line, tells events a line, {"type": "done"} at the end of a run. python or bash."""

import ast
import base64
import io
import json
import os
import signal
import subprocess
import sys
import traceback

channel = os.fdopen(os.dup(1), "w", encoding="utf-8")


def tell(kind, **members):
    channel.write(json.dumps({"type": kind, **members}) + "\n")
    channel.flush()


class Out(io.TextIOBase):
    def __init__(self, kind):
        self.kind = kind

    def writable(self):
        return True

    def write(self, text):
        for start in range(0, len(text), 1 << 16):
            tell(self.kind, text=text[start:start + (1 << 16)])
        return len(text)


def shown(value):
    mime = {"text": repr(value)}
    kinds = {"_repr_html_": "text/html", "_repr_markdown_": "text/markdown", "_repr_svg_": "image/svg+xml", "_repr_png_": "image/png",
             "_repr_latex_": "text/latex", "_repr_json_": "application/json"}
    for name, kind in kinds.items():
        if hasattr(type(value), name):
            data = getattr(value, name)()
            mime[kind] = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    return mime


def failed(name, value, lines):
    tell("status", text="error")
    tell("error", error={"ename": name, "evalue": value, "traceback": lines})


def python(code, state, number):
    try:
        tree = ast.parse(code)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, "<cell>", "exec"), state)
        value = eval(compile(ast.Expression(last.value), "<cell>", "eval"), state) if last else None
        if value is not None:
            state["_"] = value
            tell("execution_count", execution_count=number)
            tell("result", results=shown(value))
    except BaseException as e:
        failed(type(e).__name__, str(e), traceback.format_exc().splitlines())


class Shell:
    """One bash for all runs; the end of a run is a line that nobody prints by chance."""

    def __init__(self):
        self.mark = base64.b32encode(os.urandom(15)).decode()
        self.process = subprocess.Popen(["bash", "--norc"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def run(self, code):
        text = f"eval {quoted(code)}\nprintf '\\n%s %d\\n' {self.mark} $?\n"
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()
        before = b""
        for line in self.process.stdout:
            if line.startswith(self.mark.encode()):
                if before.strip(b"\n"):
                    tell("stdout", text=before.decode(errors="replace").removesuffix("\n"))
                status = int(line.split()[1])
                return failed("", str(status), []) if status else None
            if before:
                tell("stdout", text=before.decode(errors="replace"))
            before = line


def quoted(text):
    return "'" + text.replace("'", "'\\''") + "'"


def main():
    language = sys.argv[1]
    state, shell = {"__name__": "__main__"}, Shell() if language == "bash" else None
    sys.stdout, sys.stderr = Out("stdout"), Out("stderr")
    for number, line in enumerate(sys.stdin, 1):
        signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            code = json.loads(line)["code"]
            shell.run(code) if shell else python(code, state, number)
        except KeyboardInterrupt:
            failed("KeyboardInterrupt", "", [])
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        tell("done")


signal.signal(signal.SIGINT, signal.SIG_IGN)
main()
