"""The egress sidecar beside a sandbox, as far as its policy goes: told and changed over HTTP, with a token of its own. It limits nothing here."""

import json
import uuid


def adopt(box, policy):
    """A sandbox that was made with this policy."""
    box.egress = {"token": uuid.uuid4().hex, "policy": {"defaultAction": policy.get("defaultAction", "deny"), "egress": list(policy.get("egress") or [])}}


def endpoint(handler, box):
    return {"endpoint": f"{handler.headers.get('Host')}/egress/{box.id}", "headers": {"OPENSANDBOX-EGRESS-AUTH": box.egress["token"]}}


def policy(handler, box):
    if handler.headers.get("OPENSANDBOX-EGRESS-AUTH") != box.egress["token"]:
        return handler.answer(401, b"unauthorized\n", {}, "text/plain")
    now = box.egress["policy"]
    if handler.command in ("PATCH", "DELETE"):
        try:
            asked = json.loads(handler.body())
            if not asked:
                raise ValueError("empty array")
            gone = {rule["target"] for rule in asked} if handler.command == "PATCH" else set(asked)
        except (ValueError, TypeError, KeyError) as e:
            return handler.answer(400, f"bad policy: {e}".encode(), {}, "text/plain")
        now["egress"] = (asked if handler.command == "PATCH" else []) + [rule for rule in now["egress"] if rule["target"] not in gone]
    mode = "enforcing" if now["egress"] else "deny_all" if now["defaultAction"] == "deny" else "allow_all"
    return handler.answer(200, {"status": "ok", "mode": mode, "enforcementMode": "dns", **({"policy": now} if handler.command == "GET" else {})})
