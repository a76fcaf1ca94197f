// Every documented call of the npm package e2b but the code interpreter's.
import { createRequire } from 'node:module'
import { request } from 'node:http'
import { assert, refused, runAll, same, test, until } from './report.mjs'

// The package is that of the folder that this is run in.
const require = createRequire(process.cwd() + '/')
const e2b = require('e2b')
const version = JSON.parse(require('node:fs').readFileSync('node_modules/e2b/package.json')).version
const { Sandbox, AuthenticationError, CommandExitError, InvalidArgumentError, NotFoundError, SandboxError, TimeoutError } = e2b
const Missing = e2b.FileNotFoundError ?? NotFoundError
const Gone = e2b.SandboxNotFoundError ?? NotFoundError
const UNKNOWN = 'iunknown0000000000000'

async function fresh(opts, body, template) {
  const box = template ? await Sandbox.create(template, opts) : await Sandbox.create(opts)
  try {
    return await body(box)
  } finally {
    await box.kill()
  }
}

const sh = async (box, command, opts) => (await box.commands.run(command, opts)).stdout
const text = (bytes) => new TextDecoder().decode(bytes)

async function pages(paginator) {
  const found = []
  while (paginator.hasNext) found.push(await paginator.nextItems())
  return found
}

// --- Sandbox ----------------------------------------------------------------------------------------------------

test('Sandbox.create', 'the default template, metadata, environment and time limit', () =>
  fresh({ metadata: { purpose: 'a b&c=é' }, envs: { GREETING: 'hi there' }, timeoutMs: 600_000 }, async (box) => {
    assert(/^[a-z0-9]{12,}$/.test(box.sandboxId), box.sandboxId)
    const info = await box.getInfo()
    same(info.metadata, { purpose: 'a b&c=é' })
    const left = info.endAt - new Date()
    assert(left > 300_000 && left < 900_000, left)
    same(await sh(box, 'echo "$GREETING $E2B_SANDBOX $E2B_SANDBOX_ID"'), `hi there true ${box.sandboxId}\n`)
  }))

test('Sandbox.create', 'by the names base and code-interpreter-v1', async () => {
  for (const name of ['base', 'code-interpreter-v1']) await fresh({}, async (box) => same(await sh(box, 'echo up'), 'up\n'), name)
})

test('Sandbox.create', 'an unknown template is an error with 404', async () => {
  const e = await refused(SandboxError, () => Sandbox.create('no-such-template-4711'))
  assert(e.message.includes('404') && e.message.includes('no-such-template-4711'), e.message)
})

test('Sandbox.create', 'without a network', () =>
  fresh({ allowInternetAccess: false }, async (box) =>
    same((await sh(box, 'tail -n +3 /proc/net/dev | cut -d: -f1')).trim(), 'lo')))

test('Sandbox.create', 'a wrong key', () => refused(AuthenticationError, () => Sandbox.create({ apiKey: 'e2b_' + '0'.repeat(40) })))

test('Sandbox.create(lifecycle=)', 'on_timeout pause', () =>
  fresh({ timeoutMs: 1000, lifecycle: { onTimeout: 'pause' } }, async (box) => {
    await until(async () => (await box.getInfo()).state === 'paused')
    assert(!(await box.isRunning()))
    same(await sh(await Sandbox.connect(box.sandboxId, { timeoutMs: 300_000 }), 'echo on'), 'on\n')
  }))

test('Sandbox.create(lifecycle=)', 'without: killed at the end of its time', async () => {
  const box = await Sandbox.create({ timeoutMs: 1000 })
  await until(async () => !(await box.isRunning()))
  await refused(Gone, () => box.getInfo())
  await refused(Error, () => box.commands.run('true'))
})

test('Sandbox.create(mcp=)', 'is refused', () => refused(SandboxError, () => Sandbox.create({ mcp: { browserbase: {} } })))

test('Sandbox.create(volume_mounts=)', 'is refused', () =>
  refused(SandboxError, () => Sandbox.create({ volumeMounts: { '/data': 'volume' } })))

test('Sandbox.create(network=)', 'differs: everything denied; rules for single hosts are refused', async () => {
  await fresh({ network: { denyOut: ['0.0.0.0/0'] } }, async (box) =>
    same((await sh(box, 'tail -n +3 /proc/net/dev | cut -d: -f1')).trim(), 'lo'))
  await refused(SandboxError, () => Sandbox.create({ network: { allowOut: ['192.0.2.1'], denyOut: ['0.0.0.0/0'] } }))
})

