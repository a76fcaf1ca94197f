#include "e2b/client_inner.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"
#include "e2b/foreign.h"

abx_error *abx__envd_stamp(const abx_envd_client *c, const abx__envd_exchange *x, abx_error *err)
{
    if (c && !err->sandbox)
        err->sandbox = abx_strdup(c->sandbox_id);
    if (x && x->request_id && !err->request_id)
        err->request_id = abx__foreign_line(x->request_id);
    char *const texts[] = {err->message, err->hint, err->request_id};
    for (size_t i = 0; c && i < ABX_COUNT(texts); i++) {
        abx__foreign_hide(texts[i], c->token);
        abx__foreign_hide(texts[i], c->traffic_token);
    }
    return err;
}

abx_error *abx__envd_bad_answer(const abx_envd_client *c, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    return abx__envd_stamp(c, NULL, abx_error_new(ABX_ERR_BACKEND_ANSWER, "%s", text));
}

/* A gateway that finds a sandbox, but none that answers. */
static bool names_paused_sandbox(const char *message)
{
    return strstr(message, "healthy sandbox not found") != NULL;
}

static bool names_gone_sandbox(const char *message)
{
    if (names_paused_sandbox(message))
        return false;
    return strstr(message, "andbox was not found") || strstr(message, "andbox not found");
}

/* Our own envd says so in the text, and one gateway; the caller wants to know what to do. */
static abx_error *explain_paused(const abx_envd_client *c, abx_error *err, bool refused)
{
    bool ours = c->abx && refused && strstr(err->message, "is paused");
    if (!ours && !(err->id == ABX_ERR_NETWORK && names_paused_sandbox(err->message)))
        return err;
    err->id = ABX_ERR_CONFLICT;
    (void)abx_hint(&err, "'abx resume %s' lets it go on", c->sandbox_id);
    return err;
}

/* --- Connect codes ------------------------------------------------------------------------------------------ */
typedef struct code_row {
    const char *code;
    abx_err_id start, process, input, file; /* by what was asked for */
    int start_errno, input_errno, file_errno;
} code_row;

static const code_row codes[] = {
    {"canceled", ABX_ERR_BACKEND, ABX_ERR_BACKEND, ABX_ERR_BACKEND, ABX_ERR_BACKEND, 0, 0, 0},
    {"unknown", ABX_ERR_BACKEND, ABX_ERR_BACKEND, ABX_ERR_CONFLICT, ABX_ERR_BACKEND, 0, 0, 0},
    {"invalid_argument", ABX_ERR_START_FAILED, ABX_ERR_USAGE, ABX_ERR_USAGE, ABX_ERR_FILE, 0, 0,
     EINVAL},
    {"deadline_exceeded", ABX_ERR_TIMEOUT, ABX_ERR_TIMEOUT, ABX_ERR_TIMEOUT, ABX_ERR_TIMEOUT, 0, 0,
     0},
    {"not_found", ABX_ERR_START_FAILED, ABX_ERR_PROCESS_NOT_FOUND, ABX_ERR_PROCESS_NOT_FOUND,
     ABX_ERR_FILE_NOT_FOUND, ENOENT, 0, ENOENT},
    {"already_exists", ABX_ERR_CONFLICT, ABX_ERR_CONFLICT, ABX_ERR_CONFLICT, ABX_ERR_CONFLICT, 0, 0,
     EEXIST},
    {"permission_denied", ABX_ERR_START_FAILED, ABX_ERR_FORBIDDEN, ABX_ERR_FORBIDDEN, ABX_ERR_FILE,
     EACCES, 0, EACCES},
    {"resource_exhausted", ABX_ERR_RATE_LIMIT, ABX_ERR_RATE_LIMIT, ABX_ERR_RATE_LIMIT,
     ABX_ERR_RATE_LIMIT, 0, 0, 0},
    {"failed_precondition", ABX_ERR_CONFLICT, ABX_ERR_CONFLICT, ABX_ERR_CONFLICT, ABX_ERR_FILE, 0,
     0, 0},
    {"aborted", ABX_ERR_CONFLICT, ABX_ERR_CONFLICT, ABX_ERR_CONFLICT, ABX_ERR_CONFLICT, 0, 0, 0},
    {"out_of_range", ABX_ERR_USAGE, ABX_ERR_USAGE, ABX_ERR_USAGE, ABX_ERR_FILE, 0, 0, 0},
    {"unimplemented", ABX_ERR_FEATURE_MISSING, ABX_ERR_FEATURE_MISSING, ABX_ERR_FEATURE_MISSING,
     ABX_ERR_FEATURE_MISSING, 0, 0, 0},
    /* of input: the other end of the pipe is closed, or there is no pipe */
    {"internal", ABX_ERR_BACKEND, ABX_ERR_BACKEND, ABX_ERR_CONFLICT, ABX_ERR_FILE, 0, EPIPE, 0},
    {"unavailable", ABX_ERR_NETWORK, ABX_ERR_NETWORK, ABX_ERR_NETWORK, ABX_ERR_NETWORK, 0, 0, 0},
    {"data_loss", ABX_ERR_BACKEND, ABX_ERR_BACKEND, ABX_ERR_BACKEND, ABX_ERR_BACKEND, 0, 0, 0},
    {"unauthenticated", ABX_ERR_API_KEY, ABX_ERR_API_KEY, ABX_ERR_API_KEY, ABX_ERR_API_KEY, 0, 0,
     0},
};

