#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"

#define YES     ABX_RETRY_YES
#define NO      ABX_RETRY_NO
#define UNKNOWN ABX_RETRY_UNKNOWN
static const abx_err_row rows[] = {
#define ABX_ERR(id, code, type, http, exit, retry, what, hint)                                     \
    {#id, code, type, http, exit, retry, what, hint},
#include "base/errors.def"
#undef ABX_ERR
};
#undef YES
#undef NO
#undef UNKNOWN

const abx_err_row *abx_err_row_of(abx_err_id id)
{
    ABX_CHECK((unsigned)id < ABX_ERR_COUNT);
    return &rows[id];
}

int abx_err_find(const char *code, abx_err_id *id)
{
    for (size_t i = 0; i < ABX_ERR_COUNT; i++) {
        if (strcmp(rows[i].code, code) == 0) {
            *id = (abx_err_id)i;
            return 1;
        }
    }
    return 0;
}

static abx_error *make(abx_err_id id, int sys_errno, char *message)
{
    abx_error *e = ABX_NEW(abx_error);
    e->id = id;
    e->sys_errno = sys_errno;
    e->retryable = abx_err_row_of(id)->retryable;
    e->message = message;
    return e;
}

int abx_fail(abx_error **err, abx_err_id id, const char *fmt, ...)
{
    if (!err || *err)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    *err = make(id, 0, abx_vformat(fmt, ap));
    va_end(ap);
    return -1;
}

int abx_fail_errno(abx_error **err, abx_err_id id, int sys_errno, const char *fmt, ...)
{
    if (!err || *err)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    if (sys_errno == ENOSPC || sys_errno == EDQUOT)
        id = ABX_ERR_NO_SPACE;
    if (sys_errno == EMFILE || sys_errno == ENFILE || sys_errno == EFBIG)
        id = ABX_ERR_QUOTA;
    *err = make(id, sys_errno, abx_format("%s: %s", text, strerror(sys_errno)));
    return -1;
}

int abx_wrap(abx_error **err, const char *fmt, ...)
{
    if (!err || !*err)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    ABX_AUTO_FREE char *text = abx_vformat(fmt, ap);
    va_end(ap);
    char *whole = abx_format("%s: %s", text, (*err)->message);
    free((*err)->message);
    (*err)->message = whole;
    return -1;
}

int abx_hint(abx_error **err, const char *fmt, ...)
{
    if (!err || !*err)
        return -1;
    va_list ap;
    va_start(ap, fmt);
    free((*err)->hint);
    (*err)->hint = abx_vformat(fmt, ap);
    va_end(ap);
    return -1;
}

abx_error *abx_error_new(abx_err_id id, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    abx_error *e = make(id, 0, abx_vformat(fmt, ap));
    va_end(ap);
    return e;
}

abx_error *abx_error_copy(const abx_error *e)
{
    if (!e)
        return NULL;
    abx_error *copy = make(e->id, e->sys_errno, abx_strdup(e->message));
    copy->retryable = e->retryable;
    copy->about = e->about;
    copy->hint = abx_strdup(e->hint);
    copy->request_id = abx_strdup(e->request_id);
    copy->provider = abx_strdup(e->provider);
    copy->sandbox = abx_strdup(e->sandbox);
    return copy;
}

void abx_error_free(abx_error *e)
{
    if (!e)
        return;
    free(e->message);
    free(e->hint);
    free(e->request_id);
    free(e->provider);
    free(e->sandbox);
    free(e);
}

int abx_error_take(abx_error **err, abx_error *from)
{
    if (err && !*err)
        *err = from;
    else
        abx_error_free(from);
    return -1;
}

const char *abx_error_code(const abx_error *e)
{
    return abx_err_row_of(e->id)->code;
}
const char *abx_error_type(const abx_error *e)
{
    return abx_err_row_of(e->id)->type;
}
const char *abx_error_hint(const abx_error *e)
{
    /* Wherever the descriptors ran out, what the place would advise does not help. */
    if (e->id == ABX_ERR_QUOTA && e->sys_errno == EMFILE)
        return "raise the limit of open files: ulimit -n 4096";
    if (e->id == ABX_ERR_QUOTA && e->sys_errno == ENFILE)
        return "this machine has no open file left: see sysctl fs.file-max";
    if (e->id == ABX_ERR_QUOTA && e->sys_errno == EFBIG)
        return "raise the limit of a file's size: ulimit -f unlimited; a file system has one, too";
    return e->hint ? e->hint : abx_err_row_of(e->id)->hint;
}
const char *abx_error_text(const abx_error *e)
{
    return e ? e->message : "unknown error";
}

void abx_check_failed(const char *file, int line, const char *what)
{
    fprintf(stderr, "abx: bug: %s:%d: %s\n", file, line, what);
    abort();
}
