#include "doors/cli/safe_place.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"

char *abx_safe_name(const char *name, abx_error **err)
{
    if (name[0] == '/' || strlen(name) >= (size_t)PATH_MAX) {
        abx_fail(err, ABX_ERR_FILE, "the stream holds the name '%.200s', which may not be used",
                 name);
        return NULL;
    }
    ABX_AUTO_BUF out = ABX_BUF((size_t)PATH_MAX);
    for (const char *p = name; *p;) {
        size_t n = strcspn(p, "/");
        bool dot = n == 1 && p[0] == '.';
        if ((n == 2 && p[0] == '.' && p[1] == '.') || n > NAME_MAX) {
            abx_fail(err, ABX_ERR_FILE, "the stream holds the name '%.200s', which may not be used",
                     name);
            return NULL;
        }
        if (n > 0 && !dot) {
            int rc = out.len ? abx_buf_add_byte(&out, '/') : 0;
            rc |= abx_buf_add(&out, p, n);
            ABX_CHECK(rc == 0);
        }
        p += n + (p[n] == '/');
    }
    return abx_buf_take(&out);
}
