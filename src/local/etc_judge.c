/* Does a text or a name look like something that must stay outside? */
#include <ctype.h>
#include <fnmatch.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "local/etc_copy.h"

static const char *find_nocase(const char *text, size_t n, const char *word)
{
    size_t len = strlen(word);
    for (size_t i = 0; i + len <= n; i++)
        if (strncasecmp(text + i, word, len) == 0)
            return text + i;
    return NULL;
}

/* "//user:pass@" before the next blank or slash */
static bool has_user_in_url(const char *line, size_t n)
{
    for (size_t i = 0; i + 2 < n; i++) {
        if (line[i] != '/' || line[i + 1] != '/')
            continue;
        bool colon = false;
        for (size_t j = i + 2; j < n && !isspace((unsigned char)line[j]) && line[j] != '/'; j++) {
            if (line[j] == ':')
                colon = true;
            else if (line[j] == '@' && colon)
                return true;
        }
    }
    return false;
}

/* A word and then, behind the rest of its name, '=', ':' or '>' (XML) and a value. */
static bool assigns(const char *line, size_t n, const char *word)
{
    const char *end = line + n, *p = line;
    while ((p = find_nocase(p, (size_t)(end - p), word))) {
        p += strlen(word);
        const char *q = p;
        while (q < end && (isalnum((unsigned char)*q) || strchr("_-.\"' \t", *q)))
            q++;
        if (q < end && (*q == '=' || *q == ':' || *q == '>')) {
            q++;
            while (q < end && (isspace((unsigned char)*q) || *q == '"' || *q == '\''))
                q++;
            if (q < end && *q != '<')
                return true;
        }
    }
    return false;
}

static bool is_comment(const char *line, size_t n)
{
    while (n > 0 && isspace((unsigned char)*line)) {
        line++;
        n--;
    }
    /* "//" alone also begins the settings of a registry ("//host/:_authToken=…") */
    return n == 0 || *line == '#' || *line == ';' ||
           (n > 2 && line[0] == '/' && line[1] == '/' && isspace((unsigned char)line[2]));
}

static bool line_is_secret(const char *line, size_t n)
{
    static const char *const words[] = {"password", "passwd", "passphrase", "token",
                                        "secret",   "_auth",  "apikey",     "api_key"};
    if (has_user_in_url(line, n))
        return true;
    if (is_comment(line, n))
        return false;
    for (size_t i = 0; i < ABX_COUNT(words); i++)
        if (assigns(line, n, words[i]))
            return true;
    return false;
}

bool abx_looks_secret(const char *text, size_t n)
{
    if (find_nocase(text, n, "PRIVATE KEY-----"))
        return true;
    for (size_t at = 0; at < n;) {
        const char *end = (const char *)memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - text) - at : n - at;
        if (line_is_secret(text + at, len))
            return true;
        at += len + 1;
    }
    return false;
}

bool abx_is_certificate(const char *text, size_t n)
{
    return find_nocase(text, n, "-----BEGIN CERTIFICATE-----") &&
           !find_nocase(text, n, "PRIVATE KEY-----");
}

bool abx_name_is_secret(const char *name)
{
    static const char *const patterns[] = {
        "*_key*",  "*.key",    "*.p12",      "*.pfx",        "*.jks",      "*.keystore",
        "private", "*secret*", "*password*", "*credential*", "auth.conf*", "*.keytab",
        "shadow*", "gshadow*", "sudoers*",   "pip.conf",     "npmrc",      ".npmrc",
        "netrc",   ".netrc",   "gitconfig",  "fstab",
    };
    for (size_t i = 0; i < ABX_COUNT(patterns); i++)
        if (fnmatch(patterns[i], name, FNM_CASEFOLD) == 0)
            return true;
    return false;
}

size_t abx_drop_secret_lines(char *text, size_t n)
{
    size_t to = 0;
    for (size_t at = 0; at < n;) {
        const char *end = (const char *)memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - text) - at + 1 : n - at;
        if (!has_user_in_url(text + at, len)) {
            memmove(text + to, text + at, len);
            to += len;
        }
        at += len;
    }
    return to;
}
