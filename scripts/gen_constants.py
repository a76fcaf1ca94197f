"""include/abx/constants.h: the names that C programs write as texts, made from the tables. Part of gen_docs.py."""

HEAD = """/* Names of operations, features and errors as constants, so that a compiler sees a slip of the pen. Made from the tables of src/ by
 * scripts/gen_docs.py. */
#ifndef ABX_CONSTANTS_H
#define ABX_CONSTANTS_H
"""


def group(title, rows):
    width = max(len(name) for name, _ in rows)
    return [f"/* {title} */", *(f'#define {name.ljust(width)} "{text}"' for name, text in rows), ""]


def header(t):
    methods = group("methods of abx_call_start", [(f"ABX_METHOD_{op.id}", op.method) for op in t.ops])
    features = group("members of a provider's features", [(f"ABX_HAS_{f.id}", f.name) for f in t.features])
    errors = group("codes of errors", [(f"ABX_CODE_{e.id}", e.code) for e in t.errors])
    return "\n".join([HEAD, *methods, *features, *errors, "#endif"]) + "\n"
