"""A sandbox by its names over https, with nothing but E2B_DOMAIN and a file of authorities: prints each thing that it saw."""

import base64
import json
import os
import socket
import ssl
import urllib.request

import httpx
from e2b import Sandbox
from e2b_code_interpreter import Sandbox as CodeSandbox

SERVER = """
import hashlib, http.server, base64
class H(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if "sec-websocket-key" not in self.headers:
            self.send_response(200); self.end_headers(); self.wfile.write(self.headers["host"].encode()); return
        word = self.headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
        self.wfile.write(b"HTTP/1.1 101 Switching\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\n"
            b"Sec-WebSocket-Accept: " + base64.b64encode(hashlib.sha1(word.encode()).digest()) + b"\\r\\n\\r\\n")
        self.wfile.write(self.connection.recv(100))
http.server.ThreadingHTTPServer(("127.0.0.1", 3000), H).serve_forever()
"""


def say(what, seen):
    print(json.dumps({"what": what, "seen": seen}), flush=True)


def get(url):
    return urllib.request.urlopen(url, timeout=60).read().decode()


def upgraded(address):
    """Bytes over a connection that has left HTTP."""
    host, port = address.split(":")
    s = ssl.create_default_context().wrap_socket(socket.create_connection((host, int(port)), timeout=60), server_hostname=host)
    s.sendall(f"GET / HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
              f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}\r\n\r\n".encode())
    got = b""
    while b"\r\n\r\n" not in got:
        got += s.recv(4096)
    s.sendall(b"there and back")
    while not got.endswith(b"back"):
        got += s.recv(4096)
    return got.partition(b"\r\n\r\n")[2].decode()


box = Sandbox.create(timeout=120)
address = box.get_host(3000)
say("host", address == f"3000-{box.sandbox_id}.{os.environ['E2B_DOMAIN']}")
say("command", box.commands.run("echo over tls").stdout)
box.files.write("/tmp/file", "x" * 3000000)
say("file", len(box.files.read("/tmp/file")))
box.files.write("/tmp/server.py", SERVER)
box.commands.run("python3 /tmp/server.py", background=True)
box.commands.run("until bash -c ': < /dev/tcp/127.0.0.1/3000'; do sleep 0.1; done", timeout=60)
say("port", get(f"https://{address}/") == address)
say("version", httpx.get(f"https://{address}/").http_version)
say("websocket", upgraded(address))
url = box.upload_url("/tmp/up")
httpx.post(url, files={"file": ("up", b"by a signed url")}).raise_for_status()
say("signed", get(box.download_url("/tmp/up")))
say("running", box.is_running())
box.kill()
say("killed", box.is_running())
with CodeSandbox.create(timeout=120) as code:
    say("code", code.run_code("6 * 7").text)
