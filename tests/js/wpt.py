"""Runs web platform tests with js_run and counts subtests: wpt.py JS_RUN CHECKOUT [-v] [PATH …]. Nothing of the tests is kept here.

WPT_PYTHON names a Python that has the packages wptserve and pywebsocket3: then the tests of fetch() and WebSocket run, against the
server of wpt_server.py and that of the second package."""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

# What a module's runtime is counted by: name → paths of the checkout.
AREAS = {
    'URL': ['url'],
    'encoding': ['encoding'],
    'streams': ['streams/piping', 'streams/readable-streams', 'streams/readable-byte-streams', 'streams/writable-streams',
                'streams/transform-streams', 'streams/queuing-strategies.any.js'],
    'abort': ['dom/abort'],
    'events': ['dom/events'],
    'Blob, File': ['FileAPI'],
    'Headers': ['fetch/api/headers'],
    'Request': ['fetch/api/request'],
    'Response': ['fetch/api/response'],
    'body': ['fetch/api/body'],
    'FormData': ['xhr/formdata'],
    'structuredClone': ['html/webappapis/structured-clone'],
    'base64': ['html/webappapis/atob'],
    'timers': ['html/webappapis/timers'],
    'microtasks': ['html/webappapis/microtask-queuing'],
    'hr-time': ['hr-time'],
    'digest': ['WebCryptoAPI/digest'],
    'HMAC': ['WebCryptoAPI/sign_verify/hmac.https.any.js', 'WebCryptoAPI/import_export/symmetric_importKey.https.any.js'],
    'random': ['WebCryptoAPI/getRandomValues.any.js', 'WebCryptoAPI/randomUUID.https.any.js'],
}
# With a server.
FETCH = {
    'fetch()': ['fetch/api/basic', 'fetch/api/abort', 'fetch/api/redirect', 'fetch/api/response', 'fetch/api/headers', 'fetch/content-type',
                'fetch/data-urls', 'fetch/content-length'],
    'WebSocket': ['websockets'],
}
PORTS = (8971, 8972)
SOCKETS = 8973
# Not for a runtime without documents, workers, transfers and servers.
LEFT_OUT = re.compile(r'idlharness|transferable|crashtests|[Ff]ile[Rr]eader|BlobURL|FileAPI/url|tentative|owning-type|\.html$|shadowrealm'
                      r'|resources/|support/|tools/|worker|sharedworker|single-byte-decoder|legacy-mb|/cross-realm|-cors|keepalive'
                      r'|priority|read-task-handling|enqueue-with-detached-buffer\.window|unsupported-labels|compression'
                      r'|navigate|a-element|-a-area|javascript-urls|IdnaTestV2-removed|request-clone\.sub|cache|destination/|navigation-|security-policy'
                      r'|single-byte|iso-2022|replacement-enc|big5|gb18030|shift_jis|euc|sharedarraybuffer')
# Subtests that ask for what such a runtime has not.
NOT_HERE = re.compile(r'SharedArrayBuffer|XMLHttpRequest|MutationObserver|MessageChannel|MessagePort|document is not defined|ImageData|ImageBitmap'
                      r'|WebAssembly|FileList|postMessage|is not known here|FileReader| fetch\(\) with|forbidden|in fetch with FormData|addEventListener is not|Adding invalid|onload is not|no-cors|[Rr]eferrer|[Oo]rigin header|header origin|"opaqueredirect"|expected 0 but got 30|same-origin|h2 '
                      r'|\.h2\.|expected "cors"|CORS|MediaSource|blob: URL|sync XHR|window is not defined|insecure WebSocket in a secure')
PRELUDE = '''
globalThis.self = globalThis.GLOBAL_THIS = globalThis;
globalThis.location = { search: '', pathname: '/', href: 'http://web-platform.test/', origin: 'http://web-platform.test', host: 'web-platform.test',
    protocol: 'http:', toString() { return this.href; } };
internal.base = location.href;
delete globalThis.internal;
globalThis.GLOBAL = { isWindow() { return false; }, isWorker() { return false; }, isShadowRealm() { return false; } };
'''
REPORT = '''
add_completion_callback((tests, status) => {
    print('WPT ' + JSON.stringify({ status: status.status, message: status.message,
        tests: tests.map((t) => ({ name: t.name, status: t.status, message: t.message })) }));
    quit();
});
'''


def files_of(checkout, paths):
    for path in paths:
        at = checkout / path
        found = [at] if at.is_file() else sorted(at.rglob('*.js'))
        for f in found:
            rel = str(f.relative_to(checkout))
            if (at.is_file() or re.search(r'\.(any|window)\.js$', rel)) and not LEFT_OUT.search(rel):
                yield rel


def scripts_of(checkout, rel):
    """The files that the test asks for by META lines, and itself."""
    text = (checkout / rel).read_text(errors='replace')
    for name in re.findall(r'^// META: script=(.*)$', text, re.M):
        name = name.strip().split('?')[0]
        yield checkout / name.lstrip('/') if name.startswith('/') else (checkout / rel).parent / name
    yield checkout / rel


