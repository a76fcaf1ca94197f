"""The providers of the catalog that are made of the kit's classes, each over the E2B door of another home in its own dialect: addresses, routes that are
missing, keys. Their conformance; failures on the way."""

import json
import os
import re
import sys
import time
from pathlib import Path

import pytest

from faults import Fault, answer
from harness import Abx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
import differences  # noqa: E402
from providers import DIALECTS, front_service, furnish_from_catalog  # noqa: E402

pytestmark = pytest.mark.once

CATALOG = Path(__file__).resolve().parents[2] / "providers"
@pytest.fixture(scope="module")
def service():
    with front_service() as both:
        yield both


@pytest.fixture(scope="module", params=list(DIALECTS))
def cloud(request, service):
    """A home with the provider from the program's own catalog, chosen and set."""
    home, (front, door) = Abx(), service
    variables, _ = furnish_from_catalog(home, request.param, *DIALECTS[request.param](front, door))
    home.env.update(variables, ABX_PROVIDER=request.param)
    home.name, home.front, home.door = request.param, front, door
    yield home
    home.close()


def test_a_command_in_a_sandbox_of_its_own(cloud):
    assert cloud("run", "--", "sh", "-c", "cat; echo there >&2; exit 3", input=b"in", code=3).out == b"in"
    assert cloud.ok("ls", "-q", "--all").text == ""


def test_two_streams_and_a_reader_that_comes_late(cloud):
    script = "i=0; while [ $i -lt 32 ]; do head -c 65536 /dev/zero | tr '\\0' o; head -c 65536 /dev/zero | tr '\\0' e >&2; i=$((i+1)); done; exit 5"
    p = cloud.start("run", "--", "sh", "-c", script)
    time.sleep(0.3)  # more waits by now than the window lets through; with less the test says less
    out, err = p.communicate(timeout=60)
    assert (p.returncode, out.strip(b"o"), err.strip(b"e"), len(out), len(err)) == (5, b"", b"", 2 << 20, 2 << 20)


def test_a_life(cloud):
    box = cloud.ok("create", "-l", "team=blue").text.strip()
    data = os.urandom(300_000)
    try:
        assert [b["id"] for b in cloud.ok("ls", "--json", "-l", "team=blue").json["sandboxes"]] == [box]
        cloud.ok("files", "write", f"{box}:a/b", input=data)
        assert cloud.ok("files", "cat", f"{box}:a/b").out == data
        cloud.ok("pause", box)
        cloud.ok("resume", box)
        assert cloud.ok("exec", box, "--", "echo", "on").text == "on\n"
        address = cloud.ok("port", box, "8000", "--json").json["url"]
        if cloud.name == "cubesandbox":
            assert address == f"{cloud.front.url}/sandbox/{box}/8000"
        if cloud.name == "alicloud-container":
            assert address == f"{cloud.front.url}/kruise/{box}/8000"
    finally:
        cloud.ok("kill", box)
    assert cloud("info", box, "--json", code=3).error["code"] == "E3001"


def test_what_is_sent(cloud):
    cloud.front.requests.clear()
    cloud.ok("run", "--", "true")
    lines = [r.split("\r\n")[0] for r in cloud.front.requests]
    creates = [r for r in cloud.front.requests if r.startswith("POST ") and "/sandboxes HTTP" in r.split("\r\n")[0]]
    if cloud.name == "e2b":
        assert lines == []
    else:
        assert len(creates) == 1 and "/v2/" not in creates[0].split("\r\n")[0], lines
        assert f"x-api-key: {cloud.door.key}" in creates[0].lower()


def test_keys_and_addresses(cloud):
    key = "CUBE_API_KEY" if cloud.name == "cubesandbox" else "E2B_API_KEY"
    r = cloud("create", "--json", env={key: "e2b_0000"}, code=4)
    assert r.error["code"] == "E2001" and "e2b_0000" not in r.errors
    if cloud.name == "e2b":
        assert cloud("create", "--json", drop=[key], code=4).error["code"] == "E2001"
        r = cloud("create", "--json", env={"E2B_API_URL": "http://127.0.0.1:1"}, code=8)
        assert r.error["code"] == "E6001" and "127.0.0.1:1" in r.error["message"]
    if cloud.name == "cubesandbox":
        r = cloud("create", "--json", drop=["CUBE_TEMPLATE_ID"])
        assert "template" in r.error["message"], r.error
    if cloud.name == "alicloud-container":
        assert cloud("create", "--json", drop=["E2B_DOMAIN"], code=2).error["code"] == "E1003"


