// Files and folders. execd's own calls where they say all that is wanted; a command where they do not: names with '$', which execd
// would expand, targets of links, moves onto what is there, folders of an execd that cannot list.

import { Failure, errorOf, fileFailure, unsupported, usage } from "./errors.mjs";
import { quote, script } from "./shell.mjs";
import { sleep } from "./client.mjs";

const SMALL = 1 << 20; // contents up to this are sent with their length, more as they come
const query = (path) => `path=${encodeURIComponent(path)}`;
const join = (parts) => {
  const all = new Uint8Array(parts.reduce((n, p) => n + p.length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
};
const byPath = (a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0);
const TYPES = { file: "file", directory: "dir", symlink: "symlink" };

/** A text that a body of multipart/form-data is parted by. */
const boundary = () => `abx-${[...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16)).join("")}`;

export class Files {
  constructor(client) {
    Object.assign(this, { client, queues: new Map(), old: new Set() });
  }

  /** A path as execd takes it: what is relative begins at the home. */
  place(path) {
    return path.startsWith("/") ? path : path === "" || path === "." ? "~" : `~/${path}`;
  }

  check(params, ...names) {
    if (params.user !== undefined) throw unsupported("'user' with files");
    for (const name of names) {
      if (!params[name]) throw usage("the path is empty");
      if (params[name].includes("\0")) throw usage("a path holds a zero byte");
    }
  }

  /** The words of a shell for a path. */
  words(path) {
    return path.startsWith("/") ? quote(path) : path === "." ? "~" : `~/${quote(path)}`;
  }

  /** Runs a script about a path; a code other than 0 is a failure of what stderr says. */
  async run(id, text, path) {
    const { code, out, err } = await script(this.client, id, text, { cwd: "~" });
    if (code === 44) throw fileFailure(404, '{"code":"FILE_NOT_FOUND"}', path);
    if (code === 45) throw new Failure("E6005", `'${path}': not a folder`);
    if (code !== 0) throw fileFailure(500, JSON.stringify({ message: err.trim().split("\n").at(-1).replace(/^.*: /, "").toLowerCase() }), path);
    return out;
  }

  // --- what is there

  fileOf(info) {
    return { path: info.path, name: info.path.split("/").at(-1) || "/", type: TYPES[info.type] ?? (info.type ? "other" : "file"), size: info.size,
      mode: parseInt(String(info.mode ?? 0), 8), owner: info.owner, group: info.group, modifiedAt: new Date(info.modified_at).toISOString(),
      ...(info.target === undefined ? {} : { target: info.target }) };
  }

  /** One thing as execd tells it; null when it is not there. */
  async info(id, path) {
    if (path.includes("$")) return (await this.told(id, `[ -e ${this.words(path)} ] || [ -L ${this.words(path)} ] || exit 44\n`, this.words(path), path).catch((e) => {
      if (e.code === "E3002") return [null];
      throw e;
    }))[0];
    const response = await this.client.execd(id, "GET", `/files/info?${query(this.place(path))}`);
    const text = await response.text();
    if (response.ok) return Object.values(JSON.parse(text))[0];
    const failure = fileFailure(response.status, text, path);
    if (failure.code === "E3002") return null;
    throw failure;
  }

  /** What `stat` tells of things, through base64 since names may hold anything. */
  async told(id, before, words, path) {
    const text = `${before}{ stat -c '%F|%s|%Y|%U|%G|%a|%n|' ${words} | tr '\\n' '\\0'; } | base64 | tr -d '\\n'`;
    return this.parse(await this.run(id, text, path));
  }

  parse(out) {
    const all = new TextDecoder().decode(Uint8Array.from(atob(out.trim()), (c) => c.charCodeAt(0)));
    return all.split("|\0").filter(Boolean).map((line) => {
      const [kind, size, time, owner, group, mode, ...name] = line.split("|");
      const type = kind === "directory" ? "directory" : kind === "symbolic link" ? "symlink" : kind.startsWith("regular") ? "file" : "other";
      return { path: name.join("|").replaceAll("\0", "\n"), type, size: Number(size), modified_at: Number(time) * 1000, owner, group, mode: Number(mode) % 1000 };
    });
  }

  async targets(id, infos) {
    const links = infos.filter((i) => i.type === "symlink");
    if (!links.length) return infos;
    const text = `for l in ${links.map((l) => quote(l.path)).join(" ")}; do readlink -n -- "$l" | base64 | tr -d '\\n'; echo; done`;
    if (text.length < 100000) {
      const lines = (await this.run(id, text, links[0].path)).split("\n").filter((l) => l !== "");
      links.forEach((link, i) => (link.target = lines[i] ? new TextDecoder().decode(Uint8Array.from(atob(lines[i].trim()), (c) => c.charCodeAt(0))) : undefined));
    }
    return infos;
  }

  async stat(id, params) {
    this.check(params, "path");
    const info = await this.info(id, params.path);
    if (!info) throw fileFailure(404, '{"code":"FILE_NOT_FOUND"}', params.path);
    return this.fileOf((await this.targets(id, [info]))[0]);
  }

  async list(id, params) {
    this.check(params, "path");
    const depth = params.depth ?? 1;
    let infos;
    if (!this.old.has(id) && !params.path.includes("$")) {
      const response = await this.client.execd(id, "GET", `/directories/list?${query(this.place(params.path))}&depth=${depth}`);
      const text = await response.text();
      if (response.ok) infos = JSON.parse(text);
      else if (response.status === 404 && !errorOf(text).code) this.old.add(id);
      else if (!/symbolic link/.test(text)) throw fileFailure(response.status, text, params.path);
    }
    infos ??= await this.listed(id, params.path, depth);
    return { files: (await this.targets(id, infos)).map((i) => this.fileOf(i)).sort(byPath) };
  }

  async listed(id, path, depth) {
    const words = this.words(path);
    const text = `[ -e ${words} ] || exit 44; [ -d ${words} ] || exit 45; cd ${words} && { find "$PWD" -mindepth 1 -maxdepth ${depth} ` +
      `-exec stat -c '%F|%s|%Y|%U|%G|%a|%n|' {} + | tr '\\n' '\\0'; } | base64 | tr -d '\\n'`;
    return this.parse(await this.run(id, text, path));
  }

  // --- contents

  /** A path that execd can be given: for one with '$' a link to it that lies elsewhere, and what removes that. */
  async reachable(id, path) {
    if (!path.includes("$")) return { path: this.place(path), leave: async () => {} };
    const link = `/tmp/.abx-link-${boundary().slice(4, 20)}`;
    const target = path.startsWith("/") ? quote(path) : `"$PWD"/${quote(path)}`;
    await this.run(id, `mkdir -p -- "$(dirname -- ${target})" && ln -s -- ${target} ${link}`, path);
    return { path: link, leave: () => script(this.client, id, `rm -f ${link}`).catch(() => {}) };
  }

  async read(id, params, emit, signal) {
    this.check(params, "path");
    const info = await this.info(id, params.path);
    if (!info) throw fileFailure(404, '{"code":"FILE_NOT_FOUND"}', params.path);
    if (info.type === "directory") throw new Failure("E6005", `'${params.path}' is a folder`);
    const { path, leave } = await this.reachable(id, params.path);
    try {
      return { size: await this.download(id, path, params.path, emit, signal, params.offset ?? 0, params.limit ?? Infinity) };
    } finally {
      await leave();
    }
  }

  /** Bytes from offset on, limit of them at most: how many there were. What breaks is asked again from where it broke. */
  async download(id, path, shown, emit, signal, offset, limit) {
    let size = 0, whole = null;
    for (let turn = 1; ; turn++) {
      const at = offset + size, end = offset + Math.max(limit, 1) - 1; // a range has one byte at least
      const last = end < Number.MAX_SAFE_INTEGER ? end : "";
      const headers = at || last !== "" ? { Range: `bytes=${at}-${last}` } : {};
      const response = await this.client.execd(id, "GET", `/files/download?${query(path)}`, { headers, signal });
      if (at && response.status === 416) return response.body?.cancel(), size;
      if (!response.ok) {
        const text = await response.text();
        if (/seeker can't seek|is a directory/.test(text)) return this.seekless(id, shown, emit, offset, limit);
        throw fileFailure(response.status, text, shown);
      }
      let skip = response.status === 206 ? 0 : at; // who does not know of ranges gives all
      const length = response.headers.get("content-length");
      if (!size) whole = length === null ? null : Math.min(Math.max(Number(length) - skip, 0), limit);
      try {
        for await (const part of partsOf(response.body)) {
          const bytes = part.subarray(Math.min(skip, part.length), Math.min(part.length, skip + limit - size));
          skip = Math.max(skip - part.length, 0);
          size += bytes.length;
          if (bytes.length) await emit("fs.output", { stream: emit.stream, bytes });
          signal.throwIfAborted();
          if (size === limit && response.status !== 206) return size; // a part ends by itself
        }
        if (whole === null || size >= whole) return size;
      } catch (e) {
        if (signal.aborted || e instanceof Failure) throw e;
        await this.client.gone(id);
      }
      if (turn > 4) throw new Failure("E6001", `'${shown}': the connection to the sandbox broke after ${size} bytes`);
      await sleep(100 * turn, signal);
    }
  }

  /** A file that cannot be measured (of /proc): by a command. */
  async seekless(id, path, emit, offset, limit) {
    const out = await this.run(id, `[ -d ${this.words(path)} ] && { echo is a directory >&2; exit 1; }; base64 <${this.words(path)}`, path);
    const bytes = Uint8Array.from(atob(out.replaceAll("\n", "")), (c) => c.charCodeAt(0)).subarray(offset, offset + limit);
    if (bytes.length) await emit("fs.output", { stream: emit.stream, bytes });
    return bytes.length;
  }

  /** One after the other for each file: two uploads at once would be mixed. */
  async inTurn(key, work) {
    const before = this.queues.get(key) ?? Promise.resolve();
    const mine = before.then(work, work);
    this.queues.set(key, mine.catch(() => {}));
    try {
      return await mine;
    } finally {
      if (this.queues.size > 1000) this.queues.clear();
    }
  }

  async write(id, params, input, signal) {
    this.check(params, "path");
    for (const name of ["modifiedAt", "metadata"]) if (params[name] !== undefined) throw unsupported(`'${name}'`);
    const first = await this.beginning(input, params.size);
    return this.inTurn(`${id} ${params.path}`, () => this.written(id, params, first, input, signal));
  }

  /** What is at hand of the input at once, up to SMALL; `over`: that is all. */
  async beginning(input, size) {
    const parts = [], rest = input[Symbol.asyncIterator]();
    let count = 0;
    while (count <= SMALL) {
      const { done, value } = await rest.next();
      if (done) {
        if (size !== undefined && size !== count) throw usage(`${count} bytes came instead of ${size}`);
        return { parts, over: true, count };
      }
      parts.push(value);
      count += value.length;
    }
    return { parts, over: false, count, rest };
  }

  async written(id, params, first, input, signal) {
    const old = await this.info(id, params.path);
    if (old?.type === "directory") throw new Failure("E6005", `'${params.path}' is a folder`);
    const { path, leave } = await this.reachable(id, params.path);
    const count = { bytes: first.count };
    try {
      const mode = params.mode === undefined ? (old ? 0 : 644) : Number(params.mode.toString(8));
      const aim = old && old.type !== "symlink" ? { mode, owner: old.owner, group: old.group } : { mode: params.mode === undefined && old ? 0 : mode };
      if (params.whole && old) await this.replace(id, params, path, aim, first, count, signal);
      else await this.upload(id, path, aim, first, count, params, signal);
    } finally {
      input.close();
      await leave();
    }
    const now = params.path.startsWith("/") ? params.path : (await this.info(id, params.path))?.path ?? params.path;
    return { path: now, size: count.bytes };
  }

  /** Beside the old file, then in its place. */
  async replace(id, params, path, aim, first, count, signal) {
    const beside = `${path}.${boundary().slice(0, 12)}`;
    await this.upload(id, beside, aim, first, count, params, signal);
    const target = path.startsWith("~") ? `~/${quote(path.slice(2))}` : quote(path), source = path.startsWith("~") ? `~/${quote(beside.slice(2))}` : quote(beside);
    await this.run(id, `t=$(readlink -f -- ${target} || printf %s ${target}); mv -f -- ${source} "$t"`, params.path);
  }

  async upload(id, path, aim, first, count, params, signal) {
    const mark = boundary(), text = new TextEncoder();
    const head = text.encode(`--${mark}\r\nContent-Disposition: form-data; name="metadata"; filename="metadata"\r\nContent-Type: application/json\r\n\r\n` +
      `${JSON.stringify({ path, ...aim })}\r\n--${mark}\r\nContent-Disposition: form-data; name="file"; filename="file"\r\n` +
      "Content-Type: application/octet-stream\r\n\r\n");
    const tail = text.encode(`\r\n--${mark}--\r\n`);
    const body = first.over ? join([head, ...first.parts, tail]) : this.stream([head, ...first.parts], first.rest, tail, count, params.size);
    let response;
    try {
      response = await this.client.execd(id, "POST", "/files/upload", { body, again: first.over, patience: first.over ? 3000 : 30000,
        headers: { "Content-Type": `multipart/form-data; boundary=${mark}` }, signal });
    } catch (e) {
      throw count.failure ?? e;
    }
    const said = await response.text();
    if (count.failure) throw count.failure;
    if (/error chmoding file .*no such file/.test(said)) return; // it was written, and somebody has taken it already
    if (!response.ok) throw fileFailure(response.status, said, params.path ?? path);
  }

  stream(before, rest, tail, count, size) {
    return new ReadableStream({
      async pull(controller) {
        if (before.length) return controller.enqueue(before.shift());
        try {
          const { done, value } = await rest.next();
          if (!done) {
            count.bytes += value.length;
            return controller.enqueue(value);
          }
          if (size !== undefined && size !== count.bytes) throw usage(`${count.bytes} bytes came instead of ${size}`);
          controller.enqueue(tail);
          controller.close();
        } catch (e) {
          count.failure = e;
          controller.error(e);
        }
      },
    }, { highWaterMark: 0 });
  }

  /** A small file of ours. */
  put(id, path, bytes) {
    return this.upload(id, path, { mode: 644 }, { over: true, parts: [bytes], count: bytes.length }, {}, { path });
  }

  // --- changes

  async makeDir(id, params) {
    this.check(params, "path");
    const { path } = params;
    const old = await this.info(id, path);
    if (old?.type === "directory") return { created: false };
    if (path.includes("$") || old) {
      const words = this.words(path);
      const out = await this.run(id, `[ -d ${words} ] && { echo there; exit 0; }; mkdir -p -- ${words}`, path);
      return { created: !out.startsWith("there") };
    }
    await this.client.ask(id, "POST", "/directories", { json: { [this.place(path)]: { mode: 755 } } }, (status, text) => fileFailure(status, text, path));
    return { created: true };
  }

  async rename(id, params) {
    this.check(params, "from", "to");
    const from = this.words(params.from), to = this.words(params.to);
    await this.run(id, `[ -e ${from} ] || [ -L ${from} ] || exit 44; mkdir -p -- "$(dirname -- ${to})" && mv -fT -- ${from} ${to}`, params.from);
  }

  async remove(id, params) {
    this.check(params, "path");
    const { path } = params;
    if (path.includes("$")) return void (await this.run(id, `rm -rf -- ${this.words(path)}`, path));
    await this.client.ask(id, "DELETE", `/directories?${query(this.place(path))}`, { again: true }, (status, text) => fileFailure(status, text, path));
  }
}

async function* partsOf(body) {
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield value;
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
