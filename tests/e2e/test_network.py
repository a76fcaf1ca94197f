"""--network internet: what a sandbox reaches and what it does not, and that its helper ends with it.

Everything happens on a machine that the test makes (network_lab.py); nothing leaves this one."""

import json
import os
import shutil
import signal
import subprocess
from pathlib import Path

import pytest

from harness import ABX, ROOT, Abx, is_alive, reap, status, wait_for
from network_lab import GROUPS, METADATA, OTHER, OWN, PORT, SERVER, TUN, Lab

CLIENT = (Path(__file__).parent / "network_client.py").read_text()
HELPER_NAMES = ["pasta", "slirp4netns"]
TARGETS = [OWN, OTHER, "127.0.0.1", "127.0.0.53", METADATA, "169.254.1.1", "10.0.2.2", "10.0.2.3", "0.0.0.0", "0.0.0.1",
           "255.255.255.255", *GROUPS]
ASK = (f"import socket; print(socket.create_connection(('server.test', {PORT}), 20).makefile().readline().strip())")


class Inside(Abx):
    """The program as it runs on the machine of the lab."""

    def __init__(self, lab, **more):
        super().__init__(**more)
        self.lab = lab

    def start(self, *args, program=ABX, enter=None, **more):
        words = [*(enter or self.lab.enter), program, *args]
        return super().start(*words[1:], program=words[0], **more)

    def helper(self, sandbox):
        return self.info(sandbox)["networkHelper"]

    def with_path(self, *programs, **scripts):
        """A PATH that holds these programs and scripts of sh only."""
        folder = self.folder / f"bin{len(os.listdir(self.folder))}"
        folder.mkdir()
        for name in programs:
            (folder / name).symlink_to(shutil.which(name))
        for name, text in scripts.items():
            (folder / name).write_text(f"#!/bin/sh\n{text}\n")
            (folder / name).chmod(0o755)
        return {"PATH": str(folder)}


@pytest.fixture(scope="module")
def lab():
    lab = Lab()
    yield lab
    lab.close()


@pytest.fixture
def net(lab):
    a = Inside(lab, furnished=True)
    yield a
    a.close()
    reap()


@pytest.fixture(scope="module", params=HELPER_NAMES)
def online(request, lab):
    """A sandbox with a network by each of the helpers: the program, the id, and the helper."""
    a = Inside(lab, furnished=True)
    sandbox = a.create("--network", "internet", env=a.with_path(request.param))
    yield a, sandbox, request.param
    a.close()
    reap()


def gone(pid):
    reap()
    return not is_alive(pid)


def try_all(net, sandbox, targets, device="tap0", seconds=1.5, ordinary=False):
    plan = json.dumps({"targets": targets, "port": PORT, "device": device, "seconds": seconds, "ordinary": ordinary})
    return json.loads(net.ok("exec", sandbox, "--", "python3", "-c", CLIENT, plan).out)


# --- what is reached -------------------------------------------------------------------------------------


def test_names_and_tcp(online):
    net, sandbox, name = online
    assert net.ok("exec", sandbox, "--", "python3", "-c", ASK).text == f"server {SERVER}\n"
    assert net.helper(sandbox)["name"] == name


def test_a_name_that_is_not_there_is_told_at_once(online):
    net, sandbox, _ = online
    r = net.sh(sandbox, "getent hosts nobody.test; echo $?")
    assert r.text == "2\n"


def test_every_plain_way_to_the_server_works(online):
    """So that a way which is closed below was not merely broken."""
    net, sandbox, _ = online
    answered = try_all(net, sandbox, [SERVER], seconds=20, ordinary=True)
    for way in ("plain", "bind_device", "bind_index"):
        assert f"{SERVER} {way} tcp" in answered and f"{SERVER} {way} udp" in answered
    assert f"{SERVER} pktinfo udp" in answered