def variants_of(checkout, rel):
    text = (checkout / rel).read_text(errors='replace')
    return [v for v in re.findall(r'^// META: variant=(.*)$', text, re.M) if 'wss' not in v and 'wpt_flags' not in v] or ['']


def data_of(checkout, rel):
    """Files that a test fetches, by the name it uses."""
    out = {}
    text = ''.join(p.read_text(errors='replace') for p in scripts_of(checkout, rel) if p.exists())
    for name in set(re.findall(r'''["'`]([\w./-]+\.\w+)["'`]''', text)):
        parent = (checkout / rel).parent
        for at in (parent / name, checkout / name.lstrip('/'), parent / '../resources' / name):
            if at.is_file() and at.suffix in ('.json', '.txt', '.html'):
                out[at.name] = at.read_text(errors='replace')
                break
    return out


def prelude(checkout, rel, variant, server):
    if server:
        return (PRELUDE.replace('http://web-platform.test', server).replace('web-platform.test', server[7:])
                .replace(f"href: '{server}/'", f"href: '{server}/{rel}'").replace("pathname: '/'", f"pathname: '/{rel}'")
                + f'location.search = {json.dumps(variant)};')
    data = data_of(checkout, rel)
    return (PRELUDE + f'location.search = {json.dumps(variant)};'
            f'const wptData = {json.dumps(data)}; globalThis.fetch = async (name) => new Response(wptData[name.split("/").pop()]);')


def filled(path, folder):
    """A script with the names of the server in it."""
    if '.sub.' not in path.name:
        return path
    text = re.sub(r'\{\{ports\[wss?\]\[0\]\}\}', str(SOCKETS), path.read_text())
    text = re.sub(r'\{\{ports\[\w+\]\[(\d)\]\}\}', lambda m: str(PORTS[int(m[1])]), text)
    text = re.sub(r'\{\{(?:host|hosts\[\w*\]\[\w*\]|domains\[\w*\])\}\}', 'localhost', text)
    out = folder / path.name
    out.write_text(text)
    return out


def run(js_run, checkout, rel, variant, server):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        before, after = folder / 'before.js', folder / 'after.js'
        before.write_text(prelude(checkout, rel, variant, server))
        after.write_text(REPORT)
        command = [js_run, before, checkout / 'resources/testharness.js', after,
                   *(filled(p, folder) for p in scripts_of(checkout, rel))]
        try:
            p = subprocess.run([str(c) for c in command], capture_output=True, text=True, errors='replace', timeout=120, check=False,
                               env={**os.environ, 'JS_RUN_INTERNAL': '1'})
        except subprocess.TimeoutExpired:
            return rel + variant, None, 'timeout'
        for line in p.stdout.split('\n'):
            if line.startswith('WPT '):
                return rel + variant, json.loads(line[4:]), p.stderr
        return rel + variant, None, p.stderr


def wait_for(port):
    for _ in range(600):
        try:
            return socket.create_connection(('127.0.0.1', port)).close()
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f'nobody listens on port {port}')


def main():
    js_run, checkout, *rest = sys.argv[1:]
    verbose = '-v' in rest
    rest = [r for r in rest if r != '-v']
    checkout = pathlib.Path(checkout).resolve()
    python, server, process, sockets = os.environ.get('WPT_PYTHON'), None, None, None
    areas = {path: [path] for path in rest} or (FETCH if python else AREAS)
    if python:
        process = subprocess.Popen([python, pathlib.Path(__file__).with_name('wpt_server.py'), checkout, *map(str, PORTS)],
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=checkout)
        process.stdout.readline()
        server = f'http://localhost:{PORTS[0]}'
        sockets = subprocess.Popen([python, '-m', 'pywebsocket3.standalone', '-p', str(SOCKETS), '-d', checkout, '-w', checkout / 'websockets/handlers'],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=checkout)
        wait_for(SOCKETS)
    jobs = concurrent.futures.ThreadPoolExecutor(int(os.environ.get('WPT_JOBS', '2')))
    for area, paths in areas.items():
        passed = total = 0
        todo = [(f, v) for f in files_of(checkout, paths) for v in variants_of(checkout, f)]
        for rel, result, err in jobs.map(lambda t: run(js_run, checkout, *t, server), todo):
            if (result is None and NOT_HERE.search(f'{rel} {err}')) or (not server and 'bad-port' in rel):
                continue
            if result is None or not result['tests']:
                total += 1
                if verbose:
                    print(f'  {rel}: does not run: {(err.strip().splitlines() or ["no result"])[0][:200]}')
                continue
            for t in result['tests']:
                if t['status'] != 0 and NOT_HERE.search(f'{rel} {t["name"]} {t["message"]}'):
                    continue
                total += 1
                passed += t['status'] == 0
                if verbose and t['status'] != 0:
                    print(f'  {rel}: {t["name"][:120]}: {(t["message"] or "")[:160]}')
        print(f'{area}: {passed} of {total}', flush=True)
    if process:
        process.send_signal(signal.SIGINT)  # so that it ends its own processes
        process.wait()
        sockets.kill()
        sockets.wait()


main()
