// The dispatcher as a program of EPP/1: JSON-RPC on standard input and output, with raw chunks and flow.

const WINDOW = 1 << 20; // bytes of a stream that may be on their way before the host has taken any
const PIECE = 1 << 18;

class Call {
  constructor(line, id) {
    Object.assign(this, { line, id, room: WINDOW, wake: null, stop: new AbortController(), queue: Promise.resolve(), done: false });
    this.emit = (method, params) => this.send(method, params);
    this.emit.stream = id;
  }

  /** What comes after the answer is not sent: its stream is no more. */
  send(method, params) {
    const one = params.bytes === undefined ? () => this.line.send({ method, params: { stream: this.id, ...params } }) : () => this.sendBytes(method, params);
    this.queue = this.queue.then(() => (this.done ? undefined : one()));
    return this.queue;
  }

  async sendBytes(method, { bytes, ...params }) {
    for (let at = 0; at < bytes.length && !this.stop.signal.aborted && !this.done; ) {
      while (this.line.flow && this.room <= 0 && !this.stop.signal.aborted) await new Promise((resolve) => (this.wake = resolve));
      if (this.stop.signal.aborted) return;
      const piece = bytes.subarray(at, at + (this.line.flow ? Math.min(PIECE, this.room) : PIECE));
      at += piece.length;
      this.room -= piece.length;
      const members = this.line.raw ? { raw: piece.length } : { base64: Buffer.from(piece).toString("base64") };
      await this.line.send({ method, params: { stream: this.id, ...params, ...members } }, this.line.raw ? piece : undefined);
    }
  }

  cancel() {
    const reason = Object.assign(new Error("cancelled"), { code: "E5002" });
    this.stop.abort(reason);
    this.wake?.();
  }
}

class Line {
  constructor(dispatcher) {
    Object.assign(this, { dispatcher, calls: new Map(), flow: false, raw: false, full: null });
  }

  /** Resolves when standard output has room again. */
  send(message, raw) {
    let room = process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
    if (raw) room = process.stdout.write(Buffer.concat([raw, Buffer.from("\n")]));
    if (room) return Promise.resolve();
    this.full ??= new Promise((resolve) => process.stdout.once("drain", () => resolve((this.full = null))));
    return this.full;
  }

  fail(id, e) {
    const { code = "E6002", hint, retryable } = e;
    if (!e.code) console.error(e.stack ?? e);
    this.send({ id, error: { code: e.rpc ?? -32000, message: String(e.message), data: e.rpc ? undefined : { code, hint, retryable } } });
  }

  async run(id, method, params) {
    const call = new Call(this, id);
    this.calls.set(id, call);
    try {
      const result = await this.dispatcher.call(method, params, call.emit, call.stop.signal);
      await call.queue;
      call.done = true;
      this.send({ id, result });
    } catch (e) {
      await call.queue.catch(() => {});
      call.done = true;
      this.fail(id, call.stop.signal.aborted ? { code: "E5002", message: "cancelled" } : e);
    } finally {
      this.calls.delete(id);
    }
  }

  async take({ id, method, params = {} }) {
    const stream = this.calls.get(params.stream);
    try {
      if (method === "initialize") {
        const said = await this.dispatcher.initialize(params);
        Object.assign(this, { flow: params.flow === true, raw: params.raw === true });
        this.send({ id, result: { ...said, raw: true, flow: true } });
      } else if (method === "shutdown") {
        for (const call of this.calls.values()) call.cancel();
        await Promise.allSettled(this.dispatcher.work);
        this.send({ id, result: {} });
        process.stdin.destroy();
      } else if (method === "cancel") {
        stream?.cancel();
      } else if (method === "stream.window") {
        if (stream) stream.room += params.bytes;
        stream?.wake?.();
      } else if (method === "stream.write" || method === "stream.end") {
        this.send({ id, result: await this.dispatcher.call(method, params) });
      } else if (id !== undefined) {
        await this.run(id, method, params);
      }
    } catch (e) {
      if (id !== undefined) this.fail(id, e);
    }
  }
}

/** Serves until the host has gone. */
export async function serve(dispatcher) {
  const line = new Line(dispatcher);
  console.log = console.info = console.error;
  process.stdout.on("error", () => {}); // the host has gone: the end of the input tells it, too
  process.on("unhandledRejection", (e) => console.error(e?.stack ?? e));
  let rest = Buffer.alloc(0), parts = [], wanted = null; // wanted: a message whose raw bytes are still to come
  const next = () => {
    if (wanted) {
      if (rest.length < wanted.size + 1) return false;
      wanted.message.params.bytes = new Uint8Array(rest.subarray(0, wanted.size));
      rest = rest.subarray(wanted.size + 1);
      line.take(wanted.message);
      wanted = null;
      return true;
    }
    const end = rest.indexOf(10);
    if (end < 0) return false;
    const message = JSON.parse(rest.subarray(0, end).toString());
    rest = rest.subarray(end + 1);
    if (typeof message.params?.raw === "number") wanted = { message, size: message.params.raw };
    else line.take(message);
    return true;
  };
  try {
    for await (const piece of process.stdin) {
      parts.push(piece);
      if (!wanted && !piece.includes(10)) continue;
      rest = Buffer.concat([rest, ...parts]);
      parts = [];
      while (next());
    }
  } catch (e) {
    if (e.code !== "ERR_STREAM_PREMATURE_CLOSE") throw e;
  }
  for (const call of line.calls.values()) call.cancel();
  await Promise.allSettled(dispatcher.work);
}
