// EPP/1's methods as calls of the parts: what a host calls, whether in its own process or over standard input and output.

import { Client } from "./client.mjs";
import { Code } from "./code.mjs";
import { Failure } from "./errors.mjs";
import { Files } from "./files.mjs";
import { Input } from "./input.mjs";
import { Processes, bytesOf } from "./processes.mjs";
import { Sandboxes, jsonOption } from "./sandboxes.mjs";
import { Terminals } from "./terminals.mjs";

/** The server's address: HOST, HOST:PORT or a URL, with or without /v1 → {url, protocol}. */
export function serverOf(word, protocol) {
  const found = /^(?:(https?):\/\/)?([^/?#@\s]+)(\/[^?#\s]*)?$/.exec(word);
  if (!found) throw new Failure("E1003", `the server's address '${word}' is none`);
  const [, scheme = protocol ?? "http", host, path = ""] = found;
  return { url: `${scheme}://${host}${path.replace(/\/+$/, "").replace(/\/v1$/, "")}/v1`, protocol: protocol ?? scheme };
}

const text = (value) => (value === undefined || value === "" ? undefined : value);

export class Dispatcher {
  constructor() {
    this.inputs = new Map(); // stream → Input
    this.work = new Set(); // calls that run
  }

  initialize({ options = {}, core = {} } = {}) {
    const client = new Client({
      ...serverOf(text(options.server) ?? text(core.apiUrl) ?? text(core.domain) ?? "localhost:8080", text(options.protocol)),
      key: text(options.key) ?? text(core.apiKey), serverProxy: options["server-proxy"] === true, endpointHost: text(options["endpoint-host"]),
      timeoutMs: (options["request-timeout"] ?? 30) * 1000,
    });
    this.sandboxes = new Sandboxes(client, {
      image: text(options.image) ?? "python:3.12", imageUser: text(options["image-user"]), imagePassword: text(options["image-password"]),
      entrypoint: jsonOption(options, "entrypoint", "list"), timeoutMs: (options.timeout ?? 600) * 1000,
      resources: jsonOption(options, "resources", "object"), volumes: jsonOption(options, "volumes", "list"),
      networkPolicy: jsonOption(options, "network-policy", "object"), extensions: jsonOption(options, "extensions", "object"),
      platform: text(options.platform), egress: options.egress === true,
    });
    this.files = new Files(client);
    this.processes = new Processes(client, this.files);
    this.terminals = new Terminals(client, this.files, this.processes);
    this.code = new Code(client, this.files, (options["code-timeout"] ?? 60) * 1000);
    const features = { connect: "native", list: "native", timeout: "native", pause: "native", metrics: "native", logs: "native",
      ports: "native", "sandbox.tunnel": "unsupported", process: "emulated", "process.replay": "emulated", filesystem: "native", "filesystem.range": "native",
      snapshot: "native", code: "native", "code.contexts": "native" };
    if (options.egress === true) features.network = "native";
    if (typeof WebSocket === "function") features.pty = "native";
    return { protocol: "epp/1", features };
  }

  /** One call. emit(method, params) sends an event and resolves when its bytes were taken; emit.stream names the call. */
  async call(method, params, emit, signal) {
    if (method === "stream.write" || method === "stream.end") {
      await this.inputs.get(params.stream)?.push(method === "stream.end" ? null : bytesOf(params));
      return {};
    }
    const input = ["fs.write", "pty.write"].includes(method) ? new Input() : null;
    if (input) this.inputs.set(emit.stream, input);
    const work = this.dispatch(method, params, emit, signal, input);
    this.work.add(work);
    try {
      return (await work) ?? {};
    } catch (e) {
      // a body that broke, wherever it was read
      if (!(e instanceof TypeError) || !/^(terminated|fetch failed)$/.test(e.message)) throw e;
      throw new Failure("E6001", `a connection of '${method}' broke: ${e.cause?.message ?? e.message}`, { cause: e });
    } finally {
      this.work.delete(work);
      if (input) {
        this.inputs.delete(emit.stream);
        input.close();
      }
    }
  }

  async dispatch(method, p, emit, signal, input) {
    const { sandboxes, processes, files, terminals, code } = this, id = p.sandboxId;
    switch (method) {
      case "sandbox.create": return sandboxes.create(p, signal);
      case "sandbox.info": return sandboxes.info(id);
      case "sandbox.kill": return sandboxes.kill(id);
      case "sandbox.connect": return sandboxes.connect(id, p, signal);
      case "sandbox.list": return { sandboxes: await sandboxes.list(p.metadata) };
      case "sandbox.set_timeout": return sandboxes.setTimeout(id, p.timeoutMs);
      case "sandbox.pause": return sandboxes.pause(id, signal);
      case "sandbox.metrics": return sandboxes.metrics(id);
      case "sandbox.logs": return sandboxes.logs(id, p);
      case "sandbox.set_network": return sandboxes.setNetwork(id, p.network);
      case "sandbox.host": return sandboxes.host(id, p.port);
      case "sandbox.ports": return sandboxes.ports(id);
      case "sandbox.snapshot_create": return sandboxes.snapshotCreate(id, p.name, emit, signal);
      case "sandbox.snapshot_list": return sandboxes.snapshotList();
      case "sandbox.snapshot_remove": return sandboxes.snapshotRemove(p.snapshotId);
      case "process.start": return processes.start(id, p, emit, signal);
      case "process.attach": return processes.attach(id, p, emit, signal);
      case "process.detach": return processes.detach(id, p.processId);
      case "process.signal": return terminals.has(id, p.processId) ? terminals.signal(id, p.processId, p.signal) : processes.signal(id, p.processId, p.signal);
      case "process.list": return { processes: (await processes.list(id)).map(({ told, ...one }) => one) };
      case "fs.read": return files.read(id, p, emit, signal);
      case "fs.write": return files.write(id, p, input, signal);
      case "fs.stat": return files.stat(id, p);
      case "fs.list": return files.list(id, p);
      case "fs.make_dir": return files.makeDir(id, p);
      case "fs.rename": return files.rename(id, p);
      case "fs.remove": return files.remove(id, p);
      case "pty.open": return terminals.start(id, p, emit, signal);
      case "pty.write": return terminals.write(id, p, input);
      case "pty.resize": return terminals.resize(id, p);
      case "pty.close": return terminals.close(id, p);
      case "code.run": return code.run(id, p, emit, signal);
      case "code.interrupt": return code.interrupt(id, p);
      case "code.context_create": return code.create(id, p, signal);
      case "code.context_list": return code.list(id);
      case "code.context_restart": return code.restart(id, p, signal);
      case "code.context_remove": return code.remove(id, p);
      default: throw Object.assign(new Failure("E8004", `no method '${method}'`), { rpc: -32601 });
    }
  }
}