test('Sandbox.update_network', 'is refused', (box) => refused(SandboxError, () => box.updateNetwork({ denyOut: ['192.0.2.1'] })))

test('Template.exists', 'a name that is there, one that is not', async () =>
  same([await e2b.Template.exists('base'), await e2b.Template.exists('no-such-template-4711')], [true, false]))

test('Template.build', 'is refused', () => refused(Error, () => e2b.Template.build(e2b.Template().fromBaseImage(), 'mine')))

test('Volume.create', 'is refused', () => refused(Error, () => e2b.Volume.create('mine')))

test('Sandbox.connect', 'by id and from the object', async (box) => {
  const other = await Sandbox.connect(box.sandboxId)
  same(await sh(other, 'echo same > /tmp/same; cat /tmp/same'), 'same\n')
  same(await sh(await box.connect({ timeoutMs: 60_000 }), 'cat /tmp/same'), 'same\n')
})

test('Sandbox.connect', 'an unknown sandbox', async () => {
  for (const name of [UNKNOWN, 'no-such-id', 'x']) await refused(Gone, () => Sandbox.connect(name))
})

test('Sandbox.connect', 'never shortens the time that is left', () =>
  fresh({ timeoutMs: 900_000 }, async (box) => {
    const before = (await box.getInfo()).endAt
    await box.connect({ timeoutMs: 30_000 })
    same((await box.getInfo()).endAt, before)
    await box.connect({ timeoutMs: 3_000_000 })
    assert((await box.getInfo()).endAt > before)
  }))

test('Sandbox.list', 'pages, filter by metadata and state, order', async () => {
  const list = 'js' + version
  const boxes = []
  for (const n of [0, 1, 2]) boxes.push(await Sandbox.create({ metadata: { list, n: String(n) } }))
  try {
    const found = await pages(Sandbox.list({ query: { metadata: { list } }, limit: 2 }))
    same(found.map((page) => page.length), [2, 1])
    same(found.flat().map((x) => x.sandboxId).sort(), boxes.map((b) => b.sandboxId).sort())
    const started = found.flat().map((x) => +x.startedAt)
    same(started, [...started].sort((a, b) => b - a))
    const one = await pages(Sandbox.list({ query: { metadata: { list, n: '1' }, state: ['running'] } }))
    same(one.flat().map((x) => x.metadata.n), ['1'])
    await boxes[2].pause()
    const paused = await pages(Sandbox.list({ query: { metadata: { list }, state: ['paused'] } }))
    same(paused.flat().map((x) => x.sandboxId), [boxes[2].sandboxId])
  } finally {
    for (const b of boxes) await b.kill()
  }
})

test('Sandbox.get_info', 'of the object and by id', async (box) => {
  const info = await box.getInfo()
  assert(info.sandboxId === box.sandboxId && info.state === 'running' && info.templateId, info)
  assert(info.cpuCount >= 1 && info.memoryMB > 0 && info.startedAt < info.endAt, info)
  same((await Sandbox.getInfo(box.sandboxId)).sandboxId, box.sandboxId)
  await refused(Gone, () => Sandbox.getInfo(UNKNOWN))
})

test('Sandbox.kill', 'true once, then false', async () => {
  const box = await Sandbox.create()
  same([await box.kill(), await box.kill(), await Sandbox.kill(UNKNOWN)], [true, false, false])
})

test('Sandbox.kill', 'a call in flight ends as a timeout', async () => {
  const box = await Sandbox.create()
  const handle = await box.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
  await Sandbox.kill(box.sandboxId)
  await refused(TimeoutError, () => handle.wait())
})

test('Sandbox.set_timeout', 'longer, shorter, by id, unknown', async () => {
  await fresh({ timeoutMs: 600_000 }, async (box) => {
    await box.setTimeout(3_000_000)
    const long = (await box.getInfo()).endAt
    await Sandbox.setTimeout(box.sandboxId, 300_000)
    assert(long - (await box.getInfo()).endAt > 2_000_000)
  })
  await refused(Gone, () => Sandbox.setTimeout(UNKNOWN, 60_000))
})