def test_login(cloud):
    """A key is tried; one that is refused is not stored."""
    home, key = Abx(), "CUBE_API_KEY" if cloud.name == "cubesandbox" else "E2B_API_KEY"
    try:
        home.ok("provider", "install", cloud.name, "--yes")
        home.env.update({k: v for k, v in cloud.env.items() if k.startswith(("E2B_", "CUBE_")) and k != key})
        if cloud.name == "alicloud-container":
            home.ok("config", "set", "providers.alicloud-container.scheme", "http")
        file = home.home / "config.toml"
        before = file.read_text() if file.exists() else ""
        r = home("provider", "login", cloud.name, "--json", input=b"e2b_0000\n", code=4)
        assert r.error["code"] == "E2001" and r.error["hint"].startswith("nothing was stored") and "e2b_0000" not in r.errors
        assert (file.read_text() if file.exists() else "") == before
        r = home("provider", "login", cloud.name, "--json", input=cloud.door.key.encode() + b"\n", code=0)
        assert r.json["tested"] is True and cloud.door.key not in r.text
        assert cloud.door.key in file.read_text() and file.stat().st_mode & 0o777 == 0o600
        assert home.ok("ls", "--json", "--all").json["sandboxes"] == []
        home.ok("provider", "logout", cloud.name)
        assert cloud.door.key not in file.read_text()
    finally:
        home.close()


# How sandboxes are reached beside the way that the tests above take: by names, or by headers at one address. `localhost` and what is below it is this
# machine for the client.
WAYS = {
    "native": ("alicloud-container", {"protocol": "native"}, lambda port, box: f"http://8000-{box}.localhost:{port}"),
    "header": ("alicloud-container", {"protocol": "header"}, lambda port, box: f"http://gateway.localhost:{port}"),
    "host": ("cubesandbox", {"mode": "host", "sandbox-domain": "cube.localhost"}, lambda port, box: f"http://8000-{box}.cube.localhost"),
    "host, looked up": ("cubesandbox", {"mode": "host"}, lambda port, box: f"http://8000-{box}.localhost:{port}"),
}


@pytest.mark.parametrize("way", list(WAYS))
def test_other_ways_to_the_sandboxes(service, way):
    (front, door), (name, options, address) = service, WAYS[way]
    front.requests.clear()
    home = Abx()
    try:
        home.ok("provider", "install", name, "--yes")
        domain = f"localhost:{front.port}"
        if name == "cubesandbox":
            env = {"CUBE_API_URL": front.url, "CUBE_API_KEY": door.key, "CUBE_TEMPLATE_ID": "base", "CUBE_SANDBOX_DOMAIN": domain}
            if "sandbox-domain" in options:
                env = {**env, "CUBE_PROXY_NODE_IP": "127.0.0.1", "CUBE_PROXY_PORT_HTTP": str(front.port), "CUBE_SANDBOX_DOMAIN": options["sandbox-domain"]}
            home.env.update(env)
            options = {"mode": options["mode"]}
        else:
            home.env.update(E2B_DOMAIN=domain, E2B_API_KEY=door.key)
            options = {**options, "scheme": "http", "template": "base"}
        for option, value in options.items():
            home.ok("config", "set", f"providers.{name}.{option}", value)
        home.env["ABX_PROVIDER"] = name
        box = home.ok("create").text.strip()
        data = os.urandom(200_000)
        assert home("exec", box, "--", "sh", "-c", "cat; exit 3", input=data, code=3).out == data
        home.ok("files", "write", f"{box}:x", input=data)
        assert home.ok("files", "cat", f"{box}:x").out == data
        assert home.ok("port", box, "8000", "--json").json["url"] == address(front.port, box)
        heads = list(front.requests)
        host = lambda head: re.search(r"(?im)^host: *(\S+)", head)[1]  # noqa: E731
        inside = [h for h in heads if "/process.Process/" in h or "/files" in h.split("\r\n")[0]]
        assert inside and all("x-api-key" not in h.lower() for h in inside)
        wanted = address(front.port, box).removeprefix("http://").replace("8000-", "49983-")
        assert {host(h) for h in inside} == {wanted}, inside
        assert all(f"e2b-sandbox-id: {box}" in h.lower() for h in inside)
        if name == "alicloud-container":
            assert {host(h) for h in heads if h not in inside and "/sandboxes" in h.split("\r\n")[0]} == {f"api.{domain}"}
        home.ok("kill", box)
    finally:
        home.close()


