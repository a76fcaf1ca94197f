"""Code with kept state: python, javascript, bash; contexts, interrupts, rich results, the notebook on a terminal."""

import base64
import json
import os
import signal
import subprocess
import time

import pytest

from harness import SOAK, count, wait_for, with_marker

LANGUAGES = {"python": "print('to out')\nimport sys; print('to err', file=sys.stderr)",
             "javascript": "console.log('to out'); console.error('to err')",
             "bash": "echo to out; echo to err >&2"}


@pytest.fixture(scope="module")
def run(shared, box):
    """run(code, *flags, **more): one run in the shared sandbox."""

    def run_code(text, *flags, **more):
        return shared("code", *flags, box, "-c", text, **more)

    return run_code


def events(run, text, *flags, **more):
    return run(text, "--json", *flags, **more).lines


def of_type(lines, *types):
    return [line for line in lines if line["type"] in types]


# --- state and output -------------------------------------------------------------------------------------


@pytest.mark.parametrize("language", LANGUAGES)
def test_output_goes_to_the_same_streams(run, language):
    r = run(LANGUAGES[language], "--lang", language, code=0)
    assert (r.out, r.err) == (b"to out\n", b"to err\n")


@pytest.mark.parametrize("word,code", [("py", "1+1"), ("python3", "1+1"), ("js", "1+1"), ("node", "1+1"),
                                       ("sh", "echo 2"), ("BASH", "echo 2")])
def test_other_names_of_the_languages(run, word, code):
    assert run(code, "--lang", word, code=0).out == b"2\n"


def test_python_keeps_its_state(run):
    run("import math\nx = [1]\ndef f(): return x", code=0)
    run("x.append(math.floor(2.5))", code=0)
    assert run("f()", code=0).out == b"[1, 2]\n"
    assert run("_", code=0).out == b"[1, 2]\n"
    assert run("__name__", code=0).out == b"'__main__'\n"


def test_the_value_of_the_last_expression(run):
    assert run("1\n2", code=0).out == b"2\n"
    assert run("x = 3", code=0).out == b""
    assert run("None", code=0).out == b""
    assert run("5;", code=0).out == b""
    assert run("if True:\n  5", code=0).out == b""


def test_javascript_keeps_its_state(run):
    js = ["--lang", "js"]
    run("const a = 1; let b = {c: [1, 2]}; function f() { return a + 1 }; class C {}", *js, code=0)
    assert run("f() + b.c.length", *js, code=0).out == b"4\n"
    assert run("const a = 10; class C {}; a", *js, code=0).out == b"10\n"
    assert run("const v = await new Promise(r => setTimeout(() => r('late'), 20)); v", *js,
               code=0).out == b"'late'\n"
    assert run("v", *js, code=0).out == b"'late'\n"
    assert run("undefined", *js, code=0).out == b""


def test_javascript_imports_in_each_form(run):
    js = ["--lang", "js"]
    code = ("import fs, { existsSync as there } from 'fs'\nimport * as path from 'node:path'\n"
            "const os = await import('os')\nconst s = \"import('x')\"; // import('y')\n"
            "[there('/'), path.sep, typeof os.cpus, typeof fs.read, s, /import('a')/.source, "
            "`${typeof (await import('url')).URL} import('z')`, typeof require('util').inspect]")
    out = run(code, *js, code=0).text
    for part in ["true", "'/'", "'function'", '"import(\'x\')"', "import('a')", "function import('z')"]:
        assert part in out, out
    run("require('fs').writeFileSync('/tmp/m.mjs', 'export const seven = 7; export default 8')", *js, code=0)
    assert run("import eight, {seven} from '/tmp/m.mjs'\nseven + eight", *js, code=0).out == b"15\n"


def test_bash_keeps_its_state(run):
    sh = ["--lang", "bash"]
    run("cd /tmp; x='a  b'; declare -A m; m[k]=v; f() { echo \"f:$x\"; }; export E=env", *sh, code=0)
    r = run("pwd; f; echo ${m[k]}; sh -c 'echo $E'; cat", *sh, code=0)
    assert r.out == b"/tmp\nf:a  b\nv\nenv\n"
    assert run("false", *sh).code == 1
    assert run("echo $?", *sh).out == b"1\n"
    r = run("if", *sh)
    assert r.code == 2 and b"syntax error" in r.err


def test_order_of_streams_and_results(run):
    code = ("import sys, os, subprocess\nclass R:\n  def _repr_html_(self): return '<b>'\n"
            "for i in range(20):\n  print('o%d' % i)\n  print('e%d' % i, file=sys.stderr)\n"
            "  display(R())\n  os.system('echo s%d' % i)\n  subprocess.run('echo t%d >&2' % i, shell=True)\n")
    lines = of_type(events(run, code), "stdout", "stderr", "result")
    seen = []
    for line in lines:
        if line["type"] == "result":
            seen.append("R")
        else:
            seen += [line["type"][3] + word for word in line["text"].split()]
    want = []
    for i in range(20):
        want += [f"oo{i}", f"ee{i}", "R", f"os{i}", f"et{i}"]
    assert seen == want