test('Sandbox.is_running', 'true, false once killed', async () => {
  const box = await Sandbox.create()
  same(await box.isRunning(), true)
  await box.kill()
  same(await box.isRunning(), false)
})

test('Sandbox.pause', 'processes and files go on after connect; twice is false', async () => {
  await fresh({}, async (box) => {
    const job = await box.commands.run('X=kept; read line; echo $X $line', { background: true, stdin: true, timeoutMs: 0 })
    job.wait().catch(() => {})
    await box.files.write('kept.txt', 'kept')
    assert((await box.pause()) !== false)
    same([await box.isRunning(), await Sandbox.pause(box.sandboxId)], [false, false])
    await box.connect()
    same([await box.isRunning(), await box.files.read('kept.txt')], [true, 'kept'])
    const again = await box.commands.connect(job.pid)
    await box.commands.sendStdin(job.pid, 'on\n')
    same((await again.wait()).stdout, 'kept on\n')
  })
  await refused(Gone, () => Sandbox.pause(UNKNOWN))
})

test('Sandbox.pause(keep_memory=False)', 'files stay, processes do not', () =>
  fresh({}, async (box) => {
    const job = await box.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    job.wait().catch(() => {})
    await box.files.write('kept.txt', 'kept')
    await box.pause({ keepMemory: false })
    await box.connect()
    same(await box.files.read('kept.txt'), 'kept')
    assert(!(await box.commands.list()).some((p) => p.pid === job.pid))
  }))

test('Sandbox.fork', 'differs: copies of the files, each its own afterwards, and not of the processes', async () => {
  await fresh({}, async (box) => {
    await box.files.write('f.txt', 'before')
    await box.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    const copies = await box.fork({ count: 2 })
    try {
      same(new Set([box, ...copies].map((b) => b.sandboxId)).size, 3)
      await copies[0].files.write('f.txt', 'after')
      same([await copies[1].files.read('f.txt'), await box.files.read('f.txt')], ['before', 'before'])
      same([await copies[1].commands.list(), (await box.commands.list()).length], [[], 1])
    } finally {
      for (const c of copies) await c.kill()
    }
  })
  await refused(Gone, () => Sandbox.fork(UNKNOWN))
})

test('Sandbox.create_snapshot', 'differs: several sandboxes from one, without its processes; list; delete', async () => {
  const id = await fresh({}, async (box) => {
    await box.files.write('s.txt', 'in the snapshot')
    await box.commands.run('sleep 1000', { background: true, timeoutMs: 0 })
    const { snapshotId } = await box.createSnapshot()
    await box.files.write('s.txt', 'later')
    for (const _ of [0, 1]) {
      await fresh({}, async (copy) => same([await copy.files.read('s.txt'), await copy.commands.list()], ['in the snapshot', []]), snapshotId)
    }
    same((await pages(box.listSnapshots())).flat().map((x) => x.snapshotId), [snapshotId])
    same([await Sandbox.deleteSnapshot(snapshotId), await Sandbox.deleteSnapshot(snapshotId)], [true, false])
    return snapshotId
  })
  await refused(SandboxError, () => Sandbox.create(id))
})

test('Sandbox.get_metrics', 'a sample; an empty list before its life', async (box) => {
  const [first] = await until(async () => {
    const found = await box.getMetrics()
    return found.length && found
  })
  assert(first.cpuCount >= 1 && first.memTotal > 0 && first.memUsed > 0 && first.diskTotal > 0, first)
  same(await box.getMetrics({ start: new Date('2020-01-01'), end: new Date('2020-01-02') }), [])
})

test('Sandbox.get_host', 'differs: a server inside answers to its host name in the header', async (box) => {
  const job = await box.commands.run('mkdir -p /tmp/www; echo served > /tmp/www/i; exec python3 -m http.server 8124 -d /tmp/www',
    { background: true, timeoutMs: 0 })
  job.wait().catch(() => {})
  const host = box.getHost(8124)
  assert(host.startsWith(`8124-${box.sandboxId}.`), host)
  const door = new URL(process.env.E2B_SANDBOX_URL ?? process.env.E2B_API_URL)
  const get = () => new Promise((then) => {
    request({ host: door.hostname, port: door.port, path: '/i', headers: { host } }, async (answer) => {
      let body = ''
      for await (const piece of answer) body += piece
      then(`${answer.statusCode} ${body}`)
    }).on('error', then).end()
  })
  await until(async () => (await get()) === '200 served\n')
  await job.kill()
})

