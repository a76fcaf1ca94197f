#!/usr/bin/env python3
"""Measures what TLS costs.

- A first request of a fresh program (tests/e2e/tls_get.c, linked as abx is) to our own server, with the authorities of
  this machine and the server's, in a hashed folder or one bundle, against plain HTTP: tenth percentiles of whole
  processes in turns, since what else the machine does shows in a median.
- Requests a second over kept connections, with and without TLS (wrk).

Usage: tls.py [--quick] [--json]     --json: one JSON object a row, as bench.py reads them
ABX_BUILD names the folder with the programs (default: build/release)."""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
BUILD = Path(os.environ.get("ABX_BUILD") or HERE / "../../build/release").resolve()
BUNDLE = Path("/etc/ssl/certs/ca-certificates.crt")
MOST_MS = 5.0


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def certificates(folder):
    """An authority and a certificate of localhost, ECDSA both."""
    ca, key, cert, request = (folder / n for n in ("ca.pem", "key.pem", "cert.pem", "request.pem"))
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *curve, "-days", 2, "-subj", "/CN=bench", "-keyout", folder / "ca.key", "-out", ca)
    openssl("req", *curve, "-subj", "/CN=localhost", "-keyout", key, "-out", request)
    (folder / "extensions").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", request, "-CA", ca, "-CAkey", folder / "ca.key", "-CAcreateserial", "-days", 2,
            "-extfile", folder / "extensions", "-out", cert)
    return ca, cert, key


def hashed(folder, bundle):
    """One file an authority, under the hash of its name."""
    folder.mkdir()
    for n, block in enumerate(re.findall(r"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----\n", bundle, re.S)):
        (folder / f"{n}.pem").write_text(block)
    openssl("rehash", folder)


class Server:
    def __init__(self, cert, key):
        self.process = subprocess.Popen([BUILD / "tests/bench/http_server_bench", cert, key], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.plain, self.tls = (int(self.process.stdout.readline()) for _ in range(2))

    def end(self):
        self.process.stdin.close()
        return self.process.wait()


def first_request(server, places, rounds):
    get = str(BUILD / "tests/e2e/tls_get")
    bare = ["env", "-u", "SSL_CERT_FILE", "-u", "SSL_CERT_DIR"]
    words = [str(BUILD / "tests/bench/run_times"), str(rounds), "--", *bare, get, f"http://127.0.0.1:{server.plain}/"]
    for variable, place in places.values():
        words += ["---", *bare, f"{variable}={place}", get, f"https://localhost:{server.tls}/"]
    out = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    plain, *rest = [json.loads(line)["p10_us"] / 1000 for line in out.splitlines()]
    for name, ms in zip(places, rest):
        more = ms - plain
        yield {"what": f"first https request, {name}", "ours": f"{ms:.1f} ms", "reference": f"http {plain:.1f} ms",
               "ratio": f"+{more:.1f} ms", "goal": f"<= {MOST_MS} ms more", "reached": more <= MOST_MS}


def load(url, seconds):
    out = subprocess.run(["wrk", "-c32", "-t2", f"-d{seconds}", url], check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in out or "Socket errors" in out:
        raise RuntimeError(out)
    return float(re.search(r"Requests/sec:\s+([0-9.]+)", out).group(1))


def kept(server, rounds, seconds):
    pairs = [(load(f"https://127.0.0.1:{server.tls}/", seconds), load(f"http://127.0.0.1:{server.plain}/", seconds))
             for _ in range(rounds)]
    tls, plain = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    return {"what": "https server, 32 connections", "ours": f"{tls / 1000:.1f} k/s",
            "reference": f"http {plain / 1000:.1f} k/s", "ratio": f"{tls / plain:.2f}", "goal": "-", "reached": True}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ca, cert, key = certificates(folder)
        bundle = folder / "bundle.pem"
        bundle.write_text(BUNDLE.read_text() + ca.read_text())
        hashed(folder / "hashed", bundle.read_text())
        places = {"hashed folder": ("SSL_CERT_DIR", folder / "hashed"), "bundle": ("SSL_CERT_FILE", bundle),
                  "one authority": ("SSL_CERT_FILE", ca)}
        server = Server(cert, key)
        rows = list(first_request(server, places, 30 if given.quick else 200))
        if shutil.which("wrk"):
            rows.append(kept(server, 1 if given.quick else 5, 1 if given.quick else 2))
        if server.end() != 0:
            sys.exit("the bench server did not close its loop clean")
    for row in rows:
        if given.json:
            print(json.dumps(row))
        else:
            print(f"{row['what']:36} {row['ours']:>12}  {row['reference']:>16}  {row['ratio']:>8}  "
                  f"{row['goal']:>14} {'' if row['reached'] else 'MISSED'}")
    sys.exit(0)


if __name__ == "__main__":
    main()