def test_output_is_the_same_bytes(run):
    r = run("import sys\nsys.stdout.buffer.write(bytes(range(256)) * 4)\nprint('\\udcff\\ud800é', end='')", code=0)
    assert r.out == bytes(range(256)) * 4 + b"\xff\\ud800\xc3\xa9"
    r = run("process.stdout.write(Buffer.from([255, 0, 10]))\nnull", "--lang", "js", code=0)
    assert r.out == b"\xff\x00\nnull\n"
    assert run("printf '\\377\\000'", "--lang", "bash", code=0).out == b"\xff\x00"


def test_much_output_to_a_slow_reader(shared, box, spawn):
    size = count(3_000_000, 500_000_000)
    p = spawn(shared, "code", box, "-c", f"import sys\nfor i in range({size // 100}): print('%099d' % i)\n'end'")
    first = p.stdout.read(100_000)
    got, last = len(first), b""
    while chunk := p.stdout.read(1 << 20):
        got += len(chunk)
        last = (last + chunk)[-106:]
    assert p.wait(60) == 0
    assert got == size // 100 * 100 + 6
    assert last == b"%099d\n'end'\n" % (size // 100 - 1)


def test_threads_and_late_output(run):
    code = ("import threading, time\ndef f():\n  for i in range(50): print('t%d' % i)\n"
            "ts = [threading.Thread(target=f) for _ in range(4)]\n[t.start() for t in ts]\n[t.join() for t in ts];")
    assert sorted(run(code, code=0).out.split()) == sorted(b"t%d" % i for i in range(50) for _ in range(4))
    run("def late():\n  time.sleep(0.05)\n  print('late')\n  open('/tmp/late', 'w')\n"
        "threading.Thread(target=late).start()", code=0)
    r = run("import os\nwhile not os.path.exists('/tmp/late'): time.sleep(0.01)\nprint('now')", code=0)
    assert r.out == b"late\nnow\n"


def test_children_do_not_disturb_the_kernel(run):
    code = ("import os, multiprocessing\npid = os.fork()\nif pid == 0:\n  print('child'); display('no')\n"
            "else:\n  os.waitpid(pid, 0)\n  print('parent')\n"
            "with multiprocessing.get_context('fork').Pool(2) as p: print(p.map(abs, [-1, -2]))")
    assert run(code, code=0).out == b"child\n[1, 2]\nparent\n[1, 2]\n"
    assert run("'alive'", code=0).out == b"'alive'\n"


# --- errors ---------------------------------------------------------------------------------------------------


def test_errors_are_told_with_the_lines_of_the_cell(run):
    run("def broken(a):\n  b = a\n  return 1 / b\n", code=0)
    r = run("broken(\n 0)")
    assert r.code == 1 and r.out == b""
    assert r.errors.startswith("Traceback (most recent call last):\n  File \"<cell ")
    assert "return 1 / b" in r.errors and r.errors.endswith("ZeroDivisionError: division by zero\n")
    assert "abx" not in r.errors
    (error,) = of_type(events(run, "try:\n  1/0\nexcept ZeroDivisionError as e:\n  raise KeyError('k') from e"), "error")
    assert (error["name"], error["value"]) == ("KeyError", "'k'")
    assert "direct cause" in error["traceback"] and "exitCode" not in error
    (error,) = of_type(events(run, "x = = 1"), "error")
    assert error["name"] == "SyntaxError" and "x = = 1" in error["traceback"]


@pytest.mark.parametrize("code", [
    "class E(Exception):\n  def __str__(self): raise ValueError\nraise E",
    "def f(): f()\nf()",
    "raise BaseException('x')",
    "await __import__('asyncio').sleep(0); 1/0",
    "raise ExceptionGroup('g', [ValueError(1)])" if os.sys.version_info >= (3, 11) else "1/0",
    "class R:\n  def __repr__(self): raise ValueError('in repr')\nR(); 1/0",
])
def test_any_exception_is_an_error(run, code):
    lines = events(run, code)
    assert len(of_type(lines, "error")) == 1 and lines[-1]["exitCode"] == 1
    assert run("'alive'", code=0).out == b"'alive'\n"


def test_a_failing_repr_is_told(run):
    r = run("class R:\n  def __repr__(self): raise ValueError('in repr')\nR()", code=0)
    assert b"ValueError: in repr" in r.err


@pytest.mark.parametrize("code,exit_code", [("0", 0), ("None", 0), ("3", 3), ("'text'", 1)])
def test_exit_of_python(run, code, exit_code):
    run("kept = 1", code=0)
    assert run(f"import sys; sys.exit({code})").code == exit_code
    assert run("kept", code=0).out == b"1\n"


def test_errors_of_javascript(run):
    js = ["--lang", "js"]
    r = run("function f() { throw new TypeError('bad') }\nf()", *js)
    assert r.code == 1 and r.errors.startswith("TypeError: bad\n    at f (cell-")
    assert "abx-kernel" not in r.errors and "inspector" not in r.errors
    (error,) = of_type(events(run, "let x = ;", *js), "error")
    assert error["name"] == "SyntaxError" and "let x = ;" in error["traceback"]
    assert of_type(events(run, "throw 5", *js), "error")[0]["value"] == "5"
    r = run("Promise.reject(new Error('later')); await new Promise(r => setTimeout(r, 20)); 1", *js, code=0)
    assert r.out == b"1\n" and b"Error: later" in r.err


@pytest.mark.parametrize("code", ["input()", "input('? ')", "import sys; sys.stdin.read()",
                                  "import sys\nfor line in sys.stdin: pass"])
def test_input_is_refused(run, code):
    (error,) = of_type(events(run, code), "error")
    assert error["name"] == "StdinNotImplementedError" and "abx exec -it" in error["value"]


def test_standard_input_of_programs_is_empty(run):
    assert run("import subprocess\nsubprocess.run(['cat']).returncode", code=0).out == b"0\n"
    assert run("cat; read x; echo $?", "--lang", "bash", code=0).out == b"1\n"


# --- rich results -------------------------------------------------------------------------------------------------

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAMAAAACCAIAAAASFvFNAAAAEElEQVR4nGP4z8AARAwQCgAf7gP9i18U1AAAAABJRU5ErkJggg==")


def test_display_protocol(run):
    code = (f"PNG = {PNG!r}\nclass R:\n  def _repr_html_(self): return '<b>é</b>'\n"
            "  def _repr_markdown_(self): return '*m*'\n  def _repr_svg_(self): return '<svg/>'\n"
            "  def _repr_png_(self): return PNG\n  def _repr_jpeg_(self): return b'\\xff\\xd8', {'w': 1}\n"
            "  def _repr_latex_(self): return '$x$'\n"
            "  def _repr_json_(self): return {'a': [1, float('nan')]}\n  def _repr_javascript_(self): return '1'\n"
            "  def _repr_pdf_(self): return b'%PDF'\n  def __repr__(self): return 'R!'\n"
            "display(R())\nR()")
    shown, main = of_type(events(run, code), "result")
    assert shown["isMainResult"] is False and main["isMainResult"] is True
    assert main["html"] == "<b>é</b>" and main["markdown"] == "*m*" and main["svg"] == "<svg/>"
    assert base64.b64decode(main["png"]) == PNG and base64.b64decode(main["jpeg"]) == b"\xff\xd8"
    assert main["json"] == {"a": [1, None]} and main["javascript"] == "1" and main["latex"] == "$x$"
    assert base64.b64decode(main["pdf"]) == b"%PDF" and main["text"] == "R!"


def test_bundles_and_broken_methods(run):
    code = ("class B:\n  def _repr_mimebundle_(self, include=None, exclude=None):\n"
            "    return {'text/plain': 'p', 'application/x-mine': {'k': 1}}\n"
            "class X:\n  def _repr_html_(self): raise ValueError('no html')\n  def __repr__(self): return 'x'\n"
            "class Any:\n  def __getattr__(self, name): return lambda *a, **k: 'any'\n"
            "class No:\n  def __getattr__(self, name): raise RuntimeError(name)\n  def __repr__(self): return 'no'\n"
            "display(X()); display(Any()); display(No()); display({'text/html': 'raw'}, raw=True); B()")
    lines = events(run, code)
    x, any_, no, raw, main = of_type(lines, "result")
    assert no["text"] == "no" and "html" not in no
    assert x["text"] == "x" and "html" not in x and "html" not in any_ and raw["html"] == "raw"
    assert main["text"] == "p" and main["extra"] == {"application/x-mine": {"k": 1}}
    assert "no html" in "".join(line["text"] for line in of_type(lines, "stderr"))


def test_notebook_modules_and_tables(run):
    code = ("from IPython.display import display as d, HTML, Markdown, JSON, Image\nd(HTML('<i>'), Markdown('m'), JSON({'a': 1}))\n"
            "class DataFrame:\n  columns = ['a']\n  def __len__(self): return 2\n"
            "  def to_dict(self, orient): return {'a': [1, 2.5]}\nDataFrame()")
    html, md, tree, main = of_type(events(run, code), "result")
    assert html["html"] == "<i>" and md["markdown"] == "m" and tree["json"] == {"a": 1}
    assert main["data"] == {"a": [1, 2.5]}


FAKE = {"__init__.py": "", "figure.py": "class Figure:\n  def __init__(self, n): self.n = n\n"
        "  def savefig(self, out, format, bbox_inches): out.write(b'\\x89PNG' + bytes([self.n]))\n"
        "  def __repr__(self): return '<Figure %d>' % self.n\n",
        "pyplot.py": "import os\nfrom .figure import Figure\nassert os.environ['MPLBACKEND'] == 'Agg'\nopen_ = {}\n"
        "def figure(n=None):\n  n = n or len(open_) + 1\n  return open_.setdefault(n, Figure(n))\n"
        "def get_fignums(): return sorted(open_)\ndef close(f): open_.pop(f.n)\ndef show(): raise RuntimeError\n"}


@pytest.fixture(scope="module")
def plots(shared, box):
    for name, text in FAKE.items():
        shared.ok("files", "write", f"{box}:/tmp/fake/matplotlib/{name}", input=text.encode())
    shared.ok("code", box, "-c", "import sys; sys.path.insert(0, '/tmp/fake')")


def test_figures_are_shown_and_closed(run, plots):
    lines = events(run, "import matplotlib.pyplot as plt\nplt.figure(); plt.figure()\nprint('before')\nplt.show()\n"
                        "print('after')\nf = plt.figure(7); f")
    seen = of_type(lines, "stdout", "result")
    types = [s["type"] for s in seen]
    assert [t for i, t in enumerate(types) if t == "result" or types[i - 1] != t] == [
        "stdout", "result", "result", "stdout", "result"]
    results = of_type(seen, "result")
    assert base64.b64decode(results[0]["png"]) == b"\x89PNG\x01" and results[2]["isMainResult"] is True
    assert run("plt.get_fignums()", code=0).out == b"[]\n"
    lines = events(run, "plt.figure(); 1/0")
    assert [s["type"] for s in of_type(lines, "error", "result")] == ["error", "result"]


if SOAK:  # a heavy package: scripts/soak.sh asks for it

    def test_real_figures(abx):
        box = abx.create()
        code = ("import matplotlib.pyplot as plt\nplt.plot([1, 2]); plt.show()\nprint('shown')\nf, a = plt.subplots(); a.bar([1], [2]);")
        lines = abx.ok("code", "--json", box, "-c", code).lines
        pictures = [base64.b64decode(line["png"]) for line in of_type(lines, "result") if "png" in line]
        assert len(pictures) == 2 and all(p.startswith(b"\x89PNG") and len(p) > 5000 for p in pictures)
        assert [line["type"] for line in of_type(lines, "stdout", "result")][1:2] == ["stdout"]


def test_save_dir_writes_new_files_only(shared, box, run, tmp_path):
    target = tmp_path / "out"
    code = f"class R:\n  def _repr_png_(self): return {PNG!r}\n  def _repr_html_(self): return '<b>'\ndisplay(R())\nR();"
    r = run(code, "--save-dir", target, code=0)
    names = sorted(os.listdir(target))
    assert [n.rpartition(".")[2] for n in names] == ["html", "png"]
    assert (target / names[1]).read_bytes() == PNG
    assert f"[image/png 3x2, {len(PNG)} bytes] {target}/{names[1]}" in r.errors
    result = of_type(events(run, code, "--save-dir", target), "result")[0]
    assert result["file"].startswith(str(target)) and len(os.listdir(target)) == 4
    r = run(code, code=0)
    assert f"[image/png 3x2, {len(PNG)} bytes]\n" in r.errors and b"[" not in run(code, "-q", code=0).err
    assert run(code, "--save-dir", "/proc/none").code == 125


def test_a_result_over_the_limit(run):
    lines = events(run, "class R:\n  def _repr_html_(self): return 'x' * 30000000\n  def __repr__(self): return 'r'\nR()")
    (result,) = of_type(lines, "result")
    assert result["text"] == "r" and "html" not in result
    big = run("'y' * 5000000", code=0)
    assert len(big.out) == 5000003


# --- what notebooks add ----------------------------------------------------------------------------------------------


def test_top_level_await(run):
    assert run("import asyncio\nawait asyncio.sleep(0.01)\n'slept'", code=0).out == b"'slept'\n"
    assert run("async def f(): return 5\nawait f()", code=0).out == b"5\n"
    run("task = asyncio.ensure_future(asyncio.sleep(0.01, 'v'), loop=asyncio.get_event_loop())", code=0)
    assert run("asyncio.run(f())", code=0).out == b"5\n"


def test_magic_lines(run):
    r = run("s = '''\n!not this\n'''\nif True:\n  !echo shell; echo err >&2; exit 3\nprint(_exit_code, len(s))\n%cd /tmp", code=0)
    assert (r.out, r.err) == (b"shell\n3 11\n/tmp\n", b"err\n")
    run("%env ABX_T=5\n!test $ABX_T = 5", code=0)
    assert b"Wall time" in run("%time sum(range(10))", code=0).out
    run("%matplotlib inline\n%cd", code=0)
    (error,) = of_type(events(run, "%load_ext thing"), "error")
    assert error["name"] == "SyntaxError" and "%pip" in error["value"]


def test_unusual_code(run):
    assert run("", code=0).out == b""
    assert run("# only a comment", code=0).out == b""
    assert run("print('\\0')\r\nx = 'ü\u2028'\r\nlen(x)", code=0).out == b"\0\n2\n"
    assert run("", "--lang", "js", code=0).out == b"" and run("", "--lang", "bash", code=0).out == b""


def test_code_by_file_and_stdin(shared, box, tmp_path):
    for name, text in {"a.py": "print('py')", "a.mjs": "console.log('js')", "a.sh": "echo sh", "plain": "print('plain')"}.items():
        (tmp_path / name).write_text(text)
        want = {"a.py": b"py\n", "a.mjs": b"js\n", "a.sh": b"sh\n", "plain": b"plain\n"}[name]
        assert shared.ok("code", box, tmp_path / name).out == want
    assert shared.ok("code", box, input=b"print('in')").out == b"in\n"
    assert shared.ok("code", box, "-", input=b"print('dash')").out == b"dash\n"
    lines = "".join(f"v{i} = {i}\n" for i in range(5000)) + "v4999"
    assert shared.ok("code", box, input=lines.encode()).out == b"4999\n"
    big = b"t = '" + b"z" * 12_000_000 + b"'\nlen(t)"
    assert shared.ok("code", box, input=big).out == b"12000000\n"
    assert shared("code", box, input=b"x" * 16_800_000).code == 125
    assert shared.ok("code", box, "--lang", "bash", input=b"x='" + b"y" * 1_000_000 + b"'; echo ${#x}").out == b"1000000\n"


# --- interrupts and ends ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("language,keep,code,ask,name", [
    ("python", "k = 1", "import time\nwhile True: time.sleep(10)", "k", "KeyboardInterrupt"),
    ("python", "k = 1", "import os\nos.system('sleep 1000')\nawait __import__('asyncio').sleep(100)", "k", "KeyboardInterrupt"),
    ("javascript", "var k = 1", "while (true) {}", "k", "Interrupted"),
    ("javascript", "var k = 1", "await new Promise(() => setTimeout(() => 0, 1e6))", "k", "Interrupted"),
    ("bash", "k=1", "while :; do sleep 1000; done", "echo $k", "Interrupted"),
    ("bash", "k=1", "while :; do :; done", "echo $k", "Interrupted"),
])
def test_a_time_limit_interrupts_and_keeps_the_state(run, language, keep, code, ask, name):
    flags = ["--lang", language]
    run(keep, *flags, code=0)
    lines = events(run, code, *flags, "--timeout", "300ms")
    assert of_type(lines, "error")[0]["name"] == name
    assert lines[-1]["timedOut"] is True and (lines[-1]["exitCode"], lines[-1]["source"]) == (124, "abx")
    assert run(ask, *flags, code=0).out == b"1\n"