test('Sandbox.download_url', 'a signed URL; a wrong signature; an expired one', async (box) => {
  await box.files.write('url.txt', 'by url')
  const url = await box.downloadUrl('url.txt')
  same(await (await fetch(url)).text(), 'by url')
  same((await fetch(await box.downloadUrl('url.txt', { useSignatureExpiration: 120_000 }))).status, 200)
  same((await fetch(url.replace('url.txt', 'other.txt'))).status, 401)
})

test('Sandbox.upload_url', 'a signed URL takes a file', async (box) => {
  const form = () => {
    const f = new FormData()
    f.append('file', new Blob(['uploaded']), 'up.txt')
    return f
  }
  const url = await box.uploadUrl('up.txt')
  same((await fetch(url, { method: 'POST', body: form() })).status, 200)
  same(await box.files.read('up.txt'), 'uploaded')
  same((await fetch(url.replace('up.txt', 'no.txt'), { method: 'POST', body: form() })).status, 401)
})

// --- commands -----------------------------------------------------------------------------------------------------

test('commands.run', 'output, streams, exit code', async (box) => {
  let out = '', err = ''
  const result = await box.commands.run('echo out; echo err >&2', { onStdout: (x) => void (out += x), onStderr: (x) => void (err += x) })
  same([result.stdout, result.stderr, result.exitCode, out, err], ['out\n', 'err\n', 0, 'out\n', 'err\n'])
})

test('commands.run', 'a code that is not 0 raises, with streams', async (box) => {
  const e = await refused(CommandExitError, () => box.commands.run('echo some; echo bad >&2; exit 7'))
  same([e.exitCode, e.stdout, e.stderr], [7, 'some\n', 'bad\n'])
})

test('commands.run', 'environment, folder, user', async (box) => {
  same(await sh(box, 'echo "$A"', { envs: { A: '1 2' } }), '1 2\n')
  same(await sh(box, 'pwd', { cwd: '/tmp' }), '/tmp\n')
  same(await sh(box, 'whoami; echo $HOME'), 'user\n/home/user\n')
  same(await sh(box, 'whoami', { user: 'root' }), 'root\n')
  await refused(InvalidArgumentError, () => box.commands.run('true', { cwd: '/no/such/folder' }))
  await refused(AuthenticationError, () => box.commands.run('true', { user: 'nobody-of-this-name' }))
})

test('commands.run', 'text that is no ASCII, and much of it', async (box) => {
  same(await sh(box, "printf 'äöü 中文 \\xff'"), 'äöü 中文 \ufffd')
  same((await sh(box, "head -c 3000000 /dev/zero | tr '\\0' x")).length, 3000000)
})

test('commands.run', 'differs: a time limit ends it and all that it started', async (box) => {
  await refused(TimeoutError, () => box.commands.run('sleep 5711 & sleep 5712', { timeoutMs: 500 }))
  await until(async () => (await sh(box, "ps -eo args | grep -c '[s]leep 571' || true")).trim() === '0')
})

test('commands.run', 'differs: a background child that holds the pipe does not delay the end', async (box) => {
  same(await sh(box, 'sleep 300 & echo over'), 'over\n')
  await sh(box, "pkill -f 'sleep 300'")
})

test('commands.run(background=True)', 'wait, iterate, kill', async (box) => {
  const handle = await box.commands.run('echo a; sleep 0.1; echo b >&2; exit 3', { background: true })
  assert(handle.pid > 0)
  const e = await refused(CommandExitError, () => handle.wait())
  same([e.exitCode, e.stdout, e.stderr, handle.exitCode, handle.stdout], [3, 'a\n', 'b\n', 3, 'a\n'])
  const long = await box.commands.run('sleep 1000', { background: true })
  same(await long.kill(), true)
  same((await refused(CommandExitError, () => long.wait())).exitCode, -1)
  same(await long.kill(), false)
})

