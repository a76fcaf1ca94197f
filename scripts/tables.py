"""The tables of src/ (ops.def, features.def, errors.def, verbs.def, settings.def, manifest.def) as Python objects, read with the C
preprocessor, so that they mean here what they mean to the compiler."""

import os
import pathlib
import subprocess
from types import SimpleNamespace

ROOT = pathlib.Path(__file__).resolve().parent.parent

PROGRAM = r"""
#define ABX_FEATURE(id, name, text) row("feature", #id, name, text);
#include "ops/features.def"
#define ABX_OP(id, method, feature, style, http, route, cli, summary) \
    row("op", #id, method, #feature, #style, http, route, cli, summary);
#define ABX_PARAM(op, name, type, presence, text) row("param", #op, name, #type, #presence, text);
#define ABX_RESULT(op, name, type, text) row("result", #op, name, #type, text);
#define ABX_EVENT(op, name, text) row("event", #op, name, text);
#include "ops/ops_begin.h"
#include "ops/ops.def"
#include "ops/ops_end.h"
#define ABX_ERR(id, code, type, http, exit, retry, what, hint) \
    row("error", #id, code, type, http, exit, #retry, what, hint);
#include "base/errors.def"
#define ABX_VERB(id, name, aliases, args, min, max, exits, fn, usage, summary) \
    row("verb", #id, name, aliases, summary);
#include "doors/cli/spec_begin.h"
#include "doors/cli/verbs.def"
#include "doors/cli/spec_end.h"
#define ABX_SETTING(key, type, choices, env, otherwise, project, text) \
    row("setting", "", key, #type, choices, env, otherwise, #project, text);
#define ABX_COMMON(key, type, env, secret, text) row("setting", "*", key, #type, NULL, env, NULL, "TRUSTED", text);
#define ABX_OPTION(provider, key, type, choices, otherwise, project, text) \
    row("setting", provider, key, #type, choices, NULL, otherwise, #project, text);
#include "host/settings.def"
#define ABX_MF_TOP(name, type, needed, expected, take, text) row("key", "TOP", name, #type, #needed, expected, text);
#define ABX_MF_RUNTIME(name, type, needed, expected, take, text) row("key", "RUNTIME", name, #type, #needed, expected, text);
#define ABX_MF_CONNECTION(name, type, needed, expected, take, text) row("key", "CONNECTION", name, #type, #needed, expected, text);
#define ABX_MF_OPTION(name, type, needed, expected, take, text) row("key", "OPTION", name, #type, #needed, expected, text);
#define ABX_MF_REST(name, type, needed, expected, take, text) row("key", "REST", name, #type, #needed, expected, text);
#define ABX_MF_LIMITS(name, type, needed, expected, take, text) row("key", "LIMITS", name, #type, #needed, expected, text);
#include "host/manifest.def"
"""

FIELDS = {
    "feature": "id name text",
    "op": "id method feature style http route cli summary",
    "param": "op name type presence text",
    "result": "op name type text",
    "event": "op name text",
    "error": "id code type http exit retry meaning hint",
    "verb": "id name aliases summary",
    "key": "table name type needed expected text",
    "setting": "provider key type choices env default project text",
}


def load():
    """A namespace: features, ops, params, results, events, errors, verbs, settings, keys (of the manifest); each a list in table order."""
    text = subprocess.run(
        [os.environ.get("CC", "cc"), "-E", "-P", "-x", "c", "-I", str(ROOT / "src"), "-"],
        input=PROGRAM, stdout=subprocess.PIPE, check=True, text=True,
    ).stdout
    tables = SimpleNamespace(**{name + "s": [] for name in FIELDS})

    def row(table, *values):
        names = FIELDS[table].split()
        assert len(names) == len(values), (table, values)
        getattr(tables, table + "s").append(SimpleNamespace(**dict(zip(names, values))))

    # What is left are calls row("…", "…" "…", 3); whose literals C and Python read alike.
    exec(text, {"row": row, "NULL": None})
    return tables