def test_code_that_ignores_interrupts_is_ended(run):
    lines = events(run, "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass", "--timeout", "100ms")
    assert of_type(lines, "error")[0]["name"] == "KernelDied"
    assert lines[-1]["stateLost"] is True and lines[-1]["timedOut"] is True
    assert run("'fresh'", code=0).out == b"'fresh'\n"


def started(spawn, shared, box, code, *flags):
    p = spawn(shared, "code", *flags, box, "-c", code)
    assert p.stdout.readline() == b"go\n"
    return p


def test_an_interrupt_by_signal(shared, box, run, spawn):
    run("kept = 5", code=0)
    p = started(spawn, shared, box, "print('go')\nimport time\ntime.sleep(1000)")
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20)
    assert p.returncode == 130 and err.endswith(b"KeyboardInterrupt\n")
    assert run("kept", code=0).out == b"5\n"


def test_a_second_interrupt_ends_the_kernel(shared, box, run, spawn):
    p = started(spawn, shared, box, "print('go', flush=True)\nimport time, signal\n"
                "signal.signal(2, lambda *a: print('ignored'))\nprint('set')\nwhile True: time.sleep(0.01)")
    assert p.stdout.readline() == b"set\n"
    p.send_signal(signal.SIGINT)
    assert p.stdout.readline() == b"ignored\n"
    p.send_signal(signal.SIGINT)
    out, err = p.communicate(timeout=20)
    assert p.returncode == 130 and b"KernelDied" in err
    assert run("'fresh'", code=0).out == b"'fresh'\n"


