// What the JavaScript programs of this folder share: cases, and a line of JSON for each that was tried.
// A program is run as PROGRAM [WORD...]; only cases that hold one of the words are tried.

const cases = []

/** A call of the SDK, by its Python name where it has one, and what is seen of it. since: the first version that has it. */
export function test(call, about, body, since) {
  cases.push({ call, about, body, since })
}

export function assert(truth, ...seen) {
  if (!truth) throw new Error('not true; ' + seen.map((x) => JSON.stringify(x) ?? String(x)).join(' ').slice(0, 500))
}

export function same(a, b) {
  const [x, y] = [JSON.stringify(a), JSON.stringify(b)]
  if (x !== y) throw new Error(`${x} is not ${y}`)
}

/** The error of this class that a call ends with. */
export async function refused(kind, call) {
  let got
  try {
    got = await call()
  } catch (e) {
    if (e instanceof kind) return e
    throw new Error(`${e?.constructor?.name} instead of ${kind.name}: ${e?.message}`)
  }
  throw new Error(`no ${kind.name} but ${JSON.stringify(got)}`)
}

export async function until(question, seconds = 30) {
  const end = Date.now() + seconds * 1000
  for (;;) {
    const answer = await question()
    if (answer) return answer
    if (Date.now() > end) throw new Error('did not happen')
    await new Promise((then) => setTimeout(then, 50))
  }
}

const number = (version) => version.split('.').map((part) => part.padStart(6, '0')).join('.')

async function tryOne({ call, about, body }, box) {
  const start = Date.now()
  let why = null
  let timer
  const limit = new Promise((_, fail) => (timer = setTimeout(() => fail(new Error('hangs')), 120000)))
  try {
    await Promise.race([body(box), limit])
  } catch (e) {
    why = String(e?.stack ?? e).split('\n').slice(0, 6).join(' | ')
  }
  clearTimeout(timer)
  console.log(JSON.stringify({ call, about, passed: why === null, why, ms: Date.now() - start }))
}

/** Every case with a sandbox that all of them share. */
export async function runAll(version, make) {
  const words = process.argv.slice(2)
  const box = await make()
  try {
    for (const one of cases) {
      if (words.length && !words.some((word) => `${one.call}: ${one.about}`.includes(word))) continue
      if (one.since && number(version) < number(one.since)) {
        console.log(JSON.stringify({ call: one.call, about: one.about, passed: true, why: `not in ${version}`, ms: 0 }))
        continue
      }
      await tryOne(one, box)
    }
  } finally {
    await box.kill()
  }
  process.exit(0)
}