def test_a_stream_is_whole(online):
    net, sandbox, _ = online
    script = f"""
import hashlib, os, socket, threading
s = socket.create_connection(("{SERVER}", {PORT}), 60)
f = s.makefile("rb"); f.readline()
data = os.urandom(8 << 20)
threading.Thread(target=s.sendall, args=(data,)).start()
print(hashlib.sha256(f.read(len(data))).digest() == hashlib.sha256(data).digest())
"""
    assert net.ok("exec", sandbox, "--", "python3", "-c", script).text == "True\n"


# --- what is not -----------------------------------------------------------------------------------------


def test_the_machine_itself_answers_to_itself(lab):
    """The targets are there: a program of the machine reaches them."""
    plan = json.dumps({"targets": [OWN, OTHER, "127.0.0.1", METADATA, *GROUPS], "port": PORT, "device": None, "seconds": 20})
    out = subprocess.run([*lab.enter, "python3", "-c", CLIENT, plan], stdout=subprocess.PIPE, check=True).stdout
    for target in (OWN, OTHER, "127.0.0.1", METADATA):
        assert f"{target} plain tcp" in json.loads(out) and f"{target} plain udp" in json.loads(out), target
    for group in GROUPS:
        assert f"{group} plain udp" in json.loads(out), group


def test_the_machine_and_metadata_are_out_of_reach(online, lab):
    """Neither by the routes nor around them: bound to the device, by an index beside the datagram, without a router."""
    net, sandbox, _ = online
    lab.contacts()
    assert try_all(net, sandbox, TARGETS) == []
    net.ok("exec", sandbox, "--", "python3", "-c", ASK)
    wait_for(lambda: any(c["at"] == SERVER for c in seen(lab)), "the server was asked")
    assert [c for c in seen(lab) if c["at"] != SERVER] == []


log = []


def seen(lab):
    log.extend(lab.contacts())
    return log


def test_nobody_reaches_a_server_inside(online, lab):
    net, sandbox, _ = online
    net.ok("exec", "-d", sandbox, "--", "python3", "-m", "http.server", "9999", "--bind", "0.0.0.0")
    wait_for(lambda: b"9999" in net("port", sandbox).out, "it listens")
    code = f"import socket\nfor a in {('127.0.0.1', OWN, OTHER)}: print(socket.socket().connect_ex((a, 9999)))"
    out = subprocess.run([*lab.enter, "python3", "-c", code], stdout=subprocess.PIPE, check=True).stdout
    assert out == b"111\n" * 3


def test_only_the_device_and_the_loopback_are_there(online):
    net, sandbox, _ = online
    r = net.sh(sandbox, "tail -n +3 /proc/net/dev | cut -d: -f1; cat /etc/resolv.conf; cat /proc/net/if_inet6")
    lines = r.text.split("\n")
    assert sorted(x.strip() for x in lines[:2]) == ["lo", "tap0"]
    assert lines[2] == "nameserver 10.0.2.3"
    assert [x.split()[-1] for x in lines[3:] if x] == ["lo"]  # no IPv6 on the device


def test_routes_cannot_be_changed_from_inside(online):
    net, sandbox, _ = online
    script = """
import errno, fcntl, socket, struct
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
for request in (0x890B, 0x890C, 0x8914, 0x8916, 0x8955):  # add and delete a route, flags, address, neighbour
    try:
        fcntl.ioctl(s, request, b"tap0" + bytes(116))
        print("done", hex(request))
    except OSError as e:
        print(errno.errorcode[e.errno])
n = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
# RTM_DELROUTE of the blackhole 169.254.0.0/16
body = struct.pack("BBBBBBBBI", 2, 16, 0, 0, 254, 0, 0, 6, 0) + struct.pack("HH4B", 8, 1, 169, 254, 0, 0)
n.send(struct.pack("IHHII", 16 + len(body), 25, 5, 1, 0) + body)
print(errno.errorcode[-struct.unpack("i", n.recv(1000)[16:20])[0]])
"""
    for user in ("user", "root"):
        r = net.ok("exec", "-u", user, sandbox, "--", "python3", "-c", script)
        assert r.text.split() == ["EPERM"] * 6, r