def test_a_client_that_goes_away_interrupts(shared, box, run, spawn):
    run("state = 'here'", code=0)
    p = started(spawn, shared, box, "import time\ntry:\n  print('go')\n  time.sleep(1000)\n"
                "finally:\n  open('/tmp/interrupted', 'w')")
    p.kill()
    p.wait(20)
    assert run("import os; os.path.exists('/tmp/interrupted'), state", code=0).out == b"(True, 'here')\n"


def test_a_reader_that_goes_away_ends_the_run(shared, box, run):
    r = subprocess.run(["sh", "-c", '"$0" code "$1" -c "while True: print(1)" | head -1; :', str(shared.start.__globals__["ABX"]), box],
                       env=shared.environment(), stdout=subprocess.PIPE, timeout=60)
    assert r.stdout == b"1\n"
    assert run("'free'", code=0).out == b"'free'\n"


def test_a_kernel_that_dies_is_told(run):
    lines = events(run, "import os, time\nprint('last')\nos.kill(os.getpid(), 9)\ntime.sleep(9)")
    assert "".join(line["text"] for line in of_type(lines, "stdout")) == "last\n"
    (error,) = of_type(lines, "error")
    assert error["name"] == "KernelDied" and "SIGKILL" in error["value"] and lines[-1]["stateLost"] is True
    assert lines[-1]["exitCode"] == 1
    end = events(run, "2")[-1]
    assert end["executionCount"] == 1 and "fresh" not in end  # who was there was told
    assert run("import os; os._exit(3)").code == 3
    assert run("process.exit(4)", "--lang", "js").code == 4
    r = run("echo bye; exit 5", "--lang", "bash")
    assert (r.code, r.out) == (5, b"bye\n") and b"KernelExited" in r.err
    assert run("exit 0", "--lang", "bash", code=0).err == b""
    assert run("exec true", "--lang", "bash", code=0).out == b""


