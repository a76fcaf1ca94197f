"""The sandboxes behind the E2B door, as clients use them that read slowly, cut off, lie or send nonsense; memory stays bounded and the
door goes on. And ports: what HTTP services in a sandbox get and answer."""

import base64
import gzip
import hashlib
import json
import os
import random
import socket
import struct
import threading
import time

import pytest

from door import Door
from harness import count, descriptors, own_memory, wait_for

MIB = 1 << 20


@pytest.fixture(scope="module")
def door(shared):
    d = Door(shared, "--provider", "local")
    yield d
    d.stop()


@pytest.fixture(scope="module")
def box(door):
    made = door.create()
    yield made
    door("DELETE", f"/sandboxes/{made['sandboxID']}")


def envelope(message, flags=0):
    data = json.dumps(message).encode()
    return bytes([flags]) + struct.pack(">I", len(data)) + data


def head(door, box, target, port=49983, method="POST", **headers):
    lines = [f"{method} {target} HTTP/1.1", f"Host: 127.0.0.1:{door.port}", f"E2b-Sandbox-Id: {box['sandboxID']}",
             f"E2b-Sandbox-Port: {port}", f"X-Access-Token: {box['envdAccessToken']}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()


def connect(door):
    return socket.create_connection(("127.0.0.1", door.port), timeout=60)


def rpc(door, box, method, message, status=200, **headers):
    answer = door.data(box, "POST", method, body=json.dumps(message).encode(),
                       headers={"Content-Type": "application/json", **headers})
    assert answer.status == status, repr(answer)
    return answer.json


def start(door, box, *words, stdin=False, **more):
    """A socket on which Start's stream comes."""
    s = connect(door)
    body = envelope({"process": {"cmd": words[0], "args": list(words[1:])}, "stdin": stdin, **more})
    s.sendall(head(door, box, "/process.Process/Start", Content_Type="application/connect+json", Content_Length=len(body))
              + body)
    return s


def read_until(s, text, limit=64 * MIB):
    seen = b""
    while text not in seen:
        got = s.recv(65536)
        assert got and len(seen) < limit, seen[-300:]
        seen += got
    return seen


def pid_of(s):
    seen = read_until(s, b'"pid":')
    while b"}" not in seen.split(b'"pid":')[1]:
        seen += s.recv(1000)
    return int(seen.split(b'"pid":')[1].split(b"}")[0])


def run(door, box, script):
    with start(door, box, "/bin/sh", "-c", script) as s:
        read_until(s, b'"end"')


def check_alive(door, box):
    assert door.is_running(box)
    answer = door.data(box, "POST", "/filesystem.Filesystem/Stat", body=b'{"path":"/"}',
                       headers={"Content-Type": "application/json"})
    assert answer.status == 200, repr(answer)


@pytest.fixture
def steady(door, box):
    """Descriptors of the door come back to what they were, but for connections to the sandbox that are kept for the next
    request, and its memory does not pass a bound."""
    check_alive(door, box)
    before, memory = descriptors(door.pid), own_memory(door.pid)
    yield lambda mib: own_memory(door.pid) < memory + mib * 1024
    check_alive(door, box)
    wait_for(lambda: descriptors(door.pid) <= max(4 * before, before + 40), "connections are given back")


# --- who reads slowly, or not at all ------------------------------------------------------------------------------


def test_a_download_that_nobody_reads_waits(door, box, steady):
    run(door, box, "head -c 100000000 /dev/zero > big")
    with connect(door) as s:
        s.sendall(head(door, box, "/files?path=big", method="GET"))
        seen = s.recv(1000)
        assert b"200 OK" in seen and b"Content-Length: 100000000" in seen
        time.sleep(0.5)
        assert steady(24)


def test_output_that_nobody_reads_holds_the_process(door, box, steady):
    with start(door, box, "/bin/sh", "-c", "yes") as s:
        pid = pid_of(s)
        time.sleep(0.5)
        assert steady(24)
        with start(door, box, "/bin/true") as other:  # and nobody else
            read_until(other, b'"end"')
    wait_for(lambda: pid in [p["pid"] for p in rpc(door, box, "/process.Process/List", {}).get("processes", [])],
             "it goes on without its client")
    rpc(door, box, "/process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
    wait_for(lambda: not rpc(door, box, "/process.Process/List", {}).get("processes"), "it is gone")


def test_one_follower_that_reads_nothing_holds_the_others_and_lets_go_when_it_leaves(door, box, steady):
    with start(door, box, "/bin/sh", "-c", "yes") as s:
        pid = pid_of(s)
        stalled = connect(door)
        body = envelope({"process": {"pid": pid}})
        stalled.sendall(head(door, box, "/process.Process/Connect", Content_Type="application/connect+json",
                             Content_Length=len(body)) + body)
        read_until(stalled, b'"start"')
        s.settimeout(1)
        with pytest.raises(socket.timeout):
            while True:
                assert s.recv(MIB)
        stalled.close()
        s.settimeout(60)
        assert s.recv(MIB)
        rpc(door, box, "/process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
        read_until(s, b"signal: killed", 1 << 40)


# --- who cuts off -------------------------------------------------------------------------------------------------


def test_uploads_that_are_cut_off(door, box, steady):
    for n in range(count(20, 2000)):
        with connect(door) as s:
            s.sendall(head(door, box, f"/files?path=cut/{n}", Content_Type="application/octet-stream",
                           Content_Length=10 * MIB) + bytes(random.randrange(100000)))
    with connect(door) as s:
        s.sendall(head(door, box, "/files", Content_Type="multipart/form-data; boundary=b", Transfer_Encoding="chunked")
                  + b"40\r\n--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"x\"\r\n\r\n")
    check_alive(door, box)
    wait_for(lambda: rpc(door, box, "/filesystem.Filesystem/ListDir", {"path": "cut"}).get("entries", []) == [],
             "nothing of them is left")


def upload(door, box, path, content):
    answer = door.data(box, "POST", f"/files?path={path}", body=content, headers={"Content-Type": "application/octet-stream"})
    assert answer.status == 200, repr(answer)


def test_an_upload_is_there_whole_or_not_at_all(door, box):
    upload(door, box, "whole/old", b"old bytes")
    run(door, box, "chmod 640 whole/old; ln -s old whole/link")
    for name in ("old", "link", "new"):
        for length in ({"Content_Length": 10 * MIB}, {"Transfer_Encoding": "chunked"}):
            with connect(door) as s:
                s.sendall(head(door, box, f"/files?path=whole/{name}", Content_Type="application/octet-stream", **length)
                          + b"10000\r\n" + bytes(65000))

    def names():
        return sorted(e["name"] for e in rpc(door, box, "/filesystem.Filesystem/ListDir", {"path": "whole"})["entries"])
    wait_for(lambda: names() == ["link", "old"], "half files are gone")
    assert door.data(box, "GET", "/files?path=whole/old").body == b"old bytes"
    upload(door, box, "whole/link", b"new bytes")
    assert door.data(box, "GET", "/files?path=whole/old").body == b"new bytes"
    entry = rpc(door, box, "/filesystem.Filesystem/Stat", {"path": "whole/old"})["entry"]
    assert entry["mode"] == 0o640 and entry["owner"] == "user" and "symlinkTarget" not in entry


def test_who_watches_sees_an_upload_as_if_it_were_written_in_its_place(door, box):
    rpc(door, box, "/filesystem.Filesystem/MakeDir", {"path": "seen"})
    watcher = {"watcherId": rpc(door, box, "/filesystem.Filesystem/CreateWatcher", {"path": "seen"})["watcherId"]}
    for expected in (["EVENT_TYPE_CREATE", "EVENT_TYPE_CHMOD", "EVENT_TYPE_WRITE"], ["EVENT_TYPE_CHMOD", "EVENT_TYPE_WRITE"]):
        upload(door, box, "seen/file", b"bytes")
        events = []

        def all_seen():
            events.extend(rpc(door, box, "/filesystem.Filesystem/GetWatcherEvents", watcher).get("events", []))
            return len(events) >= len(expected)
        wait_for(all_seen)
        assert [(e["type"], e["name"]) for e in events] == [(type, "file") for type in expected]
    rpc(door, box, "/filesystem.Filesystem/RemoveWatcher", watcher)


def test_streams_that_are_dropped_leave_their_processes(door, box, steady):
    number = count(20, 500)
    pids = []
    for _ in range(number):
        with start(door, box, "/bin/sleep", "1000", tag="dropped") as s:
            pids.append(pid_of(s))
    listed = rpc(door, box, "/process.Process/List", {})["processes"]
    assert {p["pid"] for p in listed} >= set(pids) and all(p["tag"] == "dropped" for p in listed)
    for pid in pids:
        rpc(door, box, "/process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
    wait_for(lambda: not rpc(door, box, "/process.Process/List", {}).get("processes"), "all are gone")


def test_code_that_nobody_waits_for_is_interrupted(door, box, steady):
    body = json.dumps({"code": "import time\ntime.sleep(1000)"}).encode()
    with connect(door) as s:
        s.sendall(head(door, box, "/execute", 49999, Content_Type="application/json", Content_Length=len(body)) + body)
        read_until(s, b"number_of_executions")
    answer = door.data(box, "POST", "/execute", 49999, json.dumps({"code": "6*7"}).encode())
    assert answer.status == 200 and b'"text":"42"' in answer.body, repr(answer)


# --- who sends nonsense -------------------------------------------------------------------------------------------


def test_nonsense(door, box, steady):
    chance = random.Random(7)
    for n in range(count(60, 5000)):
        with connect(door) as s:
            noise = chance.randbytes(chance.randrange(1, 300))
            kind = n % 6
            try:
                if kind == 0:
                    s.sendall(noise)
                elif kind == 1:
                    s.sendall(head(door, box, "/process.Process/Start", Content_Type="application/connect+json",
                                   Content_Length=len(noise)) + noise)
                elif kind == 2:
                    s.sendall(head(door, box, "/process.Process/StreamInput", Content_Type="application/connect+json",
                                   Transfer_Encoding="chunked") + b"%x\r\n%s\r\n0\r\n\r\n" % (len(noise), noise))
                elif kind == 3:
                    s.sendall(head(door, box, "/files?path=n", Content_Type="application/octet-stream",
                                   Content_Encoding="gzip", Content_Length=len(noise)) + noise)
                elif kind == 4:
                    s.sendall(head(door, box, "/execute", 49999, Content_Type="application/json",
                                   Content_Length=len(noise)) + noise)
                else:
                    s.sendall(head(door, box, "/" + noise.hex(), 8765, method="GET"))
                s.shutdown(socket.SHUT_WR)
                s.settimeout(20)
                while s.recv(65536):
                    pass
            except OSError:
                pass
    rpc(door, box, "/filesystem.Filesystem/Remove", {"path": "n"})


def test_gzip_that_grows_is_written_as_fast_as_it_can_be(door, box, steady):
    size = 300 * MIB
    packed = gzip.compress(bytes(size), 9)
    answer = door.data(box, "POST", "/files?path=grown", body=packed,
                       headers={"Content-Type": "application/octet-stream", "Content-Encoding": "gzip"})
    assert answer.status == 200, repr(answer)
    assert steady(24)
    assert rpc(door, box, "/filesystem.Filesystem/Stat", {"path": "grown"})["entry"]["size"] == str(size)
    rpc(door, box, "/filesystem.Filesystem/Remove", {"path": "grown"})


# --- much of it ---------------------------------------------------------------------------------------------------


def test_many_files_in_one_request(door, box, steady):
    number = count(200, 20000)
    parts = b"".join(b'--b\r\nContent-Disposition: form-data; name="file"; filename="many/%d"\r\n\r\n%d\r\n' % (n, n)
                     for n in range(number))
    answer = door.data(box, "POST", "/files", body=parts + b"--b--\r\n",
                       headers={"Content-Type": "multipart/form-data; boundary=b"})
    assert answer.status == 200 and [f["name"] for f in answer.json] == [str(n) for n in range(number)]
    listed = rpc(door, box, "/filesystem.Filesystem/ListDir", {"path": "many"})["entries"]
    assert len(listed) == number and listed[0]["size"] == "1"
    assert [f["name"] for f in listed] == sorted(f["name"] for f in listed)


def test_a_large_file_there_and_back(door, box, steady):
    data = random.Random(1).randbytes(MIB) * count(40, 10240)
    answer = door.data(box, "POST", "/files?path=large", body=data,
                       headers={"Content-Type": "application/octet-stream", "X-Metadata-Kind": "random"})
    assert answer.status == 200 and answer.json[0]["metadata"] == {"kind": "random"}, repr(answer)
    assert steady(24)
    back = door.data(box, "GET", "/files?path=large")
    assert back.headers["Content-Length"] == str(len(data))
    assert hashlib.sha256(back.body).digest() == hashlib.sha256(data).digest()
    part = door.data(box, "GET", "/files?path=large", headers={"Range": "bytes=1000000-1000009"})
    assert part.status == 206 and part.body == data[1000000:1000010]
    assert rpc(door, box, "/filesystem.Filesystem/Stat", {"path": "large"})["entry"]["metadata"] == {"kind": "random"}
    assert steady(24)


def test_watchers_have_a_limit_and_a_bounded_queue(door, box, steady):
    made = []
    while True:
        answer = door.data(box, "POST", "/filesystem.Filesystem/CreateWatcher", body=b'{"path":"."}',
                           headers={"Content-Type": "application/json"})
        if answer.status != 200:
            break
        made.append(answer.json["watcherId"])
        assert len(made) < 2000
    assert answer.status == 429 and answer.json["code"] == "resource_exhausted", repr(answer)
    assert len(made) > 20
    for watcher in made[1:]:
        rpc(door, box, "/filesystem.Filesystem/RemoveWatcher", {"watcherId": watcher})
    run(door, box, f"python3 -c 'for i in range({count(30000, 200000)}): open(\"w\", \"w\").close()'")
    wait_for(lambda: steady(40), "its queue is no larger than its bound")
    answer = door.data(box, "POST", "/filesystem.Filesystem/GetWatcherEvents",
                       body=json.dumps({"watcherId": made[0]}).encode(), headers={"Content-Type": "application/json"})
    assert answer.status == 200 or answer.json["code"] == "data_loss", repr(answer)
    rpc(door, box, "/filesystem.Filesystem/RemoveWatcher", {"watcherId": made[0]})


def test_what_leads_to_nothing_is_not_there(door, box):
    run(door, box, "ln -s nowhere broken; ln -s loop loop")
    for name in ("broken", "loop", "missing"):
        answer = door.data(box, "GET", f"/files?path={name}")
        assert (answer.status, answer.json["message"]) == (404, f"path '/home/user/{name}' does not exist"), repr(answer)


# --- ports --------------------------------------------------------------------------------------------------------

SERVICE = r"""
import base64, hashlib, socket, socketserver, threading, time
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        head = []
        while True:
            line = self.rfile.readline().strip()
            if not line: break
            head.append(line.decode())
        what = head[0].split()[1]
        names = {h.split(":")[0].lower(): h.split(":", 1)[1].strip() for h in head[1:]}
        w = self.wfile
        if what == "/head":
            text = "\n".join(head).encode()
            w.write(b"HTTP/1.1 200 Fine\r\nX-Own: yes\r\nContent-Length: %d\r\n\r\n%s" % (len(text), text))
        elif what == "/sum":
            n, h = int(names.get("content-length", -1)), hashlib.sha256()
            while n > 0:
                got = self.rfile.read(min(n, 65536)); h.update(got); n -= len(got)
            while n < 0:
                size = int(self.rfile.readline(), 16)
                h.update(self.rfile.read(size)); self.rfile.readline()
                if not size: break
            w.write(b"HTTP/1.1 201 Made\r\nContent-Length: 64\r\n\r\n" + h.hexdigest().encode())
        elif what == "/large":
            w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 50000000\r\n\r\n")
            for _ in range(50): w.write(bytes(1000000))
        elif what == "/slow":
            w.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nfirst\r\n")
            time.sleep(1)
            w.write(b"6\r\nsecond\r\n0\r\n\r\n")
        elif what == "/end":
            w.write(b"HTTP/1.0 200 OK\r\n\r\nuntil the end")
        elif what == "/cut":
            w.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort")
        elif what == "/junk":
            w.write(b"\x00\x01 no http\r\n\r\n")
        elif what == "/echo":
            w.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + names["upgrade"].encode() + b"\r\n\r\nhello ")
            while True:
                got = self.rfile.read1(65536)
                if not got: break
                w.write(got)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = daemon_threads = True
Server(("127.0.0.1", 8080), Handler).serve_forever()
"""


@pytest.fixture(scope="module")
def service(door, box):
    answer = door.data(box, "POST", "/files?path=service.py", body=SERVICE.encode(),
                       headers={"Content-Type": "application/octet-stream"})
    assert answer.status == 200
    s = start(door, box, "python3", "/home/user/service.py")
    pid = pid_of(s)
    wait_for(lambda: door.data(box, "GET", "/head", 8080).status == 200, "the service listens")
    yield box
    rpc(door, box, "/process.Process/SendSignal", {"process": {"pid": pid}, "signal": "SIGNAL_SIGKILL"})
    s.close()


def test_a_service_gets_the_request_as_it_was_sent(door, service):
    answer = door.data(service, "GET", "/head", 8080)
    assert answer.headers["X-Own"] == "yes"
    lines = answer.body.decode().split("\n")
    assert lines[0] == "GET /head HTTP/1.1" and "Connection: close" in lines
    assert f"Host: 127.0.0.1:{door.port}" in lines
    assert not [h for h in lines if h.lower().startswith("e2b-")]
    assert door.data(service, "HEAD", "/head", 8080).headers["Content-Length"] == str(len(answer.body) + 1)


def test_a_service_sees_no_secret_of_the_door(door, service):
    secrets = {"X-API-Key": door.key, "Authorization": f"Bearer {door.key}", "X-Other": service["envdAccessToken"]}
    seen = door.data(service, "GET", "/head", 8080, headers=secrets).body.decode()
    assert door.key not in seen and service["envdAccessToken"] not in seen
    seen = door.data(service, "GET", "/head", 8080, headers={"X-API-Key": "mine", "Authorization": "Bearer mine"}).body.decode()
    assert "X-API-Key: mine" in seen and "Authorization: Bearer mine" in seen


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_goes_to_a_service_whole(door, service, chunked, steady):
    data = random.Random(2).randbytes(30 * MIB)
    with connect(door) as s:
        if chunked:
            s.sendall(head(door, service, "/sum", 8080, Transfer_Encoding="chunked"))
            for at in range(0, len(data), 100000):
                piece = data[at:at + 100000]
                s.sendall(b"%x\r\n%s\r\n" % (len(piece), piece))
            s.sendall(b"0\r\n\r\n")
        else:
            s.sendall(head(door, service, "/sum", 8080, Content_Length=len(data)) + data)
        seen = read_until(s, hashlib.sha256(data).hexdigest().encode())
        assert seen.startswith(b"HTTP/1.1 201 ")
    assert steady(24)


def test_an_answer_that_nobody_reads_waits(door, service, steady):
    with connect(door) as s:
        s.sendall(head(door, service, "/large", 8080, method="GET"))
        assert b"200 OK" in s.recv(1000)
        time.sleep(0.5)
        assert steady(24)
    assert len(door.data(service, "GET", "/large", 8080).body) == 50000000


def test_answers_of_every_framing(door, service):
    with connect(door) as s:
        s.sendall(head(door, service, "/slow", 8080, method="GET"))
        began = read_until(s, b"first")
        assert b"second" not in began
        read_until(s, b"0\r\n\r\n")
    assert door.data(service, "GET", "/end", 8080).body == b"until the end"
    with connect(door) as s:
        s.sendall(head(door, service, "/cut", 8080, method="GET"))
        with pytest.raises(OSError):
            read_until(s, b"never")
    junk = door.data(service, "GET", "/junk", 8080)
    assert junk.status == 502 and junk.json["code"] == 502 and junk.json["port"] == 8080, repr(junk)
    closed = door.data(service, "GET", "/", 8081)
    assert closed.status == 502 and closed.json == {
        "sandboxId": service["sandboxID"], "message": "The sandbox is running but port is not open", "port": 8081, "code": 502}


def test_another_protocol_gets_the_bare_connection(door, service, steady):
    data = random.Random(3).randbytes(5 * MIB)
    with connect(door) as s:
        s.sendall(head(door, service, "/echo", 8080, method="GET", Connection="Upgrade", Upgrade="websocket"))
        seen = read_until(s, b"hello ")
        assert seen.startswith(b"HTTP/1.1 101 ") and b"Upgrade: websocket" in seen
        writer = threading.Thread(target=lambda: (s.sendall(data), s.shutdown(socket.SHUT_WR)))
        writer.start()
        back = b""
        while True:
            got = s.recv(65536)
            if not got:
                break
            back += got
        writer.join()
        assert len(back) == len(data)
        assert back == data


# --- the sandbox ends in the middle -------------------------------------------------------------------------------


def test_a_sandbox_that_is_killed_under_everything(door, steady):
    made = door.create()
    run(door, made, "head -c 100000000 /dev/zero > big")
    busy = [start(door, made, "/bin/sh", "-c", "yes"), start(door, made, "/bin/sleep", "1000")]
    for s in busy:
        read_until(s, b'"start"')
    down, up, watch = connect(door), connect(door), connect(door)
    down.sendall(head(door, made, "/files?path=big", method="GET"))
    assert down.recv(1000)
    up.sendall(head(door, made, "/files?path=up", Content_Type="application/octet-stream", Content_Length=1 << 30)
               + bytes(100000))
    body = envelope({"path": "."})
    watch.sendall(head(door, made, "/filesystem.Filesystem/WatchDir", Content_Type="application/connect+json",
                       Content_Length=len(body)) + body)
    read_until(watch, b'"start"')
    assert door("DELETE", f"/sandboxes/{made['sandboxID']}").status == 204
    for s in [*busy, down, up, watch]:
        with pytest.raises(ConnectionResetError):
            while s.recv(MIB):
                pass
        s.close()
    assert not door.is_running(made)
    answer = door.data(made, "GET", "/files?path=big")
    assert answer.status == 502 and answer.json["message"] == "The sandbox was not found"