static const code_row *find_code(const char *code)
{
    for (size_t i = 0; i < ABX_COUNT(codes); i++)
        if (strcmp(codes[i].code, code) == 0)
            return codes + i;
    return NULL;
}

static abx_err_id id_of(const code_row *row, abx__envd_kind kind, int *sys_errno)
{
    switch (kind) {
    case ABX__ENVD_START: *sys_errno = row->start_errno; return row->start;
    case ABX__ENVD_INPUT: *sys_errno = row->input_errno; return row->input;
    case ABX__ENVD_FILE: *sys_errno = row->file_errno; return row->file;
    default: *sys_errno = 0; return row->process;
    }
}

/* What an envd tells in words alone, as facts: those who come after us read no words. */
static void put_facts(abx_error *err)
{
    bool file = err->id == ABX_ERR_FILE;
    if (file && strstr(err->message, "cyclic symlink"))
        err->sys_errno = ELOOP;
    else if (file && strstr(err->message, "is a directory"))
        err->sys_errno = EISDIR;
    else if (err->id == ABX_ERR_START_FAILED && strstr(err->message, "user-specific home dir"))
        err->about = "path";
    else if (err->id == ABX_ERR_START_FAILED && abx_has_prefix(err->message, "cwd '"))
        err->about = "cwd";
}

abx_error *abx__envd_connect_error(const abx_envd_client *c, abx__envd_kind kind, yyjson_val *v)
{
    const char *code = abx_json_str(v, "code", "unknown");
    ABX_AUTO_FREE char *message = abx__foreign_line(abx_json_str(v, "message", ""));
    const code_row *row = find_code(code);
    int sys_errno = 0;
    abx_err_id id = id_of(row ? row : find_code("unknown"), kind, &sys_errno);
    /* "invalid username: 'x'": not our key is wrong but the user that was asked for */
    bool user = id == ABX_ERR_API_KEY && strstr(message, "user");
    if (user)
        id = kind == ABX__ENVD_START ? ABX_ERR_START_FAILED : ABX_ERR_USAGE;
    /* our own envd has limits of its own, and asks nobody to come back later */
    if (id == ABX_ERR_RATE_LIMIT && c->abx)
        id = ABX_ERR_QUOTA;
    if (id == ABX_ERR_NETWORK && names_gone_sandbox(message))
        id = ABX_ERR_SANDBOX_NOT_FOUND;
    abx_error *err = abx_error_new(id, "%s",
                                   *message ? message
                                   : row    ? row->code
                                            : "unknown error");
    err->sys_errno = sys_errno;
    put_facts(err);
    if (user)
        err->about = "user";
    if (strstr(message, "no space left on device")) {
        err->id = ABX_ERR_NO_SPACE;
        err->sys_errno = ENOSPC;
    }
    err = explain_paused(c, err, strcmp(code, "failed_precondition") == 0);
    return abx__envd_stamp(c, NULL, err);
}

