# Part of the Python kernel (python_channel.py): what a cell means, how it runs, what its errors say.
import ast
import builtins
import contextlib
import importlib
import linecache
import os
import signal
import subprocess
import sys
import time
import traceback

HERE = __file__


# --- errors ----------------------------------------------------------------------------------------------------------
def tidy(report, seen):
    """Only the user's frames, also in causes and groups."""
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    frames = [f for f in report.stack if f.filename != HERE]
    cells = [i for i, f in enumerate(frames) if f.filename.startswith("<cell ")]
    if cells and all("asyncio" in f.filename for f in frames[: cells[0]]):
        frames = frames[cells[0] :]
    report.stack[:] = frames
    tidy(report.__cause__, seen)
    tidy(report.__context__, seen)
    for inner in getattr(report, "exceptions", None) or ():
        tidy(inner, seen)


def text_of_error(kind, error, trace):
    try:
        report = traceback.TracebackException(kind, error, trace)
        tidy(report, set())
        text = "".join(report.format())
        if not report.stack and text.startswith("Traceback"):
            text = text.split("\n", 1)[1]
        return text if len(text) < 1000000 else text[:500000] + "\n[...]\n" + text[-400000:]
    except BaseException:
        return kind.__name__ + "\n"


def show_error(kind, error, trace):
    sys.stderr.write(text_of_error(kind, error, trace))


def value_of(error):
    try:
        text = str(error)
    except BaseException:
        return "<the text of the error cannot be made>"
    return text if len(text) < 100000 else text[:100000] + "[...]"


def send_error(kind, error, trace):
    line = {"type": "error", "name": kind.__name__, "value": value_of(error)}
    if kind is SystemExit:
        code = error.code
        if code is None or code == 0:
            return
        line["abxExitCode"] = code & 0xFF if isinstance(code, int) else 1
    line["traceback"] = text_of_error(kind, error, trace)
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace
    send_line(line)


# --- lines that are no Python ---------------------------------------------------------------------------------------
def shell(command):
    builtins._exit_code = subprocess.run(command, shell=True).returncode


def magic_pip(text):
    builtins._exit_code = subprocess.run("%s -m pip %s" % (quoted(sys.executable), text), shell=True).returncode
    importlib.invalidate_caches()


def quoted(text):
    import shlex

    return shlex.quote(text)


def magic_cd(text):
    os.chdir(os.path.expanduser(text.strip().strip("'\"") or "~"))
    print(os.getcwd())


def magic_env(text):
    name, equals, value = text.strip().partition("=")
    if not equals:
        name, _, value = text.strip().partition(" ")
    if not name:
        display(dict(os.environ))
    elif value:
        os.environ[name.strip()] = value.strip()
        print("env: %s=%s" % (name.strip(), value.strip()))
    else:
        print(os.environ[name.strip()])


@contextlib.contextmanager
def timed():
    wall, cpu = time.perf_counter(), time.process_time()
    try:
        yield
    finally:
        wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
        print("CPU time: %.3g s\nWall time: %.3g s" % (cpu, wall))


MAGICS = {"pip": magic_pip, "cd": magic_cd, "env": magic_env, "matplotlib": lambda text: None}


def magic(name, text):
    MAGICS[name](text)


def as_python(line):
    """A line that begins with ! or % as Python, or None."""
    body = line.lstrip()
    indent = line[: len(line) - len(body)]
    body = body.rstrip("\r\n")
    if body.startswith("!"):
        return "%s__abx_shell__(%r)\n" % (indent, body[1:].lstrip("!"))
    if not body.startswith("%"):
        return None
    name, _, text = body[1:].partition(" ")
    if name in MAGICS:
        return "%s__abx_magic__(%r, %r)\n" % (indent, name, text)
    if name == "time" and text:
        return "%swith __abx_time__(): %s\n" % (indent, text)
    raise SyntaxError(
        "'%s' is not known here: of the notebook's own commands there are !COMMAND, %%pip, %%cd, %%env, %%time and "
        "%%matplotlib" % body.split()[0]
    )


def parse(code, name):
    flags = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
    changed = set()
    while True:
        try:
            return compile(code, name, "exec", flags, dont_inherit=True)
        except SyntaxError as error:
            lines = code.splitlines(True)
            at = (error.lineno or 0) - 1
            if at in changed or not 0 <= at < len(lines):
                raise
            line = as_python(lines[at])
            if line is None:
                raise
            changed.add(at)
            lines[at] = line
            code = "".join(lines)


# --- running ------------------------------------------------------------------------------------------------------------
loop = None


def finish(value):
    """The value of evaluated code: awaited if it is a coroutine of ours."""
    global loop
    import asyncio

    if loop is None or loop.is_closed():
        loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    task = loop.create_task(value)
    try:
        return loop.run_until_complete(task)
    except BaseException:
        if not task.done():
            task.cancel()
            with contextlib.suppress(BaseException):
                loop.run_until_complete(task)
        raise


def evaluate(tree, name, mode):
    code = compile(tree, name, mode, ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    value = eval(code, space)
    return finish(value) if code.co_flags & 0x80 else value


def run_code(code, name):
    tree = parse(code, name)
    quiet = code.rstrip().endswith(";")
    last = None
    if tree.body and isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    evaluate(tree, name, "exec")
    if last is not None:
        value = evaluate(last, name, "eval")
        if not quiet:
            sys.displayhook(value)


def show_figures():
    plot = sys.modules.get("matplotlib.pyplot")
    if plot is None or not hasattr(plot, "get_fignums"):
        return
    for number in plot.get_fignums():
        figure = plot.figure(number)
        if not any(figure is f for f in State.shown):
            bundle = {}
            attempt(bundle, "image/png", lambda: figure_png(figure))
            attempt(bundle, "text/plain", lambda: repr(figure))
            send_result(bundle, False)
        plot.close(figure)


def set_env(pairs):
    old = {}
    for pair in pairs:
        name, _, value = pair.partition(b"=")
        old.setdefault(name, os.environb.get(name))
        os.environb[name] = value
    return old


def restore_env(old):
    for name, value in old.items():
        if value is None:
            os.environb.pop(name, None)
        else:
            os.environb[name] = value


def flush_streams():
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(Exception):
            stream.flush()


def begin_interrupts():
    """From here on one ends what runs; one that came before ends it at once."""
    State.depth = 0
    if State.pending:
        State.pending = False
        raise KeyboardInterrupt


def guarded(work, *arguments):
    """What may be interrupted: what it raises is reported, and nothing leaves it."""
    try:
        begin_interrupts()
        work(*arguments)
    except BaseException:
        try:
            send_error(*sys.exc_info())
        except BaseException:
            State.depth = 1
            send_error(*sys.exc_info())
    State.depth = 1


def run(body, pairs):
    State.count += 1
    State.shown = ()
    name = "<cell %d>" % State.count
    code = body.decode("utf-8", "replace")
    linecache.cache[name] = (len(code), None, code.splitlines(True), name)
    with contextlib.suppress(ValueError):
        signal.signal(signal.SIGINT, on_interrupt)
    old = set_env(pairs)
    State.pending = False
    State.last = None
    State.depth = 1
    State.running = True
    send_line({"type": "number_of_executions", "execution_count": State.count})
    guarded(run_code, code, name)
    guarded(show_figures)
    if os.getpid() != PID:
        os._exit(0)
    guarded(flush_streams)
    with lock:
        State.running = False
        restore_env(old)
        send(b"done")
    State.depth = 0
    State.pending = False


steady.update((run.__code__, guarded.__code__))
