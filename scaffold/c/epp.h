/* The plugin's end of EPP/1: JSON-RPC 2.0, one message a line, on stdin and stdout. Nothing here knows a backend.
 *
 * Each request runs in a thread of its own: a function that gets the call, writes the members of the result into
 * call->result and returns 0, or -1 after epp_fail. Nothing else may write to stdout; stderr is the log. */
#ifndef EPP_H
#define EPP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* --- text that grows ---------------------------------------------------------------------------------- */
typedef struct epp_text {
    char *data; /* always ends with a 0; NULL while empty */
    size_t len, size;
} epp_text;

void epp_add(epp_text *t, const void *bytes, size_t n);
void epp_addf(epp_text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void epp_add_json(epp_text *t, const char *text, size_t n); /* as a JSON string with its quotes; broken UTF-8 as U+FFFD */
/* ,"NAME":"VALUE" (without the comma where it is the first); value NULL: nothing. */
void epp_member(epp_text *t, const char *name, const char *value);
void epp_number(epp_text *t, const char *name, long long value);

/* --- JSON that came --------------------------------------------------------------------------------------- */
typedef struct epp_json {
    char type; /* '{' '[' '"' '0' (a number) 't' 'f' 'n' */
    char *name, *text; /* of a member; of a string or a number */
    size_t len;        /* of text */
    struct epp_json *first, *next;
} epp_json;

epp_json *epp_parse(const char *text, size_t n); /* NULL: not JSON */
void epp_free(epp_json *v);
const epp_json *epp_get(const epp_json *object, const char *name); /* NULL: absent, or null */
const char *epp_str(const epp_json *object, const char *name, const char *otherwise);
long long epp_int(const epp_json *object, const char *name, long long otherwise);
bool epp_is(const epp_json *object, const char *name); /* is it true? */
/* The bytes of {"text"} or {"base64"}, freed by the caller. */
uint8_t *epp_bytes(const epp_json *object, size_t *n);

/* --- a call ---------------------------------------------------------------------------------------------------- */
typedef struct epp_call {
    long long id;
    const char *method;
    const epp_json *params;
    epp_text result; /* members of the result */
    /* Called once, by another thread, when the host gives up; set both with epp_on_cancel. */
    void (*on_cancel)(void *data);
    void *data;
    /* private from here */
    bool cancelled, failed;
    epp_json *message;
    epp_text error;
    long long room;
    struct piece *first_piece;
    struct epp_call *next;
} epp_call;

typedef struct epp_method {
    const char *name;
    int (*run)(epp_call *call);
} epp_method;

/* The answer will be this error. Always -1. */
int epp_fail(epp_call *call, const char *code, const char *format, ...) __attribute__((format(printf, 3, 4)));
int epp_fail_errno(epp_call *call, const char *path); /* what errno means, of a file */
/* 0, or -1 (failed with E8004) when a parameter is not one of these words: it cannot be honoured, so it is never ignored. */
int epp_accept(epp_call *call, const char *words);
/* An event of this stream, before the answer. members: JSON without braces, or NULL. */
void epp_notify(epp_call *call, const char *method, const char *members);
/* Bytes of this stream; waits while the host does not take them. channel NULL: none. -1: the call was cancelled. */
int epp_send(epp_call *call, const char *method, const char *channel, const void *bytes, size_t n);
/* The next bytes that the host sends with this request (freed by the caller): 1, 0 at their end, -1 when cancelled. Asking for
 * more acknowledges the ones before. */
int epp_body(epp_call *call, uint8_t **bytes, size_t *n);
bool epp_is_cancelled(epp_call *call);
/* From now on `f` is called when the host gives up: at once, if it has. NULL: nothing any more. */
void epp_on_cancel(epp_call *call, void (*f)(void *data), void *data);

/* Serve until the host goes. features: JSON object, name -> "native" or "unsupported". methods: ended by {NULL}. */
void epp_serve(const char *features, const epp_method *methods);

#endif