test('commands.list', 'what runs, with its command and folder', async (box) => {
  const handle = await box.commands.run('sleep 1001', { background: true, envs: { L: '1' }, cwd: '/tmp' })
  handle.wait().catch(() => {})
  const found = (await box.commands.list()).filter((p) => p.pid === handle.pid)
  same([found.length, found[0].args.at(-1), found[0].cmd, found[0].cwd, found[0].envs.L], [1, 'sleep 1001', '/bin/bash', '/tmp', '1'])
  await handle.kill()
  await until(async () => !(await box.commands.list()).some((p) => p.pid === handle.pid))
})

test('commands.kill', 'true, false for an unknown one', async (box) => {
  const handle = await box.commands.run('sleep 1002', { background: true })
  same([await box.commands.kill(handle.pid), await box.commands.kill(999999)], [true, false])
  await refused(CommandExitError, () => handle.wait())
})

test('commands.connect', 'two readers; after disconnect; an unknown one', async (box) => {
  const first = await box.commands.run('read x; echo got $x', { background: true, stdin: true })
  const second = await box.commands.connect(first.pid)
  first.wait().catch(() => {})
  await first.disconnect()
  await box.commands.sendStdin(first.pid, 'it\n')
  same((await second.wait()).stdout, 'got it\n')
  await refused(NotFoundError, () => box.commands.connect(999999))
})

test('commands.send_stdin', 'text and bytes, then close_stdin', async (box) => {
  const handle = await box.commands.run('cat', { background: true, stdin: true })
  await box.commands.sendStdin(handle.pid, 'one\n')
  await box.commands.sendStdin(handle.pid, new TextEncoder().encode('two\n'))
  await box.commands.closeStdin(handle.pid)
  same((await handle.wait()).stdout, 'one\ntwo\n')
  await refused(NotFoundError, () => box.commands.sendStdin(999999, 'x'))
})

test('commands.close_stdin', 'by the handle', async (box) => {
  const handle = await box.commands.run('wc -c', { background: true, stdin: true })
  await handle.sendStdin('12345')
  await handle.closeStdin()
  same((await handle.wait()).stdout, '5\n')
})

// --- pty ------------------------------------------------------------------------------------------------------------

async function screen(box, opts, body) {
  let seen = ''
  const handle = await box.pty.create({ cols: 80, rows: 24, onData: (data) => void (seen += text(data)), ...opts })
  const type = (keys) => box.pty.sendInput(handle.pid, new TextEncoder().encode(keys))
  await body(handle, type)
  await type('exit 0\n')
  const { exitCode } = await handle.wait()
  return { seen, exitCode }
}

test('pty.create', 'a shell of the user, with environment, folder and size', async (box) => {
  const { seen, exitCode } = await screen(box, { envs: { P: 'set' }, cwd: '/tmp' }, (handle, type) =>
    type('stty size; echo $P-$PWD-$TERM; tty\n'))
  same(exitCode, 0)
  for (const part of ['24 80', 'set-/tmp-xterm-256color', '/dev/pts/']) assert(seen.includes(part), seen)
})

test('pty.resize', 'the program inside sees it', async (box) => {
  const { seen } = await screen(box, {}, async (handle, type) => {
    await box.pty.resize(handle.pid, { cols: 111, rows: 33 })
    await type('stty size\n')
  })
  assert(seen.includes('33 111'), seen)
})

test('pty.kill', 'true, then false', async (box) => {
  const handle = await box.pty.create({ cols: 80, rows: 24, onData: () => {} })
  same(await box.pty.kill(handle.pid), true)
  await refused(CommandExitError, () => handle.wait())
  same(await box.pty.kill(handle.pid), false)
})

test('pty.connect', 'goes on where another left', async (box) => {
  const first = await box.pty.create({ cols: 80, rows: 24, onData: () => {} })
  await box.pty.sendInput(first.pid, new TextEncoder().encode('V=kept\n'))
  first.wait().catch(() => {})
  await first.disconnect()
  let seen = ''
  const second = await box.pty.connect(first.pid, { onData: (data) => void (seen += text(data)) })
  await box.pty.sendInput(first.pid, new TextEncoder().encode('echo V=$V; exit\n'))
  await second.wait()
  assert(seen.includes('V=kept\r\n'), seen)
})

// --- files ------------------------------------------------------------------------------------------------------------

