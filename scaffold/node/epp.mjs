// The plugin's end of EPP/1: JSON-RPC 2.0, one message a line, on stdin and stdout. Nothing here knows a backend.
//
//     serve(features, handlers)   handlers: method -> async function (call) -> result
//
// What a function throws is the answer: a Fault with a code of the protocol, a system error by what it means. Nothing else may
// write to stdout: console.log goes to stderr, which is the log.

const WINDOW = 1 << 20; // bytes of a stream that may be on their way before the host has taken any
const CHUNK = 48 * 1024;

export class Fault extends Error {
  constructor(code, message, hint) {
    super(message);
    Object.assign(this, { fault: code, hint });
  }
}

function faultOf(e) {
  if (e instanceof Fault) return e;
  const codes = { ENOENT: "E3002", ENOSPC: "E4003", EDQUOT: "E4003" };
  if (e?.syscall) return new Fault(codes[e.code] ?? "E6005", `'${e.path ?? ""}': ${e.code}`);
  console.error(e?.stack ?? e);
  return new Fault("E6002", String(e?.message ?? e));
}

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function asMember(bytes) {
  try {
    return { text: utf8.decode(bytes) };
  } catch {
    return { base64: bytes.toString("base64") };
  }
}

export function bytesOf(params) {
  return params.text !== undefined ? Buffer.from(params.text) : Buffer.from(params.base64 ?? "", "base64");
}

/** One request. `params` is what the host sent; the rest is for functions that stream. */
class Call {
  constructor(line, id, method, params) {
    Object.assign(this, { id, method, params, cancelled: false, onCancel: null });
    Object.assign(this, { line, room: WINDOW, changed: null, waiting: null, incoming: [] });
  }

  /** An event of this stream, before the answer. */
  notify(method, members = {}) {
    return this.line.send({ method, params: { stream: this.id, ...members } });
  }

  /** Bytes of this stream; waits while the host does not take them. Throws when the call was cancelled. */
  async sendBytes(method, bytes, members = {}) {
    for (let at = 0; at < bytes.length; ) {
      while (this.line.flow && this.room <= 0 && !this.cancelled) await this.#change();
      this.check();
      const piece = bytes.subarray(at, at + (this.line.flow ? Math.min(CHUNK, this.room) : CHUNK));
      at += piece.length;
      this.room -= piece.length;
      await this.notify(method, { ...members, ...asMember(piece) });
    }
  }

  /** The bytes that the host sends with this request, piece by piece. Each is acknowledged when it was used. */
  async *body() {
    for (;;) {
      while (this.incoming.length === 0 && !this.cancelled) await this.#change();
      this.check();
      const [id, piece] = this.incoming.shift();
      if (piece) yield piece;
      this.line.answer(id, {});
      if (!piece) return;
    }
  }

  check() {
    if (this.cancelled) throw new Fault("E5002", "cancelled");
  }

  #change() {
    return (this.changed ??= new Promise((wake) => (this.waiting = wake)));
  }

  wake() {
    this.waiting?.();
    this.waiting = this.changed = null;
  }

  cancel() {
    this.cancelled = true;
    this.onCancel?.();
    this.wake();
  }
}

class Line {
  constructor(features, handlers) {
    Object.assign(this, { features, handlers, calls: new Map(), flow: false, full: null });
  }

  /** Resolves when stdout has room again. */
  send(message) {
    if (process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n")) return undefined;
    this.full ??= new Promise((done) => process.stdout.once("drain", () => done((this.full = null))));
    return this.full;
  }

  answer(id, result) {
    this.send({ id, result: result ?? {} });
  }

  async run(call) {
    try {
      const result = await this.handlers[call.method](call);
      call.check();
      this.calls.delete(call.id);
      this.answer(call.id, result);
    } catch (e) {
      this.calls.delete(call.id);
      const fault = call.cancelled ? new Fault("E5002", "cancelled") : faultOf(e);
      const data = { code: fault.fault, hint: fault.hint };
      this.send({ id: call.id, error: { code: -32000, message: fault.message, data } });
    }
    for (const [id] of call.incoming) this.answer(id); // what came and is not needed any more
  }

  take({ id, method, params = {} }) {
    const stream = this.calls.get(params.stream);
    if (method === "initialize") {
      this.flow = params.flow === true;
      this.answer(id, { protocol: "epp/1", features: this.features, flow: true });
    } else if (method === "shutdown") {
      this.answer(id);
      process.stdin.destroy();
    } else if (method === "cancel") {
      stream?.cancel();
    } else if (method === "stream.window") {
      if (stream) stream.room += params.bytes;
      stream?.wake();
    } else if (method === "stream.write" || method === "stream.end") {
      if (!stream) return this.answer(id); // of a call that has ended
      stream.incoming.push([id, method === "stream.write" ? bytesOf(params) : null]);
      stream.wake();
    } else if (this.handlers[method]) {
      const call = new Call(this, id, method, params);
      this.calls.set(id, call);
      this.run(call);
    } else if (id !== undefined) {
      this.send({ id, error: { code: -32601, message: `no method '${method}'` } });
    }
  }
}

/** features: name -> "native" or "unsupported". Resolves when the host has gone; calls that still run are cancelled. */
export async function serve(features, handlers) {
  const line = new Line(features, handlers);
  console.log = console.error;
  let rest = [];
  try {
    for await (const piece of process.stdin) {
      let at = 0;
      for (let end; (end = piece.indexOf(10, at)) >= 0; at = end + 1) {
        rest.push(piece.subarray(at, end));
        line.take(JSON.parse(Buffer.concat(rest).toString()));
        rest = [];
      }
      rest.push(piece.subarray(at));
    }
  } catch (e) {
    if (e.code !== "ERR_STREAM_PREMATURE_CLOSE") throw e;
  }
  for (const call of line.calls.values()) call.cancel();
}
