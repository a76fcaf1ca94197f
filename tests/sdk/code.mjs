// Every documented call of the npm package @e2b/code-interpreter that e2b does not have.
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { assert, refused, runAll, same, test } from './report.mjs'

const require = createRequire(process.cwd() + '/')
const { InvalidArgumentError, Sandbox, TimeoutError } = require('@e2b/code-interpreter')
const version = JSON.parse(readFileSync('node_modules/@e2b/code-interpreter/package.json')).version

test('run_code', 'the value of the last expression; state stays', async (box) => {
  await box.runCode('x = 1')
  const execution = await box.runCode('x += 1; x')
  same([execution.text, execution.results[0].isMainResult, execution.error], ['2', true, undefined])
  same((await box.runCode('y = 1')).results, [])
})

test('run_code', 'output, by the result and by callbacks', async (box) => {
  const out = [], err = [], results = []
  const execution = await box.runCode("import sys\nprint('a')\nprint('b', file=sys.stderr)\n40 + 2", {
    onStdout: (m) => out.push(m.line), onStderr: (m) => err.push(m.line), onResult: (r) => results.push(r.text),
  })
  same([execution.logs.stdout.join(''), out.join(''), execution.logs.stderr.join(''), err.join(''), results],
    ['a\n', 'a\n', 'b\n', 'b\n', ['42']])
})

test('run_code', 'an error has name, value and traceback', async (box) => {
  const errors = []
  const { error } = await box.runCode('def f():\n    return 1 / 0\nf()', { onError: (e) => errors.push(e.name) })
  same([error.name, error.value, errors], ['ZeroDivisionError', 'division by zero', ['ZeroDivisionError']])
  assert(error.traceback.includes('return 1 / 0'), error.traceback)
})

test('run_code', 'environment of a run, of the sandbox', async (box) => {
  const code = "import os; os.environ.get('RUN_VARIABLE')"
  same((await box.runCode(code, { envs: { RUN_VARIABLE: 'set' } })).text, "'set'")
  same((await box.runCode(code)).results, [])
})

test('run_code', 'a time limit; the context goes on', async (box) => {
  await box.runCode('kept = 4711')
  await refused(TimeoutError, () => box.runCode('import time; time.sleep(1000)', { timeoutMs: 1000 }))
  same((await box.runCode('kept', { timeoutMs: 60_000 })).text, '4711')
})

test('run_code', 'rich results: html, markdown, svg, png, json, latex', async (box) => {
  const execution = await box.runCode(`
class Rich:
    def _repr_html_(self): return "<b>html</b>"
    def _repr_markdown_(self): return "*md*"
    def _repr_svg_(self): return "<svg/>"
    def _repr_png_(self): return b"png bytes"
    def _repr_json_(self): return {"a": [1, None]}
    def _repr_latex_(self): return "$x$"
    def __repr__(self): return "plain"
Rich()`)
  const r = execution.results[0]
  same([r.text, r.html, r.markdown, r.svg, r.latex, r.json, r.png.trim()],
    ['plain', '<b>html</b>', '*md*', '<svg/>', '$x$', { a: [1, null] }, 'cG5nIGJ5dGVz'])
})

test('run_code(language=)', 'javascript, bash, an unknown one', async (box) => {
  same((await box.runCode('const a = [1, 2]; a.length + 40', { language: 'javascript' })).text, '42')
  same((await box.runCode('echo $((40 + 2))', { language: 'bash' })).logs.stdout.join(''), '42\n')
  await refused(Error, () => box.runCode('1', { language: 'cobol-of-4711' }))
})

test('run_code(language=)', 'differs: typescript, r, java are not there', async (box) => {
  for (const language of ['typescript', 'r', 'java']) await refused(Error, () => box.runCode('1', { language }))
})

test('run_code', 'language and context together are refused', async (box) => {
  const context = await box.createCodeContext()
  await refused(InvalidArgumentError, () => box.runCode('1', { language: 'python', context }))
})

test('create_code_context', 'its own state and folder', async (box) => {
  const context = await box.createCodeContext({ cwd: '/tmp', language: 'python' })
  same([context.cwd, context.language, typeof context.id], ['/tmp', 'python', 'string'])
  same((await box.runCode('import os; os.getcwd()', { context })).text, "'/tmp'")
  await box.runCode('only = 1', { context })
  same((await box.runCode('only')).error.name, 'NameError')
  same((await box.runCode('only', { context })).text, '1')
})

test('list_code_contexts', 'those that were made, and the default one', async (box) => {
  const made = await box.createCodeContext()
  const found = await box.listCodeContexts()
  assert(found.some((c) => c.id === made.id) && found.length >= 2 && found.some((c) => c.language === 'python'), found)
})

test('restart_code_context', 'forgets what was defined', async (box) => {
  const context = await box.createCodeContext()
  await box.runCode('gone = 1', { context })
  await box.restartCodeContext(context)
  same((await box.runCode('gone', { context })).error.name, 'NameError')
})

test('remove_code_context', 'then it is unknown', async (box) => {
  const context = await box.createCodeContext()
  await box.removeCodeContext(context)
  assert(!(await box.listCodeContexts()).some((c) => c.id === context.id))
  await refused(Error, () => box.runCode('1', { context }))
})

test('run_code', 'many at once in their own contexts', async (box) => {
  const contexts = [await box.createCodeContext(), await box.createCodeContext(), await box.createCodeContext()]
  const all = await Promise.all(contexts.map((context, n) => box.runCode(`${n} * 7`, { context })))
  same(all.map((e) => e.text), ['0', '7', '14'])
})

await runAll(version, () => Sandbox.create())