def test_a_death_between_runs_is_told_by_the_next(run):
    def told():
        """Where it dies while the next one runs, that one fails instead: again then."""
        run("import threading, os\nthreading.Timer(0.3, lambda: os.kill(os.getpid(), 9)).start()")
        time.sleep(0.6)
        end = events(run, "1")[-1]
        return end if "fresh" in end else None
    end = wait_for(told, seconds=60)
    assert "SIGKILL" in end["fresh"] and end["executionCount"] == 1


def test_a_kernel_that_breaks_the_protocol_is_ended(run):
    for frame in ["b'junk junk junk\\n'", "b'done 99999999\\n'", "b'x' * 100000", "b'line 5\\n\\xff\\xfe{}\\n'"]:
        lines = events(run, f"import os, time\nos.write(3, {frame})\ntime.sleep(0.2)")
        assert lines[-1]["type"] == "end" and lines[-1]["exitCode"] in (0, 1, 125)
        assert run("'next'", code=0).out == b"'next'\n"


def test_a_kernel_that_asks_without_end_is_ended(shared, box, run):
    """It reads no answer: neither the memory of pid 1 grows nor does anybody wait for it."""
    lines = events(run, "import os\nwhile True: os.write(3, b'sync 0\\n' * 8000)")
    (error,) = of_type(lines, "error")
    assert error["name"] == "KernelDied" and lines[-1]["stateLost"] is True
    assert shared("exec", box, "--", "true", code=0) and run("'next'", code=0).out == b"'next'\n"


