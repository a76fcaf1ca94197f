"""Asks a running engine what docs/engine-openapi.json says that it answers, with Schemathesis: requests that the document allows and
requests that it does not, made by the dozen. Prints what is at fault; the exit code tells.

    openapi_check.py ENGINE.JSON SANDBOX COUNT"""

import base64
import json
import pathlib
import sys

import hypothesis
import schemathesis
from schemathesis import GenerationMode
from schemathesis.specs.openapi import checks

DOCUMENT = pathlib.Path(__file__).resolve().parents[2] / "docs" / "engine-openapi.json"
LIMIT = "X-Abx-Timeout-Ms"
LEFT_OUT = {"engine_shutdown"}  # it would be the last one
# With ids that nobody has: what they do to the one sandbox would spoil it for the others.
NOT_TO_OURS = {"sandbox_kill", "sandbox_pause", "sandbox_set_timeout", "sandbox_fork", "sandbox_snapshot_create", "sandbox_connect"}
CHECKS = [checks.status_code_conformance, checks.content_type_conformance, checks.response_headers_conformance,
          checks.response_schema_conformance, checks.negative_data_rejection]


def is_no_bug(ctx, response, case):
    """A failure of the engine's own is a fault; what a provider says (501, 502, 504) is an answer."""
    if response.status_code >= 500:
        code = response.json()["error"]["code"]
        assert response.status_code != 500 and not code.startswith("E9"), f"{response.status_code} {response.text}"


def headers_of(told):
    connection = base64.urlsafe_b64encode(b'{"provider":"local"}').decode().rstrip("=")
    return {"Authorization": f"Bearer {told['token']}", "X-Abx-Connection": connection, LIMIT: "700"}


def document():
    """As it is, but that each request has the same time limit: a stream that is fine has no end of its own."""
    whole = json.loads(DOCUMENT.read_text(encoding="utf-8"))
    for path in whole["paths"].values():
        for operation in path.values():
            operation["parameters"] = [p for p in operation.get("parameters", []) if p["name"] != LIMIT]
    return whole


def check(operation, mode, base, headers, sandbox, count):
    label = operation.definition.raw["operationId"]

    @hypothesis.given(case=operation.as_strategy(generation_mode=mode), ours=hypothesis.strategies.booleans())
    @hypothesis.settings(max_examples=count, deadline=None, derandomize=True, database=None, phases=[hypothesis.Phase.generate],
                         suppress_health_check=list(hypothesis.HealthCheck))
    def ask(case, ours):
        if ours and "/sandboxes/{id}" in operation.path and label not in NOT_TO_OURS and isinstance(case.path_parameters, dict):
            case.path_parameters["id"] = sandbox
        answer = case.call(base_url=base, headers=headers, timeout=30)
        asked.append(answer.status_code)
        case.validate_response(answer, checks=[is_no_bug, *CHECKS])

    try:
        ask()
    except (Exception, BaseExceptionGroup) as e:
        faults.append(f"== {label}, {mode.name.lower()} requests\n{e}")


faults, asked = [], []


def main():
    told = json.loads(pathlib.Path(sys.argv[1]).read_text())
    sandbox, count = sys.argv[2], int(sys.argv[3])
    schema = schemathesis.openapi.from_dict(document())
    operations = [found.ok() for found in schema.get_all_operations()]
    for operation in operations:
        if operation.definition.raw["operationId"] in LEFT_OUT:
            continue
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):
            try:
                check(operation, mode, f"http://127.0.0.1:{told['port']}", headers_of(told), sandbox, count)
            except hypothesis.errors.Unsatisfiable:
                pass  # there is nothing that it would not allow
    print("\n".join(faults))
    print(f"{len(operations)} operations, {len(asked)} requests, {len(faults)} faults; statuses {sorted(set(asked))}")
    sys.exit(1 if faults else 0)


main()
