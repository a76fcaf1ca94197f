/* What a plugin says on standard error: cut into lines, secrets blanked, handed on, and the last lines kept for the
 * message of the error that may come. No I/O. */
#ifndef ABX_EPP_WORDS_H
#define ABX_EPP_WORDS_H

#include <stddef.h>

#include "base/buf.h"
#include "base/secrets.h"

enum { ABX_EPP_LAST_LINES = 6 };

typedef struct abx_epp_words {
    const abx_secrets *secrets;
    void (*on_line)(const char *line, void *data); /* blanked, printable, without newline */
    void *data;
    abx_buf part;
    char *last[ABX_EPP_LAST_LINES]; /* the newest at the end */
} abx_epp_words;

void abx_epp_words_init(abx_epp_words *w, const abx_secrets *secrets,
                        void (*on_line)(const char *line, void *data), void *data);
void abx_epp_words_clear(abx_epp_words *w);
void abx_epp_words_feed(abx_epp_words *w, const void *bytes, size_t n);
/* Nothing more comes: what is left without a newline is a line. */
void abx_epp_words_end(abx_epp_words *w);
/* The last lines as one, "a | b | c", at most about 600 characters; "" when there are none. Owned. */
char *abx_epp_words_last(const abx_epp_words *w);

#endif