def test_one_that_asks_and_reads_without_end_keeps_nobody_waiting(shared, box, run, spawn):
    p = started(spawn, shared, box, "import os, threading\ndef read():\n  while True: os.read(3, 1 << 16)\n"
                "threading.Thread(target=read, daemon=True).start()\nos.write(1, b'go\\n')\n"
                "while True: os.write(3, b'sync 0\\n' * 8)")
    assert shared("exec", box, "--", "true", code=0)
    shared.ok("code", "--restart", box)
    p.communicate(timeout=20)
    assert run("'next'", code=0).out == b"'next'\n"


def test_what_a_kernel_started_ends_with_it(shared, box, run):
    run("import subprocess\nsubprocess.Popen(['sh', '-c', 'sleep 1000 # code-marker; :'])", code=0)
    wait_for(lambda: with_marker("code-marker"))
    shared.ok("code", "--restart", box)
    wait_for(lambda: not with_marker("code-marker"))


# --- contexts -----------------------------------------------------------------------------------------------------------


def test_contexts_have_their_own_state(shared, box, run):
    new = ["code", "--new-context", box]
    a = shared.ok(*new, "-w", "/tmp", "-e", "CTX=a").text.strip()
    b = shared.ok(*new, "--lang", "js").text.strip()
    run("x = 'default'", code=0)
    assert run("import os\nx = 'a'\nos.getcwd(), os.environ['CTX']", "--context", a, code=0).out == b"('/tmp', 'a')\n"
    assert run("var x = 'b'; x", "--context", b, code=0).out == b"'b'\n"
    assert run("x", code=0).out == b"'default'\n"
    listed = shared.ok("code", "--contexts", "--json", box).json["contexts"]
    assert [c["id"] for c in listed][-2:] == [a, b] and listed[-1]["language"] == "javascript"
    assert listed[-2]["cwd"] == "/tmp" and listed[-2]["busy"] is False and listed[-2]["pid"] > 1
    assert a in shared.ok("code", "--contexts", box).text
    shared.ok("code", "--restart", "--context", a, box)
    assert run("x", "--context", a).code == 1
    assert run("import os; os.environ['CTX']", "--context", a, code=0).out == b"'a'\n"
    for c in (a, b):
        shared.ok("code", "--remove-context", "--context", c, box)
    r = run("1", "--context", a)
    assert r.code == 125 and b"E3007" in r.err
    assert a not in [c["id"] for c in shared.ok("code", "--contexts", "--json", box).json["contexts"]]