/* --- answers of another kind --------------------------------------------------------------------------------- */
/* rpc: a call of a method, which answers in Connect's way when it is there. */
static abx_err_id id_of_status(int status, abx__envd_kind kind, bool rpc)
{
    bool file = kind == ABX__ENVD_FILE;
    switch (status) {
    case 400: return file ? ABX_ERR_FILE : ABX_ERR_USAGE;
    case 401: return ABX_ERR_API_KEY;
    case 403: return ABX_ERR_FORBIDDEN;
    case 404: return file && !rpc ? ABX_ERR_FILE_NOT_FOUND : ABX_ERR_FEATURE_MISSING;
    case 405:
    case 415:
    case 501: return ABX_ERR_FEATURE_MISSING;
    case 406: return ABX_ERR_BACKEND;
    case 409: return ABX_ERR_CONFLICT;
    case 413: return ABX_ERR_TOO_LARGE;
    case 429: return ABX_ERR_RATE_LIMIT;
    case 500: return file ? ABX_ERR_FILE : ABX_ERR_BACKEND;
    case 502:
    case 503:
    case 504: return ABX_ERR_NETWORK;
    case 507: return ABX_ERR_NO_SPACE;
    default: return ABX_ERR_BACKEND;
    }
}

static abx_error *status_error(const abx__envd_exchange *x, abx__envd_kind kind,
                               const char *message)
{
    abx_err_id id = id_of_status(x->status, kind, x->answer_type != NULL);
    if (x->status == 410 || ((x->status == 502 || x->status == 404) && names_gone_sandbox(message)))
        id = ABX_ERR_SANDBOX_NOT_FOUND;
    bool user = x->status == 401 && strstr(message, "user '");
    if (user)
        id = ABX_ERR_USAGE;
    if (!*message)
        return abx_error_new(id, "the server answered with status %d", x->status);
    abx_error *err = abx_error_new(id, "%s", message);
    put_facts(err);
    if (user)
        err->about = "user";
    return err;
}

/* {"error":"not found"}: no envd, but what stands before it. Such words are about the sandbox, not about a file in it. */
static abx_error *gateway_error(const abx__envd_exchange *x, const char *word)
{
    ABX_AUTO_FREE char *message = abx__foreign_line(word);
    abx_err_id id = x->status == 404 || x->status == 410
                        ? ABX_ERR_SANDBOX_NOT_FOUND
                        : id_of_status(x->status, ABX__ENVD_CONTROL, true);
    return abx_error_new(id, "the way to the sandbox is refused: %s (status %d)", message,
                         x->status);
}

/* A good status, but not the type or the encoding that was asked for. */
static abx_error *type_error(const abx__envd_exchange *x)
{
    if (x->encoding && *x->encoding && strcasecmp(x->encoding, "identity") != 0) {
        ABX_AUTO_FREE char *encoding = abx__foreign_line(x->encoding);
        return abx_error_new(ABX_ERR_BACKEND_ANSWER,
                             "the answer is encoded as '%s', which was not offered", encoding);
    }
    ABX_AUTO_FREE char *type = abx__foreign_line(x->content_type ? x->content_type : "");
    return abx_error_new(ABX_ERR_BACKEND_ANSWER, "the answer has the type '%s' instead of '%s'",
                         type, x->answer_type ? x->answer_type : "");
}

abx_error *abx__envd_answer_error(const abx_envd_client *c, abx__envd_kind kind,
                                  const abx__envd_exchange *x)
{
    abx_error *err = NULL;
    ABX_AUTO_JSON body = x->body.len > 0 ? abx_json_parse(x->body.data, x->body.len,
                                                          ABX_ERR_BACKEND_ANSWER, "answer", NULL)
                                         : NULL;
    yyjson_val *root = yyjson_doc_get_root(body);
    if (abx__foreign_is_page(x->content_type, &x->body)) {
        err = abx__foreign_page_error(x->status, &x->body);
    } else if (x->status >= 300 && x->status < 400) {
        err = abx_error_new(
            ABX_ERR_BACKEND_ANSWER,
            "the server answered with a redirect (status %d), which is not followed", x->status);
    } else if (x->status >= 200 && x->status < 300) {
        err = type_error(x);
    } else if (yyjson_is_str(yyjson_obj_get(root, "code"))) {
        err = abx__envd_connect_error(c, kind, root);
    } else {
        const char *text = root ? abx_json_str(root, "message", "") : abx_buf_cstr(&x->body);
        const char *word = *text ? NULL : abx_json_str(root, "error", NULL);
        ABX_AUTO_FREE char *message = abx__foreign_line(text);
        err = word ? gateway_error(x, word) : status_error(x, kind, message);
        err = explain_paused(c, err, x->status == 409);
    }
    if (err->id == ABX_ERR_RATE_LIMIT && x->retry_after) {
        ABX_AUTO_FREE char *after = abx__foreign_line(x->retry_after);
        (void)abx_hint(&err, "try again after %s seconds", after);
    }
    return abx__envd_stamp(c, x, err);
}
