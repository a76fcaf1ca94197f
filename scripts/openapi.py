"""docs/engine-openapi.json: the routes of the engine as OpenAPI 3.1, from the tables. scripts/gen_docs.py writes it; docs/engine-api.md is
the text to it."""

import json
import re

WHOLE = 2**63 - 1
# What a route takes besides the parameters of its row.
FROM = ("from", "the place to go on at: the id of the last event that came, STDOUT.STDERR in bytes, or one number of a terminal",
        r"^[0-9]{1,18}(\.[0-9]{1,18})?$")
MORE = {
    "process.attach": [FROM],
    "pty.open": [FROM, ("pty", "the id of a terminal that runs, to reattach to it", r"^.{1,64}$")],
}
SOCKETS = ("pty.open", "sandbox.tunnel")
ONCE = ("sandbox.snapshot_create", "sandbox.template_add")  # streams whose result alone is the answer
MADE = ("sandbox.create", "sandbox.fork", "sandbox.snapshot_create", "sandbox.template_add", "code.context_create")


def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


def kind(field):
    """The JSON schema of a parameter or a result."""
    return {
        "STRING": {"type": "string"},
        "BOOL": {"type": "boolean"},
        "INT": {"type": "integer", "minimum": 0, "maximum": WHOLE},
        "NUMBER": {"type": "number", "minimum": 0},
        "ARGV": {"anyOf": [{"type": "array", "items": {"type": "string"}, "minItems": 1}, {"type": "string"}]},
        "MAP": {"type": "object", "additionalProperties": {"type": "string"}},
        "BYTES": ref("Bytes"),
        "LIST": {"type": "array"},
        "OBJECT": {"type": "object"},
    }[field.type]


def in_query(param):
    """A parameter as it stands in a URL."""
    out = {"name": param.name, "in": "query", "description": param.text, "required": param.presence == "REQUIRED"}
    if param.type == "MAP":
        schema = {"type": "array", "items": {"type": "string", "pattern": "^[^=]+=.*$"}}
    elif param.type in ("ARGV", "LIST"):
        schema = {"type": "array", "items": {"type": "string"}}
    elif param.type in ("OBJECT", "BYTES"):
        return {**out, "content": {"application/json": {"schema": kind(param)}}}
    else:
        schema = kind(param)
    return {**out, "schema": schema, **({"style": "form", "explode": True} if schema.get("type") == "array" else {})}


def in_header(name, schema, text):
    return {"name": name, "in": "header", "description": text, "required": False, "schema": schema}


def param_of(word, params):
    """The parameter that stands for :word in a route."""
    for param in params:
        if word == "id" or param.name in (word, word + "Id"):
            return param
    raise KeyError(word)


def parameters(op, params):
    """(of the path, names that are in it)"""
    out, used = [], set()
    for word in re.findall(r":(\w+)", op.route):
        param = param_of(word, params)
        used.add(param.name)
        schema = {"type": "integer", "minimum": 0, "maximum": 65535} if param.type == "INT" else {"type": "string", "minLength": 1}
        out.append({"name": word, "in": "path", "required": True, "description": param.text, "schema": schema})
    return out, used


def body_of(params):
    needed = [param.name for param in params if param.presence == "REQUIRED"]
    schema = {"type": "object", "additionalProperties": False,
              "properties": {param.name: {**kind(param), "description": param.text} for param in params}}
    if needed:
        schema["required"] = needed
    return {"required": bool(needed), "content": {"application/json": {"schema": schema}}}


def result_of(results):
    """A result has what it has; of what is known the type is sure."""
    return {"type": "object", "properties": {r.name: {**kind(r), "description": r.text} for r in results}}


def events_of(events):
    return "\n".join(f"- `{event.name}`: {event.text}" for event in events)


def answers(op, results, events):
    plain = {"application/json": {"schema": result_of(results)}}
    raw = {"application/octet-stream": {"schema": {}}}
    said = "events, each with the JSON object {\"type\", …}:\n" + events_of(events)
    if op.method in SOCKETS:
        return {"101": {"description": "a WebSocket; its frames are in engine-api.md"}}
    if op.style == "BODY_OUT":
        return {"200": {"description": "the bytes", "content": raw}, "206": {"description": "a part of them", "content": raw},
                "416": {"description": "the range lies outside", "content": {"application/json": {"schema": ref("Error")}}}}
    if op.style == "STREAM" and op.method not in ONCE:
        out = {"200": {"description": said, "content": {"text/event-stream": {"schema": ref("Event")}}}}
        if op.method == "process.start":
            out["201"] = {"description": "with background: the process", "content": plain}
        return out
    return {"201" if op.method in MADE else "200": {"description": "the result", "content": plain}}


