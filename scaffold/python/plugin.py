"""@NAME@: a provider of abx. A sandbox is a folder on this machine; its processes run here, as you. NO ISOLATION: put
calls to your own backend in the place of boxes.py, processes.py and files.py. epp.py may stay as it is."""

import json
import sys

sys.dont_write_bytecode = True  # an installed plugin's folder never changes

import boxes
import epp
import files
import processes

# What this provider has. The manifest lists the same; the host uses what both name.
FEATURES = {"sandbox": "native", "connect": "native", "list": "native", "timeout": "native", "process": "native",
            "process.stdin": "native", "process.replay": "native", "filesystem": "native", "pty": "native",
            "process.detach": "unsupported"}

if __name__ == "__main__":
    if sys.argv[1:2] == ["--keep"]:  # see processes.py
        sys.exit(processes.keep(json.loads(sys.argv[2])))
    epp.serve(FEATURES, {**boxes.METHODS, **processes.METHODS, **files.METHODS})
    processes.end_all()