test('files.write', 'text, bytes, a file, and what it answers', async (box) => {
  const made = await box.files.write('w/deep/text.txt', 'é text')
  same([made.name, made.path, made.type], ['text.txt', '/home/user/w/deep/text.txt', 'file'])
  same(await box.files.read('w/deep/text.txt'), 'é text')
  await box.files.write('/tmp/bytes', new Uint8Array([0, 255, 1]).buffer)
  same([...(await box.files.read('/tmp/bytes', { format: 'bytes' }))], [0, 255, 1])
  await box.files.write('blob', new Blob(['from a blob']))
  same(await box.files.read('blob'), 'from a blob')
  await box.files.write('blob', '')
  same(await box.files.read('blob'), '')
})

test('files.write', 'gzip, octet stream, 20 MB', async (box) => {
  await box.files.write('gz', 'zipped'.repeat(1000), { gzip: true })
  same(await box.files.read('gz', { gzip: true }), 'zipped'.repeat(1000))
  await box.files.write('oct', 'octets', { useOctetStream: true })
  same(await box.files.read('oct'), 'octets')
  const big = new Uint8Array(20_000_000).map((_, n) => n % 251)
  await box.files.write('big', big.buffer)
  assert(Buffer.compare(Buffer.from(await box.files.read('big', { format: 'bytes' })), Buffer.from(big)) === 0)
})

test('files.write', 'a stream', async (box) => {
  const stream = new ReadableStream({
    start(control) {
      for (let n = 0; n < 5; n++) control.enqueue(new TextEncoder().encode(String(n).repeat(100_000)))
      control.close()
    },
  })
  await box.files.write('stream', stream)
  same((await sh(box, 'wc -c < stream')).trim(), '500000')
})

test('files.write', 'differs: an upload that breaks off leaves the old file', async (box) => {
  await box.files.write('whole', 'old')
  let n = 0
  const stream = new ReadableStream({
    pull(control) {
      if (n++ < 3) control.enqueue(new Uint8Array(100_000))
      else control.error(new Error('broken off'))
    },
  })
  await box.files.write('whole', stream).then(() => assert(false, 'it was written'), () => {})
  same(await box.files.read('whole'), 'old')
})

test('files.write', 'user and owner; metadata', async (box) => {
  await box.files.write('mine', 'x')
  await box.files.write('/tmp/roots', 'x', { user: 'root' })
  same(await sh(box, 'stat -c %U mine /tmp/roots'), 'user\nroot\n')
  same((await box.files.write('meta', 'x', { metadata: { author: 'me' } })).metadata, { author: 'me' })
  same((await box.files.getInfo('meta')).metadata, { author: 'me' })
})

test('files.write', 'onto a folder', (box) => refused(InvalidArgumentError, () => box.files.write('/tmp', 'x')))

test('files.write_files', 'many at once', async (box) => {
  const names = [...Array(20).keys()]
  const made = await box.files.write(names.map((n) => ({ path: `many/${n}.txt`, data: `file ${n}` })))
  same(made.map((m) => m.path), names.map((n) => `/home/user/many/${n}.txt`))
  same(await box.files.read('many/19.txt'), 'file 19')
})

test('files.read', 'a stream; missing; a folder', async (box) => {
  await box.files.write('streamed', '0123456789'.repeat(200_000))
  let size = 0
  for await (const piece of await box.files.read('streamed', { format: 'stream' })) size += piece.length
  same(size, 2_000_000)
  same(await (await box.files.read('streamed', { format: 'blob' })).size, 2_000_000)
  await refused(Missing, () => box.files.read('missing'))
  await refused(InvalidArgumentError, () => box.files.read('/tmp'))
})

test('files.list', 'names, kinds, depth; missing; a file', async (box) => {
  await sh(box, 'mkdir -p l/b/c; echo 1 > l/a; ln -sf a l/link; echo 2 > l/b/c/deep')
  const found = await box.files.list('l')
  same(found.map((x) => [x.name, x.type]), [['a', 'file'], ['b', 'dir'], ['link', 'file']])
  same([found[0].size, found[0].owner, found[0].permissions, found[2].symlinkTarget], [2, 'user', '-rw-r--r--', '/home/user/l/a'])
  same((await box.files.list('l', { depth: 3 })).length, 5)
  await refused(Missing, () => box.files.list('missing'))
  await refused(InvalidArgumentError, () => box.files.list('l/a'))
  await refused(InvalidArgumentError, () => box.files.list('l', { depth: 0 }))
})