def operation(op, params, results, events):
    path, used = parameters(op, params)
    rest = [param for param in params if param.name not in used]
    out = {"operationId": op.method.replace(".", "_"), "summary": op.summary, "tags": [op.method.split(".")[0]]}
    more = [in_header("X-Abx-Timeout-Ms", {"type": "integer", "minimum": 1, "maximum": WHOLE},
                      "time limit of the call in milliseconds; after it: 504, or an event `error`")]
    if op.style == "BODY_IN":
        out["requestBody"] = {"required": False, "content": {"application/octet-stream": {"schema": {}}}}
        query = rest
    elif op.http in ("POST", "PUT"):
        out["requestBody"] = body_of(rest)
        query = []
    else:
        query = rest
    if op.method == "process.attach":
        more.append(in_header("Last-Event-ID", {"type": "string", "pattern": FROM[2]}, "as `from`; it comes first"))
    if op.style == "BODY_OUT":
        more.append(in_header("Range", {"type": "string"}, "one part of the file: bytes=FIRST-LAST"))
    own = [{"name": name, "in": "query", "description": text, "required": False, "schema": {"type": "string", "pattern": pattern}}
           for name, text, pattern in MORE.get(op.method, [])]
    out["parameters"] = path + [in_query(param) for param in query] + own + more
    out["responses"] = {**answers(op, results, events), "default": {"$ref": "#/components/responses/Error"}}
    return out


def own_routes():
    def plain(name, summary, schema, **more):
        return {"operationId": name, "summary": summary, "tags": ["engine"],
                "responses": {"200": {"description": "as said", "content": {"application/json": {"schema": schema}}},
                              "default": {"$ref": "#/components/responses/Error"}}, **more}

    def told(*needed, **properties):
        return {"type": "object", "required": list(needed), "properties": properties}

    text = {"type": "string"}
    health = told("status", "protocol", "version", status={"const": "ok"}, protocol={"const": "abx-engine/1"}, version=text)
    provider = told("id", id=text, name=text, version=text, kind=text, trust=text, problem=text,
                    features={"type": "object", "additionalProperties": {"enum": ["native", "emulated", "unsupported"]}})
    alone = [{"token": []}]
    return {
        "/v1/health": {"get": plain("engine_health", "The engine is there, and who it is", health, security=alone)},
        "/v1/providers": {"get": plain("engine_providers", "The providers, builtin and installed, with their features",
                                       told("providers", providers={"type": "array", "items": provider}), security=alone)},
        "/v1/shutdown": {"post": plain("engine_shutdown", "End the engine", told("status", status=text), security=alone)},
    }


def components():
    text = {"type": "string"}
    error = {"type": "object", "required": ["error"], "properties": {"error": {
        "type": "object", "required": ["code", "type", "message"],
        "properties": {"code": {"type": "string", "pattern": "^E[1-9][0-9]{3}$"}, "type": text, "message": text, "hint": text,
                       "retryable": {"type": "boolean"}, "provider": text, "sandbox": text, "requestId": text}}}}
    data = {"anyOf": [{"type": "object", "required": [name], "additionalProperties": False, "properties": {name: schema}}
                      for name, schema in (("text", text), ("base64", {"type": "string", "contentEncoding": "base64"}))]}
    event = {"type": "object", "description": "one event of a stream; data is a JSON object", "required": ["event", "data"],
             "properties": {"event": text, "id": {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"}, "data": {"type": "string", "pattern": r'^\{"'}}}
    return {
        "schemas": {"Error": error, "Bytes": data, "Event": event},
        "responses": {"Error": {"description": "an error (docs/errors.md)", "content": {"application/json": {"schema": ref("Error")}}}},
        "securitySchemes": {
            "token": {"type": "http", "scheme": "bearer", "description": "`token` of engine.json"},
            "connection": {"type": "apiKey", "in": "header", "name": "X-Abx-Connection",
                           "description": "the provider and its keys: base64url, without padding, of a JSON object"},
        },
    }


def document(t):
    paths = own_routes()
    for op in t.ops:
        if not op.route:
            continue
        rows = [[row for row in table if row.op == op.id] for table in (t.params, t.results, t.events)]
        path = re.sub(r":(\w+)", r"{\1}", op.route)
        paths.setdefault(path, {})[op.http.lower()] = operation(op, *rows)
    return {
        "openapi": "3.1.0",
        "info": {"title": "abx-engine/1", "version": "1", "license": {"name": "see the program: abx version --licenses"},
                 "description": "The engine of abx: sandboxes of every provider over HTTP on 127.0.0.1. engine-api.md is the text to this."},
        "servers": [{"url": "http://127.0.0.1:{port}", "variables": {"port": {"default": "1", "description": "`port` of engine.json"}}}],
        "security": [{"token": [], "connection": []}],
        "paths": paths,
        "components": components(),
    }


def page(t):
    return json.dumps(document(t), indent=1, ensure_ascii=False) + "\n"