def test_contexts_run_at_once_and_one_after_the_other(shared, box, spawn):
    ids = [shared.ok("code", "--new-context", "--lang", "bash", box).text.strip() for _ in range(3)]
    first = [spawn(shared, "code", "--context", c, box, "-c", "echo $$ up; while [ ! -e /tmp/go ]; do sleep 0.02; done") for c in ids]
    for p in first:
        assert b"up" in p.stdout.readline()  # all three run now
    queued = [spawn(shared, "code", "--context", ids[0], box, "-c", f"n=x$n; echo $n") for i in range(3)]
    shared.ok("files", "write", f"{box}:/tmp/go", input=b"")
    assert sorted(len(p.communicate(timeout=30)[0]) for p in queued) == [2, 3, 4]
    assert all(p.wait(30) == 0 for p in first)
    for c in ids:
        shared.ok("code", "--remove-context", "--context", c, box)


def test_restart_and_removal_while_code_runs(shared, box, spawn):
    for flag in ("--restart", "--remove-context"):
        c = shared.ok("code", "--new-context", box).text.strip()
        p = started(spawn, shared, box, "print('go')\nimport time; time.sleep(1000)", "--context", c)
        waiting = spawn(shared, "code", "--context", c, box, "-c", "'second'")
        wait_for(lambda: shared.ok("code", "--contexts", "--json", box).json["contexts"][-1]["busy"])
        shared.ok("code", flag, "--context", c, box)
        assert p.wait(20) == 1 and b"Context" in p.stderr.read()
        out, err = waiting.communicate(timeout=20)
        assert out == b"'second'\n" if flag == "--restart" else waiting.returncode == 125
        if flag == "--restart":
            shared.ok("code", "--remove-context", "--context", c, box)


def test_variables_of_one_run(run):
    for language, code in [("python", "import os; os.environ.get('V')"), ("js", "process.env.V ?? null"),
                           ("bash", "echo ${V-none}")]:
        flags = ["--lang", language]
        assert b"one run" in run(code, *flags, "-e", "V=one run", code=0).out
        assert b"one run" not in run(code, *flags, code=0).out


def test_wrong_lines(shared, box, run):
    for args, word in [(["--lang", "ruby", "-c", "1"], "javascript"), (["-c", "1", "file"], "exclude"),
                       (["--context", "a", "--lang", "js", "-c", "1"], "exclude"), (["-w", "/", "-c", "1"], "--new-context"),
                       (["--contexts", "--restart"], "one at a time"), (["no-such-file"], "no such file")]:
        r = shared("code", box, *args)
        assert r.code in (2, 125) and word in r.errors, repr(r)
    assert shared("code", box, "-c", "1", "--context", "nope").code == 125
    r = shared("code", "no-box", "-c", "1")
    assert r.code == 125 and b"E3001" in r.err
    assert shared("code", "--new-context", "-w", "/nowhere", box).code != 0
    assert shared("code", box, input=b"\xff").code == 2


def test_a_language_that_is_not_there(abx):
    box = abx.create("-e", "PATH=/usr/local/none")
    r = abx("code", box, "-c", "1")
    assert r.code in (126, 127) and b"no program that runs python" in r.err and b"no language" in r.err


