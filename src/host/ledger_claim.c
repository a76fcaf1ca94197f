/* The lock of the ledger, and the links by which names, idempotency keys and ids of providers find their entry. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "host/digest.h"
#include "host/ledger_inner.h"

#define LOCK_TRIES   5000
#define LOCK_STEP_NS 1000000L
#define WORD_MAX     200 /* longest escaped word; longer ones are known by their digest */

int abx__ledger_lock(const abx_ledger *l, int dir, abx_error **err)
{
    ABX_AUTO_FD fd = openat(dir, ".lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0)
        return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot lock the ledger '%s'", l->path);
    for (int i = 0; i < LOCK_TRIES; i++) {
        if (flock(fd, LOCK_EX | LOCK_NB) == 0)
            return abx_take_fd(&fd);
        if (errno != EWOULDBLOCK && errno != EINTR)
            return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot lock the ledger '%s'", l->path);
        nanosleep(&(struct timespec){0, LOCK_STEP_NS}, NULL);
    }
    return abx_fail(err, ABX_ERR_CONFLICT, "another process holds the ledger '%s'", l->path);
}

static const char *folder_of(abx_claim claim)
{
    return claim == ABX_CLAIM_NAME ? "names" : claim == ABX_CLAIM_KEY ? "keys" : "ids";
}

static bool is_plain(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '_';
}

char *abx__ledger_link(abx_claim claim, const char *word)
{
    ABX_AUTO_BUF out = ABX_BUF(WORD_MAX);
    int rc = 0;
    for (const char *p = word; *p && rc == 0; p++)
        rc = is_plain((unsigned char)*p) ? abx_buf_add_byte(&out, (uint8_t)*p)
                                         : abx_buf_addf(&out, "%%%02X", (unsigned char)*p);
    if (rc == 0)
        return abx_format("%s/%s", folder_of(claim), abx_buf_cstr(&out));
    char digest[ABX_DIGEST_SIZE];
    abx_digest(word, strlen(word), NULL, 0, digest);
    return abx_format("%s/=%s", folder_of(claim), digest);
}

char *abx__ledger_unlink_name(const char *name)
{
    if (name[0] == '=')
        return NULL;
    char *out = abx_strdup(name), *to = out;
    for (const char *p = name; *p; p++) {
        char digits[3] = {0};
        if (*p == '%' && p[1] && p[2]) {
            memcpy(digits, p + 1, 2);
            *to++ = (char)strtoul(digits, NULL, 16);
            p += 2;
        } else {
            *to++ = *p;
        }
    }
    *to = 0;
    return out;
}

char *abx__ledger_claimed(int dir, abx_claim claim, const char *word)
{
    char key[256];
    ABX_AUTO_FREE char *link = abx__ledger_link(claim, word);
    ssize_t n = readlinkat(dir, link, key, sizeof key - 1);
    if (n <= 0)
        return NULL;
    key[n] = 0;
    return abx__ledger_key_ok(key) ? abx_strdup(key) : NULL;
}

int abx__ledger_claim(const abx_ledger *l, int dir, abx_claim claim, const char *word,
                      const char *key, abx_error **err)
{
    ABX_AUTO_FREE char *link = abx__ledger_link(claim, word);
    if (symlinkat(key, dir, link) == 0)
        return 0;
    if (errno == ENOENT && (mkdirat(dir, folder_of(claim), 0700) == 0 || errno == EEXIST) &&
        symlinkat(key, dir, link) == 0)
        return 0;
    if (errno == EEXIST && unlinkat(dir, link, 0) == 0 && symlinkat(key, dir, link) == 0)
        return 0;
    return abx_fail_errno(err, ABX_ERR_HOME, errno, "cannot write the ledger '%s'", l->path);
}

void abx__ledger_disclaim(int dir, abx_claim claim, const char *word, const char *key)
{
    ABX_AUTO_FREE char *now = abx__ledger_claimed(dir, claim, word);
    ABX_AUTO_FREE char *link = abx__ledger_link(claim, word);
    if (abx_str_eq(now, key))
        unlinkat(dir, link, 0);
}