def test_the_helper_holds_nothing_of_the_caller(online):
    net, sandbox, name = online
    pid = net.helper(sandbox)["pid"]
    fields = status(pid)
    assert fields["Uid"].split()[0] == str(os.getuid())
    assert fields["NoNewPrivs"].strip() == "1" and fields["Seccomp"].strip() == "2"
    # SYS_ADMIN (21) of pasta is one in the sandbox's own user namespace
    assert int(fields["CapEff"], 16) & ~(1 << 10 | 1 << 21) == 0
    if name == "pasta" and not ROOT:
        return  # it hides itself from its own user
    if name == "pasta":
        assert os.readlink(f"/proc/{pid}/ns/user") != os.readlink("/proc/self/ns/user")
    opened = [os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")]
    assert all(x.split(":")[0] in ("pipe", "socket", "net", "anon_inode") or x in (TUN, "/dev/null") for x in opened), opened
    assert Path(f"/proc/{pid}/environ").read_bytes().count(b"=") == 1
    assert os.getsid(pid) == pid and str(net.home) not in os.readlink(f"/proc/{pid}/cwd")


# --- its life --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HELPER_NAMES)
def test_run_with_a_network(net, name):
    before = helpers_of(net)
    r = net.ok("run", "--network", "internet", "--", "python3", "-c", ASK, env=net.with_path(name))
    assert r.text == f"server {SERVER}\n" and r.err == b""
    wait_for(lambda: helpers_of(net) == before, "the helper is gone")


def helpers_of(net):
    """Living helpers that came since this home was made."""
    found = []
    for pid in net.left():
        comm = status(pid).get("Name", "").strip()
        if comm.startswith(("pasta", "passt", "slirp4netns")):
            found.append(pid)
    return sorted(found)


def end_by_kill(net, sandbox):
    net.ok("kill", sandbox)


def end_by_timeout(net, sandbox):
    net.ok("extend", sandbox, "200ms")


def end_by_death(net, sandbox):
    os.kill(net.info(sandbox)["pid"], signal.SIGKILL)


def end_while_paused(net, sandbox):
    net.ok("pause", sandbox)
    net.ok("kill", sandbox)


@pytest.mark.parametrize("name", HELPER_NAMES)
@pytest.mark.parametrize("end", [end_by_kill, end_by_timeout, end_by_death, end_while_paused])
def test_the_helper_ends_with_its_sandbox(net, name, end):
    sandbox = net.create("--network", "internet", env=net.with_path(name))
    pid = net.helper(sandbox)["pid"]
    assert is_alive(pid)
    end(net, sandbox)
    wait_for(lambda: gone(pid), "the helper is gone")


@pytest.mark.parametrize("name", HELPER_NAMES)
def test_the_helper_ends_when_run_is_killed(net, name):
    p = net.start("run", "--network", "internet", "--", "sh", "-c", "echo up; sleep 1000", env=net.with_path(name))
    assert p.stdout.readline() == b"up\n"
    assert len(helpers_of(net)) == 1
    p.kill()
    p.communicate()
    wait_for(lambda: helpers_of(net) == [], "the helper is gone")
    wait_for(lambda: net.sandboxes() == [] and net.trash() == [], "its folder is gone")


def test_a_create_that_is_killed_leaves_no_helper(net):
    env = net.with_path("sleep", pasta="exec sleep 1000")  # never ready
    p = net.start("create", "--network", "internet", env=env)
    asleep = wait_for(lambda: [x for x in net.left() if status(x).get("Name", "").strip() == "sleep"], "the helper starts")
    p.kill()
    p.communicate()
    wait_for(lambda: all(gone(x) for x in asleep) and net.left() == [], "all is gone")
    net.ok("gc")
    assert net.sandboxes() == []


def test_gc_ends_a_helper_that_slipped_away(net):
    """One that let go of what ties it to its sandbox."""
    sandbox = net.create("--network", "internet", env=net.with_path(pasta=f'exec {shutil.which("pasta")} "$@" </dev/null'))
    pid = net.helper(sandbox)["pid"]
    first = net.info(sandbox)["pid"]
    os.kill(first, signal.SIGKILL)
    wait_for(lambda: gone(first), "the sandbox is dead")
    assert is_alive(pid)
    net.ok("gc")
    wait_for(lambda: gone(pid), "the helper is gone")


def test_the_death_of_a_helper_is_told_and_does_no_harm(net):
    sandbox = net.create("--network", "internet")
    os.kill(net.helper(sandbox)["pid"], signal.SIGKILL)
    wait_for(lambda: net.helper(sandbox)["alive"] is False, "info says it")
    assert net.ok("exec", sandbox, "--", "echo", "lives").text == "lives\n"
    net.ok("kill", sandbox)
    assert net.sandboxes() == [] and net.left() == []


def test_a_connection_lives_through_a_pause(net):
    sandbox = net.create("--network", "internet")
    script = f"""
import socket, sys
s = socket.create_connection(("{SERVER}", {PORT}), 60); f = s.makefile("rb"); f.readline()
for line in sys.stdin.buffer:
    s.sendall(line); sys.stdout.buffer.write(f.readline()); sys.stdout.flush()
"""
    p = net.start("exec", "-i", sandbox, "--", "python3", "-c", script, stdin=subprocess.PIPE)
    for word in (b"one\n", b"two\n"):
        p.stdin.write(word)
        p.stdin.flush()
        assert p.stdout.readline() == word
        if word == b"one\n":
            net.ok("pause", sandbox)
            assert net.helper(sandbox)["alive"] is True
            net.ok("resume", sandbox)
    p.communicate()


def test_forks_and_snapshots(net):
    """A fork may reach what its source may, unless something else is said; a snapshot holds files only."""
    sandbox = net.create("--network", "internet")
    copy = net.ok("fork", sandbox).text.strip()
    closed = net.ok("fork", "--network", "none", sandbox).text.strip()
    assert net.helper(copy)["pid"] != net.helper(sandbox)["pid"]
    assert net.info(closed)["network"] == "none" and "networkHelper" not in net.info(closed)
    net.ok("kill", sandbox)
    assert net.ok("exec", copy, "--", "python3", "-c", ASK).text == f"server {SERVER}\n"
    saved = net.ok("snapshot", "create", copy).text.strip()
    for network, code in (("none", 1), ("internet", 0)):
        made = net.create("--snapshot", saved, "--network", network)
        assert net.info(made)["network"] == network
        assert net("exec", made, "--", "python3", "-c", ASK).code == code


def test_a_program_that_is_no_one_shot(net):
    """With a secret in memory it has its sandboxes made by a second one."""
    config = net.home / "config.toml"
    config.write_text('[providers.local]\napi_key = "s3cret"\n')
    config.chmod(0o600)
    assert net.ok("run", "--network", "internet", "--", "python3", "-c", ASK).text == f"server {SERVER}\n"
    sandbox = net.create("--network", "internet")
    pid = net.helper(sandbox)["pid"]
    assert is_alive(pid)
    net.ok("kill", sandbox)
    wait_for(lambda: gone(pid), "the helper is gone")


# --- refusals --------------------------------------------------------------------------------------------


def test_none_and_the_last_word_wins(net):
    assert net.info(net.create("--network", "internet", "--network", "none"))["network"] == "none"


def test_a_project_may_choose_it(net):
    (net.work / "abx.toml").write_text('network = "internet"\n')
    enter = [*net.lab.enter, "env", "-C", str(net.work)]
    sandbox = net.create(enter=enter)
    assert net.helper(sandbox)["alive"] is True
    assert net.info(net.create("--network", "none", enter=enter))["network"] == "none"
    closed = net.create()
    assert net.info(net.ok("fork", closed, enter=enter).text.strip())["network"] == "none"  # as its source


def nothing_left(net):
    assert net.sandboxes() == [] and net.ledger() == []
    wait_for(lambda: net.left() == [], "no process is left")


def test_no_helper_on_the_machine(net):
    r = net("create", "--network", "internet", "--json", code=11, env=net.with_path("sh"))
    assert r.error["code"] == "E7001" and "neither 'pasta' nor 'slirp4netns'" in r.error["message"]
    assert "apt install passt" in r.error["hint"] and "slirp4netns" in r.error["hint"]
    net("run", "--network", "internet", "--", "true", code=125, env=net.with_path("sh"))
    nothing_left(net)


CLOSED = {"absent": ("mount -t tmpfs none /dev/net", "modprobe tun")}
if not ROOT:  # root opens a file of any mode
    CLOSED["forbidden"] = (f"mount -t tmpfs none /dev/net; touch {TUN}; chmod 000 {TUN}", f"chmod 666 {TUN}")


@pytest.mark.parametrize("how", CLOSED)
def test_the_tun_device_is_closed(net, lab, how):
    script, hint = CLOSED[how]
    back = "" if ROOT else f"unshare -U --map-user={os.getuid()} --map-group={os.getgid()}"
    enter = [*lab.as_root, "unshare", "-m", "sh", "-c", f'{script}; exec {back} "$@"', "sh"]
    r = net("create", "--network", "internet", "--json", code=11, enter=enter)
    assert TUN in r.error["message"] and hint in r.error["hint"]
    found = [x for x in net("doctor", "--json", enter=enter).json["layers"] if x["name"] == "network"]
    assert found[0]["ok"] is False and found[0]["optional"] is True and hint in found[0]["fix"]
    nothing_left(net)


def test_doctor_tries_it(net):
    found = [x for x in net.ok("doctor", "--json").json["layers"] if x["name"] == "network"]
    assert found[0]["ok"] is True and "pasta" in found[0]["detail"]
    nothing_left(net)


def test_a_helper_that_fails_says_why(net):
    env = net.with_path(pasta='echo "it rains" >&2; exit 1')
    r = net("create", "--network", "internet", "--json", code=11, env=env)
    assert "pasta: it rains" in r.error["message"]
    nothing_left(net)


def test_a_machine_without_a_route(net, lab):
    """pasta finds no way out, and its own word for that comes with a hint."""
    back = [] if ROOT else ["unshare", "-U", f"--map-user={os.getuid()}", f"--map-group={os.getgid()}"]
    enter = [*lab.as_root, "unshare", "-n", *back, "--"]
    r = net("create", "--network", "internet", "--json", code=11, enter=enter)
    assert "pasta" in r.error["message"] and "route" in r.error["hint"]
    nothing_left(net)


@pytest.mark.parametrize("words, code, text", [
    (["allow:example.com"], 6, "E8004"),
    (["allow:example.com", "allow:example.org:443"], 6, "E8004"),
    (["host"], 2, "none, internet or allow:HOST[:PORT]"),
    (["allow:"], 2, "none, internet or allow:HOST[:PORT]"),
    ([""], 2, "is no network"),
    (["allow:example.com", "internet"], 2, "of its kind only"),
    (["internet", "allow:example.com"], 2, "of its kind only"),
])
def test_other_words(net, words, code, text):
    flags = [x for word in words for x in ("--network", word)]
    r = net("create", *flags, code=code)
    assert text in r.errors, r
    nothing_left(net)


def test_not_together_with_the_machines_own_network(net):
    r = net("create", "--network", "internet", "--allow-weaker", "net", code=2)
    assert "needs layer 'net'" in r.errors
    nothing_left(net)