# --- with the rest of the sandbox ---------------------------------------------------------------------------------------------


def test_kernels_pause_and_end_with_the_sandbox(abx, spawn):
    box = abx.create()
    p = started(spawn, abx, box, "print('go')\nimport time\nfor i in range(20): time.sleep(0.05)\n'done'", "--timeout", "30s")
    abx.ok("pause", box)
    r = abx("code", box, "-c", "1")
    assert r.code == 125 and b"paused" in r.err
    abx.ok("resume", box)
    assert p.communicate(timeout=30)[0] == b"'done'\n"
    abx.ok("kill", box)
    assert abx.left() == []


def test_killed_while_code_runs(abx, spawn):
    box = abx.create()
    p = started(spawn, abx, box, "print('go')\nimport time; time.sleep(1000)")
    abx.ok("kill", box)
    out, err = p.communicate(timeout=20)
    assert p.returncode == 125 and b"E6004" in err


def test_many_runs_leave_nothing(shared, box, run):
    def look():
        return run("import os; len(os.listdir('/proc/self/fd')), len(__import__('threading').enumerate())", code=0).out

    before = look()
    for i in range(count(20, 2000)):
        assert run(f"print({i}); display({i}); {i}", code=0).out == b"%d\n%d\n%d\n" % (i, i, i)
    assert look() == before


# --- on a terminal ----------------------------------------------------------------------------------------------------------------


def test_a_notebook(shared, box, terminal):
    t = terminal(shared, "code", box)
    t.expect(">>> ")
    t.write("x = 20\n")
    t.expect(">>> ")
    t.write("x * 2 + 1\n")
    t.expect("41\r\n>>> ")
    t.write("for i in range(2):\n")
    t.expect("... ")
    t.write("    print('line', i)\n\n")
    t.expect("line 0\r\nline 1\r\n>>> ")
    t.write("[1,\n")
    t.expect("... ")
    t.write("2]\n")
    t.expect("[1, 2]\r\n>>> ")
    t.write("1/0\n")
    t.expect("ZeroDivisionError: division by zero\r\n>>> ")
    t.write("import time; time.sleep(1000)\n")
    wait_for(lambda: shared.ok("code", "--contexts", "--json", box).json["contexts"][0]["busy"])
    t.write(b"\x03")
    t.expect("KeyboardInterrupt\r\n>>> ")
    t.write("def half(\n")
    t.expect("... ")
    t.write(b"\x03")
    t.expect(">>> ")
    t.write("x\n")
    t.expect("20\r\n>>> ")
    t.write(b"\x04")
    assert t.end() == 0


def test_a_notebook_of_bash(shared, box, terminal):
    t = terminal(shared, "code", "--lang", "bash", box)
    t.expect(">>> ")
    t.write("y=3\n")
    t.expect(">>> ")
    t.write("for i in 1 2; do\n")
    t.expect("... ")
    t.write("echo n$i$y\n")
    t.expect("... ")
    t.write("done\n\n")
    t.expect("n13\r\nn23\r\n")
    t.write(b"\x04")
    assert t.end() == 0


# --- what a provider leaves out -----------------------------------------------------------------------------

NAMELESS = r"""
import json, sys
for line in sys.stdin:
    m = json.loads(line)
    answer = {"protocol": "epp/1", "features": ["code"]} if m["method"] == "initialize" else {"id": "b1", "name": "b1", "state": "running"}
    if m["method"] == "code.run":
        event = {"stream": m["id"], "kind": "error", **json.loads(m["params"]["code"])}
        print(json.dumps({"jsonrpc": "2.0", "method": "code.event", "params": event}), flush=True)
        answer = {}
    if "id" in m:
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": answer}), flush=True)
"""


@pytest.mark.parametrize("event, line", [({"name": "", "value": "exit status 1"}, "Error: exit status 1\n"), ({"name": "Bad", "value": ""}, "Bad\n"),
                                         ({"name": "", "value": ""}, "Error\n"), ({"name": "Bad", "value": "luck"}, "Bad: luck\n"), ({}, "Error\n")])
def test_an_error_without_a_name_is_one_line(abx, event, line):
    folder = abx.work / "nameless"
    folder.mkdir()
    (folder / "abx-provider.toml").write_text('schema = 1\nid = "nameless"\nname = "Nameless"\nversion = "0.1.0"\n[runtime]\nkind = "exec"\n'
                                              'protocol = "epp/1"\ncommand = ["python3", "plugin.py"]\nfeatures = ["code"]\n')
    (folder / "plugin.py").write_text(NAMELESS)
    box = abx.ok("create", "-q", "--provider", folder).text.strip()
    assert abx("code", "--provider", folder, box, "-c", json.dumps(event), code=1).errors == line
