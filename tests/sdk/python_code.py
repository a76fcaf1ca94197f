"""Every documented call of the Python package e2b-code-interpreter that e2b does not have. PROGRAM sync|async [WORD...]"""

import asyncio
import sys
from importlib.metadata import version

import e2b_code_interpreter as interpreter
from e2b_code_interpreter import InvalidArgumentException, TimeoutException

from report import ASYNC, case, done, refused, run_all

VERSION = version("e2b-code-interpreter")
Sandbox = interpreter.AsyncSandbox if ASYNC else interpreter.Sandbox


async def run(box, code, **more):
    return await done(box.run_code(code, **more))


@case("run_code", "the value of the last expression; state stays")
async def _(box):
    await run(box, "x = 1")
    execution = await run(box, "x += 1; x")
    assert execution.text == "2" and execution.results[0].is_main_result and execution.error is None, execution
    assert (await run(box, "y = 1")).results == []


@case("run_code", "output, by the result and by callbacks")
async def _(box):
    out, err, results = [], [], []
    execution = await run(box, "import sys\nprint('a')\nprint('b', file=sys.stderr)\n40 + 2",
                          on_stdout=lambda m: out.append(m.line), on_stderr=lambda m: err.append(m.line),
                          on_result=results.append)
    assert "".join(execution.logs.stdout) == "a\n" == "".join(out), execution
    assert "".join(execution.logs.stderr) == "b\n" == "".join(err), execution
    assert [r.text for r in results] == ["42"]


@case("run_code", "an error has name, value and traceback")
async def _(box):
    errors = []
    execution = await run(box, "def f():\n    return 1 / 0\nf()", on_error=errors.append)
    error = execution.error
    assert error.name == "ZeroDivisionError" and error.value == "division by zero", error
    assert "return 1 / 0" in error.traceback and errors[0].name == error.name
    assert (await run(box, "def g(:")).error.name == "SyntaxError"


@case("run_code", "environment of a run, of the sandbox")
async def _(box):
    code = "import os; os.environ.get('RUN_VARIABLE')"
    assert (await run(box, code, envs={"RUN_VARIABLE": "set"})).text == "'set'"
    assert (await run(box, code)).results == []


@case("run_code", "a time limit; the context goes on")
async def _(box):
    await run(box, "kept = 4711")
    await refused(TimeoutException, box.run_code, "import time; time.sleep(1000)", timeout=1)
    assert (await run(box, "kept", timeout=60)).text == "4711"


@case("run_code", "rich results: html, markdown, svg, png, json, latex")
async def _(box):
    execution = await run(box, """
class Rich:
    def _repr_html_(self): return "<b>html</b>"
    def _repr_markdown_(self): return "*md*"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"png bytes"
    def _repr_json_(self): return {"a": [1, None]}
    def _repr_latex_(self): return "$x$"
    def __repr__(self): return "plain"
Rich()""")
    r = execution.results[0]
    assert (r.text, r.html, r.markdown, r.svg, r.latex) == ("plain", "<b>html</b>", "*md*", "<svg/>", "$x$"), r
    assert r.json == {"a": [1, None]} and r.png.strip() == "cG5nIGJ5dGVz", r
    assert {"html", "markdown", "svg", "png", "json", "latex"} <= set(r.formats())


@case("run_code", "display() gives more than one result")
async def _(box):
    execution = await run(box, "from IPython.display import display, HTML\ndisplay(HTML('<i>1</i>'))\n'last'")
    assert [r.html for r in execution.results] == ["<i>1</i>", None], execution
    assert [r.is_main_result for r in execution.results] == [False, True]


@case("run_code(language=)", "javascript, bash, an unknown one")
async def _(box):
    assert (await run(box, "const a = [1, 2]; a.length + 40", language="javascript")).text == "42"
    assert "".join((await run(box, "echo $((40 + 2))", language="bash")).logs.stdout) == "42\n"
    await refused(Exception, box.run_code, "1", language="cobol-of-4711")


@case("run_code(language=)", "differs: typescript, r, java are not there")
async def _(box):
    for language in ("typescript", "r", "java"):
        await refused(Exception, box.run_code, "1", language=language)


@case("run_code", "language and context together are refused")
async def _(box):
    context = await done(box.create_code_context())
    await refused(InvalidArgumentException, box.run_code, "1", language="python", context=context)


@case("create_code_context", "its own state and folder")
async def _(box):
    context = await done(box.create_code_context(cwd="/tmp", language="python"))
    assert context.id and context.cwd == "/tmp" and context.language == "python", context
    assert (await run(box, "import os; os.getcwd()", context=context)).text == "'/tmp'"
    await run(box, "only = 1", context=context)
    assert (await run(box, "only")).error.name == "NameError"
    assert (await run(box, "only", context=context)).text == "1"


@case("list_code_contexts", "those that were made, and the default one")
async def _(box):
    made = await done(box.create_code_context())
    found = await done(box.list_code_contexts())
    assert made.id in [c.id for c in found] and len(found) >= 2, found
    assert {"python"} <= {c.language for c in found}


@case("restart_code_context", "forgets what was defined")
async def _(box):
    context = await done(box.create_code_context())
    await run(box, "gone = 1", context=context)
    await done(box.restart_code_context(context))
    assert (await run(box, "gone", context=context)).error.name == "NameError"
    await done(box.restart_code_context(context.id))


@case("remove_code_context", "then it is unknown")
async def _(box):
    context = await done(box.create_code_context())
    await done(box.remove_code_context(context))
    assert context.id not in [c.id for c in await done(box.list_code_contexts())]
    await refused(Exception, box.run_code, "1", context=context)


@case("run_code", "many at once in their own contexts")
async def _(box):
    contexts = [await done(box.create_code_context()) for _ in range(3)]
    if ASYNC:
        texts = [e.text for e in await asyncio.gather(*(box.run_code(f"{n} * 7", context=c)
                                                        for n, c in enumerate(contexts)))]
    else:
        texts = [box.run_code(f"{n} * 7", context=c).text for n, c in enumerate(contexts)]
    assert texts == ["0", "7", "14"]


@case("run_code", "files and commands see what the code did")
async def _(box):
    await run(box, "open('by-code.txt', 'w').write('written')")
    assert await done(box.files.read("by-code.txt")) == "written"
    assert (await done(box.commands.run("cat by-code.txt"))).stdout == "written"


asyncio.run(run_all(VERSION, Sandbox.create, sys.argv[2:]))
