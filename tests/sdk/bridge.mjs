// The JavaScript SDK behind lines of JSON, as bridge.py says. The package is that of the folder that this is run in.
import { createRequire } from 'node:module'
import { createInterface } from 'node:readline'

const require = createRequire(process.cwd() + '/')
const { CommandExitError, NotFoundError, Sandbox } = require('@e2b/code-interpreter')

const PIECE = 262144
const boxes = new Map(), running = new Map()

/** A promise and what ends it. */
function gate() {
  let open
  const promise = new Promise((then) => (open = then))
  return { promise, open }
}

class Call {
  constructor(id, paused) {
    this.id = id
    this.started = gate()
    this.mayRead = gate()
    if (!paused) this.mayRead.open()
    this.giveUp = null // how the SDK gives up what runs
    this.cancelled = false
  }

  say(what) {
    process.stdout.write(JSON.stringify({ id: this.id, ...what }) + '\n')
  }

  event(event) {
    this.say({ event })
    this.started.open()
  }

  taker(channel) {
    return async (piece) => {
      await this.started.promise
      await this.mayRead.promise
      this.say({ channel, data: Buffer.from(piece).toString('base64') })
    }
  }

  /** Keeps how a call that has begun is given up, and does so when that was asked before. */
  async begun(giveUp) {
    this.giveUp = giveUp
    if (this.cancelled) await giveUp()
  }

  async cancel() {
    this.cancelled = true
    this.mayRead.open()
    if (this.giveUp) await this.giveUp()
  }
}

async function boxOf(p) {
  if (!boxes.has(p.sandboxId)) boxes.set(p.sandboxId, await Sandbox.connect(p.sandboxId))
  return boxes.get(p.sandboxId)
}

const ms = (p, otherwise) => (p.timeout === undefined ? otherwise : { timeoutMs: p.timeout * 1000 })

function given(p, ...names) {
  return Object.fromEntries(names.filter((name) => name in p).map((name) => [name, p[name]]))
}

const described = (info) => ({
  id: info.sandboxId, state: info.state, metadata: info.metadata, createdAt: info.startedAt, expiresAt: info.endAt,
  template: info.templateId,
})

async function known(box) {
  boxes.set(box.sandboxId, box)
  return described(await Sandbox.getInfo(box.sandboxId))
}

async function pages(paginator) {
  const found = []
  while (paginator.hasNext) found.push(...(await paginator.nextItems()))
  return found
}

/** exitCode, and error: what the SDK says of a process that did not end by itself. */
async function ended(handle) {
  try {
    const { exitCode, error } = await handle.wait()
    return { exitCode, error }
  } catch (e) {
    if (!(e instanceof CommandExitError)) throw e
    return { exitCode: e.exitCode, error: e.error }
  }
}

async function send(box, pid, data) {
  for (let at = 0; at < data.length; at += PIECE) await box.commands.sendStdin(pid, data.subarray(at, at + PIECE))
}

/** After data a process may have ended by itself. */
async function close(box, pid, data) {
  try {
    await box.commands.closeStdin(pid)
  } catch (e) {
    if (!(e instanceof NotFoundError) || !data?.length) throw e
  }
}

const entry = (e) => ({
  path: e.path, name: e.name, type: e.type, size: e.size, mode: e.mode, owner: e.owner, group: e.group, modifiedAt: e.modifiedTime,
  target: e.symlinkTarget,
})
const contextEntry = (c) => ({ id: c.id, language: c.language, cwd: c.cwd })

