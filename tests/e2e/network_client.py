"""Runs inside a sandbox (as text of `python3 -c`): tries every way to each target at once, and prints those that answered.

argv: JSON {"targets": [...], "port": N, "device": "tap0" or null, "seconds": S}"""

import json
import select
import socket
import struct
import sys
import time

plan = json.loads(sys.argv[1])
port, device = plan["port"], plan["device"]
index = socket.if_nametoindex(device) if device else 0
waiting, answered = {}, []
SO_BINDTODEVICE, SO_BINDTOIFINDEX, IP_PKTINFO, IP_UNICAST_IF, IP_OPTIONS = 25, 62, 8, 50, 4


def bind_device(s):
    s.setsockopt(socket.SOL_SOCKET, SO_BINDTODEVICE, device.encode())


def bind_index(s):
    s.setsockopt(socket.SOL_SOCKET, SO_BINDTOIFINDEX, index)


def unicast_if(s):
    s.setsockopt(socket.IPPROTO_IP, IP_UNICAST_IF, struct.pack("!I", index))


def dont_route(s):
    bind_device(s)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_DONTROUTE, 1)


def begin(target, way, kind):
    name = f"{target} {way.__name__ if way else 'plain'} {kind}"
    s = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
    s.setblocking(False)
    try:
        if way:
            way(s)
        if kind == "udp":
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        if kind == "tcp":
            s.connect_ex((target, port))
        else:
            s.sendto(name.encode(), (target, port))
        waiting[s] = name
    except OSError:
        s.close()


def multicast_if(s):
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF, struct.pack("4s4si", bytes(4), bytes(4), index))
    s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 64)


def begin_pktinfo(target):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.setblocking(False)
    name = f"{target} pktinfo udp"
    info = struct.pack("I4s4s", index, bytes(4), bytes(4))
    try:
        s.sendmsg([name.encode()], [(socket.IPPROTO_IP, IP_PKTINFO, info)], 0, (target, port))
        waiting[s] = name
    except OSError:
        s.close()


ways = [None]
if device:
    ways += [bind_device, bind_index] if plan.get("ordinary") else [bind_device, bind_index, unicast_if, dont_route, multicast_if]

for target in plan["targets"]:
    for way in ways:
        begin(target, way, "tcp")
        begin(target, way, "udp")
    if device:
        begin_pktinfo(target)
end = time.monotonic() + plan["seconds"]
while waiting and time.monotonic() < end:
    for s in select.select(list(waiting), [], [], 0.1)[0]:
        try:
            data = s.recv(200)
        except OSError:
            data = b""
        if data:
            answered.append(waiting[s])
        del waiting[s]
        s.close()
print(json.dumps(sorted(answered)))
