/* Questions about text: prefixes, UTF-8, nearest word, quoting for people. */
#ifndef ABX_BASE_TEXT_H
#define ABX_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool abx_str_eq(const char *a, const char *b)
{
    return a && b && __builtin_strcmp(a, b) == 0;
}
bool abx_has_prefix(const char *s, const char *prefix);
bool abx_has_suffix(const char *s, const char *suffix);
/* True if all n bytes are well-formed UTF-8 (no surrogates, no overlong forms). */
bool abx_utf8_valid(const void *data, size_t n);
/* How many bytes at the head of data a JSON string holds as they are: no '"', no '\\', no control character. */
size_t abx_json_plain(const void *data, size_t n);
/* Length of the longest head of data that does not end inside a UTF-8 character; what lies behind it
 * (at most 3 bytes) may become a character with more bytes. */
size_t abx_utf8_whole(const void *data, size_t n);
/* Number of terminal columns that text takes, about: one a code point, none for combining marks. */
size_t abx_utf8_columns(const char *s);

/* A control character (ASCII) in s? NULL: none. */
bool abx_has_control(const char *s);
/* Control characters and broken UTF-8 as \n, \t, \x1b …, marks of direction (bidi) as \u202e …: for names that go to a terminal. Caller frees. */
char *abx_printable(const char *s);
/* The word of `words` (n of them) nearest to `word`, or NULL when none is near (edit distance over a
 * third of the length). */
const char *abx_nearest(const char *word, const char *const *words, size_t n);

/* "512m", "2g", "64KiB", "1.5g", "1048576" → bytes, binary units. 0, or -1 when it is no size. */
int abx_parse_size(const char *s, uint64_t *bytes);
/* "2", "0.5", "1.25": thousandths, digits behind the third are cut. 0, or -1 when it is no such number, or over max. */
int abx_parse_millis(const char *s, uint64_t max, uint64_t *millis);
/* "1.5 GiB" for people; out has room for 32. */
void abx_format_size(uint64_t bytes, char out[32]);
/* Decimal digits only, no sign, no blank, at most max. 0, or -1. */
int abx_parse_uint(const char *s, uint64_t max, uint64_t *out);

/* True if s is a sandbox name: [a-z0-9][a-z0-9-]{0,62}. */
bool abx_is_name(const char *s);

/* Percent-encoded for a URL: all but letters, digits, "-._~" and the characters of also. Owned. */
char *abx_percent_encode(const char *text, const char *also);

#endif