const CALLS = {
  async 'sandbox.create'(call, p) {
    const opts = { ...given(p, 'metadata', 'envs'), ...ms(p) }
    if ('onTimeout' in p) opts.lifecycle = { onTimeout: p.onTimeout }
    return known(await (p.template ? Sandbox.create(p.template, opts) : Sandbox.create(opts)))
  },
  'sandbox.info': async (call, p) => described(await Sandbox.getInfo(p.sandboxId)),
  async 'sandbox.list'(call, p) {
    return { sandboxes: (await pages(Sandbox.list({ query: given(p, 'metadata') }))).map(described) }
  },
  'sandbox.kill': async (call, p) => ({ done: await Sandbox.kill(p.sandboxId) }),
  async 'sandbox.set_timeout'(call, p) {
    await Sandbox.setTimeout(p.sandboxId, p.timeout * 1000)
    return described(await Sandbox.getInfo(p.sandboxId))
  },
  'sandbox.connect': async (call, p) => known(await Sandbox.connect(p.sandboxId, ms(p))),
  'sandbox.pause': async (call, p) => ({ paused: await Sandbox.pause(p.sandboxId) }),
  async 'sandbox.snapshot_create'(call, p) {
    const made = await Sandbox.createSnapshot(p.sandboxId, given(p, 'name'))
    return { id: made.snapshotId, names: made.names }
  },
  async 'sandbox.snapshot_list'() {
    return { snapshots: (await pages(Sandbox.listSnapshots())).map((s) => ({ id: s.snapshotId, names: s.names })) }
  },
  'sandbox.snapshot_remove': async (call, p) => ({ done: await Sandbox.deleteSnapshot(p.snapshotId) }),
  async 'sandbox.metrics'(call, p) {
    const { timestamp, cpuCount, cpuUsedPct, memUsed, memTotal } = (await Sandbox.getMetrics(p.sandboxId)).at(-1)
    return { timestamp, cpuCount, cpuUsedPct, memUsed, memTotal }
  },

  async 'process.start'(call, p, data) {
    const box = await boxOf(p)
    const handle = await box.commands.run(p.cmd, {
      background: true, ...ms(p, { timeoutMs: 0 }), onStdout: call.taker('stdout'), onStderr: call.taker('stderr'),
      ...given(p, 'envs', 'cwd', 'user', 'stdin'),
    })
    if (p.background) {
      call.started.open()
      await handle.disconnect()
      return { id: handle.pid }
    }
    await call.begun(() => (p.detach ? handle.disconnect() : handle.kill()))
    call.event({ type: 'started', id: handle.pid })
    if (data) {
      await send(box, handle.pid, data)
      await close(box, handle.pid, data)
    }
    return ended(handle)
  },
  async 'process.attach'(call, p) {
    const handle = await (await boxOf(p)).commands.connect(p.pid, {
      timeoutMs: 0, onStdout: call.taker('stdout'), onStderr: call.taker('stderr'),
    })
    await call.begun(() => handle.disconnect())
    call.event({ type: 'started', id: handle.pid })
    return ended(handle)
  },
  async 'process.list'(call, p) {
    const found = await (await boxOf(p)).commands.list()
    return { processes: found.map((one) => ({ id: one.pid, cmd: one.cmd, args: one.args, cwd: one.cwd })) }
  },
  'process.signal': async (call, p) => ({ done: await (await boxOf(p)).commands.kill(p.pid) }),
  async 'process.stdin'(call, p, data) {
    const box = await boxOf(p)
    await send(box, p.pid, data ?? Buffer.alloc(0))
    if (p.close) await close(box, p.pid, data)
  },

  async 'pty.open'(call, p) {
    const handle = await (await boxOf(p)).pty.create({
      timeoutMs: 0, onData: call.taker('pty'), ...given(p, 'rows', 'cols', 'envs', 'cwd', 'user'),
    })
    await call.begun(() => handle.kill())
    call.event({ type: 'started', id: handle.pid })
    return ended(handle)
  },
  'pty.write': async (call, p, data) => (await boxOf(p)).pty.sendInput(p.pid, data),
  'pty.resize': async (call, p) => (await boxOf(p)).pty.resize(p.pid, given(p, 'cols', 'rows')),
  'pty.close': async (call, p) => ({ done: await (await boxOf(p)).pty.kill(p.pid) }),

  async 'fs.read'(call, p) {
    call.started.open()
    const take = call.taker('body')
    let size = 0
    for await (const piece of await (await boxOf(p)).files.read(p.path, { format: 'stream', ...given(p, 'user') })) {
      await take(piece)
      size += piece.length
      if (call.cancelled) break
    }
    return { size }
  },
  async 'fs.write'(call, p, data) {
    const { files } = await boxOf(p)
    const whole = data ? data.buffer.slice(data.byteOffset, data.byteOffset + data.length) : ''
    const { path } = await files.write(p.path, whole, given(p, 'user'))
    return { path, size: (await files.getInfo(path, given(p, 'user'))).size }
  },
  'fs.stat': async (call, p) => entry(await (await boxOf(p)).files.getInfo(p.path, given(p, 'user'))),
  async 'fs.list'(call, p) {
    return { files: (await (await boxOf(p)).files.list(p.path, given(p, 'depth', 'user'))).map(entry) }
  },
  'fs.make_dir': async (call, p) => ({ created: await (await boxOf(p)).files.makeDir(p.path, given(p, 'user')) }),
  'fs.rename': async (call, p) => entry(await (await boxOf(p)).files.rename(p.from, p.to, given(p, 'user'))),
  'fs.remove': async (call, p) => (await boxOf(p)).files.remove(p.path, given(p, 'user')),
  async 'fs.watch'(call, p) {
    const over = gate()
    const handle = await (await boxOf(p)).files.watchDir(p.path, async (event) => {
      await call.started.promise
      call.event({ type: 'change', kind: event.type, name: event.name })
    }, { timeoutMs: 0, onExit: over.open, ...given(p, 'recursive', 'user') })
    await call.begun(async () => {
      await handle.stop()
      over.open()
    })
    call.event({ type: 'started' })
    const error = await over.promise
    if (error) throw error
  },

  async 'code.run'(call, p) {
    call.event({ type: 'started' })
    const shown = (channel) => (m) => call.say({ channel, data: Buffer.from(m.line).toString('base64') })
    await (await boxOf(p)).runCode(p.code, {
      ...given(p, 'language', 'envs'), ...ms(p), ...('contextId' in p ? { context: { id: p.contextId } } : {}),
      onStdout: shown('stdout'), onStderr: shown('stderr'),
      onResult: (r) => call.event({ type: 'result', isMainResult: r.isMainResult, text: r.text, html: r.html }),
      onError: (e) => call.event({ type: 'error', name: e.name, value: e.value, traceback: e.traceback }),
    })
  },
  'code.context_create': async (call, p) => contextEntry(await (await boxOf(p)).createCodeContext(given(p, 'language', 'cwd'))),
  'code.context_list': async (call, p) => ({ contexts: (await (await boxOf(p)).listCodeContexts()).map(contextEntry) }),
  'code.context_restart': async (call, p) => (await boxOf(p)).restartCodeContext(p.contextId),
  'code.context_remove': async (call, p) => (await boxOf(p)).removeCodeContext(p.contextId),
}

async function run(call, line) {
  let answer
  try {
    const data = 'input' in line ? Buffer.from(line.input, 'base64') : undefined
    const result = await CALLS[line.call](call, line.params, data)
    answer = { result: result ?? {} }
  } catch (e) {
    answer = { error: { class: e?.constructor?.name, message: String(e?.message) } }
  }
  if (call.cancelled) answer = { error: { class: 'GivenUp', message: 'given up' } }
  running.delete(call.id)
  call.say(answer)
}

for await (const text of createInterface({ input: process.stdin })) {
  const line = JSON.parse(text)
  if (line.call) {
    const call = new Call(line.id, line.paused)
    running.set(line.id, call)
    run(call, line)
    continue
  }
  const call = running.get(line.id)
  if (!call) continue
  if (line.do === 'cancel') call.cancel().catch(() => {})
  else if (line.do === 'pause') call.mayRead = gate()
  else call.mayRead.open()
}
process.exit(0)
