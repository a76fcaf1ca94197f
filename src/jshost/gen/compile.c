/* Compiles the runtime's own JavaScript at build time: compile OUT.h NAME FILE …: each file is one expression whose value is a function;
 * its bytecode becomes `static const uint8_t abx_code_NAME[]`. */
#include <quickjs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *read_file(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    char *text = calloc(1, 1 << 20);
    *n = text ? fread(text, 1, (1 << 20) - 1, f) : 0;
    fclose(f);
    return text;
}

static void print_error(JSContext *ctx)
{
    JSValue e = JS_GetException(ctx), stack = JS_GetPropertyStr(ctx, e, "stack");
    const char *what = JS_ToCString(ctx, e), *where = JS_ToCString(ctx, stack);
    fprintf(stderr, "%s\n%s\n", what, where);
    JS_FreeCString(ctx, what);
    JS_FreeCString(ctx, where);
    JS_FreeValue(ctx, stack);
    JS_FreeValue(ctx, e);
}

static int compile(JSContext *ctx, FILE *out, const char *name, const char *path)
{
    size_t n = 0, size = 0;
    char *text = read_file(path, &n);
    if (!text) {
        perror(path);
        return -1;
    }
    JSValue v = JS_Eval(ctx, text, n, "abx", JS_EVAL_TYPE_GLOBAL | JS_EVAL_FLAG_COMPILE_ONLY);
    free(text);
    uint8_t *code = JS_IsException(v)
                        ? NULL
                        : JS_WriteObject(ctx, &size, v,
                                         JS_WRITE_OBJ_BYTECODE | JS_WRITE_OBJ_STRIP_SOURCE |
                                             JS_WRITE_OBJ_STRIP_DEBUG);
    JS_FreeValue(ctx, v);
    if (!code) {
        fprintf(stderr, "%s: ", path);
        print_error(ctx);
        return -1;
    }
    fprintf(out, "static const uint8_t abx_code_%s[] = {", name);
    for (size_t i = 0; i < size; i++)
        fprintf(out, "%s%u,", i % 24 ? "" : "\n", code[i]);
    fprintf(out, "\n};\n");
    js_free(ctx, code);
    return 0;
}

int main(int argc, char **argv)
{
    JSRuntime *rt = JS_NewRuntime();
    JSContext *ctx = rt ? JS_NewContext(rt) : NULL;
    FILE *out = ctx && argc > 1 ? fopen(argv[1], "w") : NULL;
    int rc = out ? 0 : 1;
    if (out)
        fprintf(out, "/* made from src/jshost/js */\n#include <stdint.h>\n");
    for (int i = 2; i + 1 < argc && rc == 0; i += 2)
        rc = compile(ctx, out, argv[i], argv[i + 1]) < 0 ? 1 : 0;
    if (out && fclose(out) != 0)
        rc = 1;
    JS_FreeContext(ctx);
    JS_FreeRuntime(rt);
    return rc;
}