def test_a_read_that_broke_is_asked_again(cloud):
    if cloud.name == "e2b":  # goes past the proxy
        return
    box = cloud.ok("create").text.strip()
    cloud.front.add(Fault(f"sandboxes/{box}", answer=answer(503, '{"code":503,"message":"busy"}'), times=1),
                    Fault(f"sandboxes/{box}", cut=20, times=1))
    try:
        assert cloud.ok("info", "--json", box).json["id"] == box
        cloud.front.clear()
        cloud.front.add_missing()
        cloud.ok("files", "write", f"{box}:x", input=b"x" * 5000)
        cloud.front.add(Fault("/files?", cut_body=100, times=1))
        assert cloud("files", "cat", f"{box}:x", "--json").error["code"] in ("E6001", "E6003")
        assert cloud.ok("files", "cat", f"{box}:x").out == b"x" * 5000
    finally:
        cloud.front.clear()
        cloud.front.add_missing()
        cloud.ok("kill", box)


def test_conformance(cloud):
    report = cloud("provider", "test", cloud.name, "--json", timeout=300).json
    bad = {c["name"]: c.get("why") for c in report["cases"] if c["outcome"] == "failed"}
    assert set(bad) <= set(differences.known(cloud.name, "suite")), json.dumps(bad, indent=1)
    assert report["summary"]["passed"] >= 165, report["summary"]
    assert cloud.ok("ls", "-q", "--all").text == ""


# What a module may do with the kit's classes for its own ends: the first word of a command chooses, its JSON is the output.
OWN = r"""
const said = (e) => `${e.constructor.name}: ${e.message}`;
async function all(it) {
  const out = [];
  for (;;) {
    const { done, value } = await it.next();
    if (done)
      return [out, value];
    out.push(value);
  }
}
const words = {
  async stream({ id, process }) {
    const [events, result] = await all(process.start(id, { cmd: ['sh', '-c', 'echo out; echo err >&2; exit 3'] }));
    const text = (type) => new TextDecoder().decode(events.find((e) => e.type === type).data);
    return [events.map((e) => e.type).sort(), text('stdout'), text('stderr'), result.exitCode];
  },
  async files({ id, files }) {
    const big = new Uint8Array(3_000_000).map((_, i) => i);
    async function* parts() { yield 'begin'; yield big; }
    const { size } = await files.write(id, { path: 'f' }, { input: parts() });
    let n = 0, last;
    for await (const chunk of files.read(id, { path: 'f' })) {
      n += chunk.length;
      last = chunk.at(-1);
    }
    for await (const chunk of files.read(id, { path: 'f' }))
      break;
    return [size, n, last, big.at(-1), JSON.stringify(await files.stat(id, { path: 'f' })).includes('3000005')];
  },
  async errors({ kit, id, files, base, sandbox, http }) {
    const out = [];
    const fails = async (f) => {
      try {
        out.push(await f());
      } catch (e) {
        out.push(said(e));
      }
    };
    await fails(() => files.stat(id, { path: 'nothing' }));
    await fails(() => files.stat(id, { path: 7 }));
    await fails(() => files.stat.call({}, id, { path: 'f' }));
    await fails(() => files.stat.call(Object.create(files), id, { path: 'f' }));
    await fails(() => files.stat.call(new Proxy(files, {}), id, { path: 'f' }));
    await fails(() => new kit.SandboxProtocol({}));
    await fails(() => new kit.ProcessProtocol({ sandbox: {} }));
    await fails(() => kit.SandboxProtocol({ http }));
    await fails(() => new kit.SandboxProtocol({ http, user: 'a\r\nb' }));
    await fails(() => kit.e2b.overlay({}, {}));
    const stop = new AbortController();
    setTimeout(() => stop.abort(new Error('enough')), 200);
    await fails(() => all(base.process.start(id, { cmd: ['sleep', '60'] }, { signal: stop.signal })));
    return out;
  },
  async classes({ kit, id, http, base }) {
    class Mine extends kit.SandboxProtocol {
      #n = 0;
      async info(id, params, call) { this.#n++; return { ...await super.info(id, params, call), mine: this.#n }; }
    }
    const mine = new Mine({ http, dialect: base.dialect });
    const over = kit.e2b.overlay(mine, { info: async (id, params, call, below) => ({ ...await below.info(id), over: true }) });
    const twice = kit.e2b.overlay(over, { extra: () => 'extra' });
    await mine.info(id);
    const { mine: n, over: o, state } = await twice.info(id);
    return [n, o, state, twice.extra(), mine instanceof kit.SandboxProtocol, (await http.request(`/sandboxes/${id}`)).status];
  },
  async helpers({ kit }) {
    const lines = ['{"type":"stdout","text":"a"}', '{"type":"result","text":"1","is_main_result":true}', '{"type":"number_of_executions","execution_count":2}',
      '{"type":"error","name":"E","value":"v","traceback":"t"}'];
    return [kit.e2b.withDefault({ a: 1, b: undefined }, { a: 2, b: 3, c: 4 }), kit.e2b.parseExecution(lines.join('\n')),
      Object.isFrozen(kit), Object.isFrozen(kit.e2b), Object.isFrozen(kit.SandboxProtocol.prototype)];
  },
};
export const create = (kit) => ({
  buildInfra(ctx) {
    const http = ctx.http({ baseUrl: ctx.options.api, auth: ctx.headerKeyAuth(ctx.options.key) });
    const dialect = { dataPlaneUrl: ctx.options.sandboxes };
    const sandbox = new kit.SandboxProtocol({ http, dialect, template: 'base' });
    const process = new kit.ProcessProtocol({ sandbox }), files = new kit.FilesystemProtocol({ sandbox });
    return {
      sandbox, filesystem: files,
      process: kit.e2b.overlay(process, {
        async *start(id, params, call, base) {
          if (params.cmd[0] !== 'kit')
            return yield* base.start(id, params);
          yield { type: 'started', id: '1', pid: 1 };
          yield { type: 'stdout', data: JSON.stringify(await words[params.cmd[1]]({ kit, id, http, sandbox, process, files, base: { process, dialect } })) };
          yield { type: 'exit', exitCode: 0 };
        },
      }),
    };
  },
});
"""