test('files.get_info', 'of a file, a folder, a link; missing', async (box) => {
  await sh(box, 'mkdir -p g; echo 12345 > g/f; chmod 640 g/f; ln -sf f g/l')
  const info = await box.files.getInfo('g/f')
  same([info.name, info.size, info.mode & 0o777, info.group], ['f', 6, 0o640, 'user'])
  assert(Math.abs(new Date() - info.modifiedTime) < 3_600_000, info.modifiedTime)
  same([(await box.files.getInfo('g')).type, (await box.files.getInfo('g/l')).symlinkTarget], ['dir', '/home/user/g/f'])
  await refused(Missing, () => box.files.getInfo('missing'))
})

test('files.exists', 'true, false', async (box) => same([await box.files.exists('/tmp'), await box.files.exists('/tmp/none')], [true, false]))

test('files.make_dir', 'true, then false', async (box) =>
  same([await box.files.makeDir('made/a/b'), await box.files.makeDir('made/a/b')], [true, false]))

test('files.rename', 'moves; a missing one', async (box) => {
  await box.files.write('old', 'x')
  same((await box.files.rename('old', 'renamed/new')).path, '/home/user/renamed/new')
  same(await box.files.exists('old'), false)
  await refused(Missing, () => box.files.rename('missing', 'x'))
})

test('files.remove', 'a file, a tree, a missing one', async (box) => {
  await sh(box, 'mkdir -p rm/tree; touch rm/file rm/tree/x')
  for (const name of ['rm/file', 'rm/tree', 'rm/missing']) await box.files.remove(name)
  same(await box.files.list('rm'), [])
})

test('files.watch_dir', 'created, written, renamed, removed', async (box) => {
  await sh(box, 'mkdir -p watched')
  const seen = new Set()
  const handle = await box.files.watchDir('watched', (e) => void seen.add(`${e.type} ${e.name}`))
  await box.files.write('watched/new', 'x')
  await box.files.rename('watched/new', 'watched/other')
  await box.files.remove('watched/other')
  await until(() => ['create new', 'write new', 'rename new', 'create other', 'remove other'].every((x) => seen.has(x)))
  await handle.stop()
  await refused(Missing, () => box.files.watchDir('missing', () => {}))
})

test('files.watch_dir', 'recursive, with entries', async (box) => {
  await sh(box, 'mkdir -p deepwatch/sub')
  const seen = []
  const handle = await box.files.watchDir('deepwatch', (e) => void seen.push(e), { recursive: true, includeEntry: true })
  await box.files.write('deepwatch/sub/x', '12345')
  await until(() => seen.some((e) => e.name === 'sub/x' && e.entry?.path === '/home/user/deepwatch/sub/x'))
  await handle.stop()
})

// --- git ----------------------------------------------------------------------------------------------------------------

test('git', 'init, add, commit, status, branches, configuration', async ({ git, files }) => {
  await git.init('repo', { initialBranch: 'main' })
  await git.configureUser('A', 'a@example.com', { scope: 'local', path: 'repo' })
  same(await git.getConfig('user.name', { scope: 'local', path: 'repo' }), 'A')
  await files.write('repo/f', '1')
  same((await git.status('repo')).fileStatus.map((s) => s.name), ['f'])
  await git.add('repo')
  await git.commit('repo', 'first')
  await git.createBranch('repo', 'side')
  await git.checkoutBranch('repo', 'main')
  same((await git.branches('repo')).currentBranch, 'main')
  await git.deleteBranch('repo', 'side', { force: true })
})

test('git', 'clone, remotes, push and pull', async ({ git, files }) => {
  await git.init('bare.git', { bare: true, initialBranch: 'main' })
  await git.clone('/home/user/bare.git', { path: 'one' })
  await git.configureUser('A', 'a@example.com', { scope: 'global' })
  await files.write('one/f', '1')
  await git.add('one')
  await git.commit('one', 'first')
  await git.push('one', { remote: 'origin', branch: 'HEAD' })
  await git.clone('/home/user/bare.git', { path: 'two', depth: 1 })
  same([await files.read('two/f'), await git.remoteGet('two', 'origin')], ['1', '/home/user/bare.git'])
  await git.pull('two')
})

await runAll(version, () => Sandbox.create())