def test_what_a_module_does_with_the_classes_itself(service, tmp_path):
    _, door = service
    folder = tmp_path / "own"
    folder.mkdir()
    manifest = (CATALOG / "e2b" / "abx-provider.toml").read_text(encoding="utf-8").replace('id = "e2b"', 'id = "own"')
    (folder / "abx-provider.toml").write_text(manifest, encoding="utf-8")
    (folder / "provider.mjs").write_text(OWN, encoding="utf-8")
    home = Abx()
    try:
        home.env.update(E2B_API_URL=door.url, E2B_SANDBOX_URL=door.url, E2B_API_KEY=door.key, ABX_PROVIDER="own")
        home.ok("provider", "install", folder, "--yes")
        box = home.ok("create").text.strip()
        assert home.ok("exec", box, "--", "echo", "plain").text == "plain\n"
        said = {word: json.loads(home.ok("exec", box, "--", "kit", word).text) for word in ("stream", "files", "errors", "classes", "helpers")}
        home.ok("kill", box)
    finally:
        home.close()
    assert said["stream"] == [["exit", "started", "stderr", "stdout"], "out\n", "err\n", 3]
    assert said["files"] == [3_000_005, 3_000_005, 2_999_999 % 256, 2_999_999 % 256, True]
    wanted = ["FileNotFoundError: .*nothing", "UsageError: .*path", "TypeError: FilesystemProtocol.stat: it is called on something else",
              "TypeError: FilesystemProtocol.stat: it is", "TypeError: FilesystemProtocol.stat: it is", "TypeError: SandboxProtocol",
              "TypeError: ProcessProtocol", "TypeError: ", "ProviderConfigError: .*line break", "TypeError: kit.e2b.overlay", "Error: enough"]
    assert len(said["errors"]) == len(wanted), said["errors"]
    for text, pattern in zip(said["errors"], wanted):
        assert re.match(pattern, str(text), re.S), (text, pattern)
    assert said["classes"] == [2, True, "running", "extra", True, 200]
    defaults, execution, *frozen = said["helpers"]
    assert defaults == {"a": 1, "b": 3, "c": 4} and frozen == [True, True, True]
    assert execution == {"results": [{"text": "1", "isMain": True}], "logs": {"stdout": ["a"], "stderr": []}, "executionCount": 2,
                         "error": {"name": "E", "value": "v", "traceback": "t"}}
