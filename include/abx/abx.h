/* libabx: sandboxes from C, and from every language that can call C. This file is the manual; docs/capi.md is the guide.
 *
 *     abx_error *err = NULL;
 *     abx_context *ctx = abx_context_new(NULL, &err);
 *     abx_provider *p = abx_provider_open(ctx, "{\"provider\":\"local\"}", &err);
 *     char *sandbox = abx_provider_call(p, "sandbox.create", "{}", 0, &err);
 *
 * WHAT GOES IN AND OUT. Parameters, events and results are JSON, UTF-8 text that ends with a 0; bytes are a pointer and a
 * length. The operations, their parameters, events and results are those of every other door of abx: docs/operations.md
 * lists them, abx_operations() returns them. Times are milliseconds.
 *
 * OWNERSHIP. A `char *` that a function returns is the caller's: abx_free. A `const char *` is borrowed: the function says for how
 * long. Texts that are given to a function are copied. Objects end by the function of their name (abx_call_free, abx_provider_close,
 * abx_context_free), which take NULL.
 *
 * ERRORS. A function that can fail takes `abx_error **err` last. It answers NULL or -1 and, when err is not NULL, puts an error
 * there, which is the caller's (abx_error_free); *err must be NULL before. After success *err is as it was.
 *
 * THREADS. A context is a world of its own; there may be many in a process, used at the same time. Every function may be called from
 * any thread, also on the same object at the same time, but for these: an object is freed once, when no other thread is in a
 * function on it. The library makes no thread that runs code of the caller: calls make progress only while some thread is in
 * abx_call_next, abx_call_send, abx_provider_call, abx_context_run or a function that says that it waits. One of these threads drives
 * the context and serves the calls of all the others, which wait for their own; when it leaves, another one takes over.
 *
 * PROCESS. The library takes no signal, changes no signal's disposition, no umask, working directory, locale or variable, and
 * prints nothing. A program that it talks to may die at any moment: SIGPIPE is kept from the caller. Its descriptors close on
 * exec. It waits for its own children only (by pidfd); a program that reaps all children (wait, waitpid(-1), SIGCHLD ignored) takes
 * their exit status away from it, and no more.
 *
 * FORK. After fork() the child may not use what it inherited: its functions answer with an error (E1005), abx_*_free and _close do nothing,
 * so that the parent is not disturbed. A new context in the child works. Plain exec and posix_spawn need nothing.
 *
 * NAMES. Methods, features and error codes are texts; abx/constants.h has them as ABX_METHOD_…, ABX_HAS_… and ABX_CODE_….
 *
 * ABI. Objects are opaque, structures tell their size, JSON grows by new members: ignore those that you do not know. Symbols have
 * versions; what is here stays. */
#ifndef ABX_ABX_H
#define ABX_ABX_H

#include <abx/constants.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ABX_API __attribute__((visibility("default")))

typedef struct abx_error abx_error;     /* why something failed */
typedef struct abx_context abx_context; /* a home of state, an event loop */
typedef struct abx_provider
    abx_provider;                 /* one backend with the keys and options of one connection */
typedef struct abx_call abx_call; /* one operation on its way */

/* --- library ----------------------------------------------------------------------------------------- */

/* The library's version, "X.Y.Z". Constant, never NULL. */
ABX_API const char *abx_version(void);
/* Every operation: {"operations": [{"method", "feature", "style", "summary", "params": [{"name", "type", "required", "text"}…],
 * "results": […], "events": […]}…]}. style: unary, stream, body-in (bytes go in), body-out (bytes come out), duplex. Never NULL. */
ABX_API char *abx_operations(void);
/* Release a text of this library. NULL allowed. */
ABX_API void abx_free(void *text);

/* --- JSON, for programs that have no library for it ----------------------------------------------------- */

/* The value at a path of names and numbers of places ("id", "files.0.name") as text: a string as it is, all else as JSON. NULL: nothing is there, or
 * null, or the text is no JSON. */
ABX_API char *abx_json_member(const char *json, const char *path);
/* A text as a JSON string with its quotes. What is no UTF-8 in it becomes U+FFFD. Never NULL. */
ABX_API char *abx_json_string(const char *text);

/* --- errors ------------------------------------------------------------------------------------------ */

/* All texts are borrowed from the error, UTF-8, one line. docs/errors.md lists the codes. */
ABX_API const char *abx_error_code(const abx_error *e);    /* "E8004" */
ABX_API const char *abx_error_type(const abx_error *e);    /* "ProviderFeatureNotSupportedError" */
ABX_API const char *abx_error_message(const abx_error *e); /* never NULL */
ABX_API const char *abx_error_hint(const abx_error *e);    /* what to do about it; or NULL */
/* 1: the same call may succeed later, 0: it will not, -1: not known. */
ABX_API int abx_error_retryable(const abx_error *e);
/* The error as {"code", "type", "message", "hint", "retryable", …}, as the other doors show it. */
ABX_API char *abx_error_to_json(const abx_error *e);
ABX_API void abx_error_free(abx_error *e);

/* --- context ----------------------------------------------------------------------------------------- */

/* A new context. options: NULL, or an object with these members, all optional:
 *   home        folder of all state (string, absolute); default: ABX_HOME, else ~/.abx. It is made when it is not there
 *   config      true (default): settings, providers' options and keys are looked for as the command line does it: environment, the
 *               project's abx.toml above the working directory, HOME/config.toml, /etc/abx/config.toml. false: no file and no variable is read: what a
 *               connection holds is all
 *   configFile  a file instead of HOME/config.toml
 *   profile     the profile of the configuration that is used
 *   program     command line that starts `abx` (words as in a shell, no shell is run) for what needs a process of its own: the first
 *               process of a local sandbox, a JavaScript module; default: the abx beside this library, then ABX_BIN, then PATH
 * NULL and *err: E1001 (unknown member, wrong type), E1004 (home), E1005. */
ABX_API abx_context *abx_context_new(const char *options, abx_error **err);
/* Closes its providers and frees its calls (their pointers end, too), and waits until all that it started has ended: some seconds
 * when a program does not obey. Not from a callback of its own. */
ABX_API void abx_context_free(abx_context *ctx);
/* The folder of all state. Borrowed until the context is freed. */
ABX_API const char *abx_context_home(const abx_context *ctx);
/* Messages for whoever looks for a fault. level: 0 none, 1 errors, 2 warnings, 3, 4, 5 more and more. write gets one line without newline and without secrets, valid
 * during the call, from whatever thread drives; it must not call this library. NULL: none (the default). */
ABX_API void abx_context_set_log(abx_context *ctx, int level,
                                 void (*write)(int level, const char *line, void *user),
                                 void *user);

/* For a loop of the caller's own (poll, epoll, asyncio, libuv): a descriptor that is readable when there is something to do; then call
 * abx_context_run(ctx, 0). Never read it, never close it. -1 and *err when there are no descriptors left, or E1005. */
ABX_API int abx_context_fd(abx_context *ctx, abx_error **err);
/* Drive the context: do what is to be done, deliver events to callbacks. Waits until something was delivered or a call has become ready,
 * at most timeout_ms (0: do not wait; -1: no limit). 1: something happened; 0: nothing, or a signal or abx_context_wake ended the wait; -1:
 * not after fork. */
ABX_API int abx_context_run(abx_context *ctx, int timeout_ms);
/* The next call without a callback that has got events since it was last returned here, or NULL: take its events by
 * abx_call_next(call, &event, 0) until that answers 0, else it is not named again before something more comes. Does not wait. */
ABX_API abx_call *abx_context_ready(abx_context *ctx);
/* Make an abx_context_run that waits return 0, or the next one. Also from a signal handler. */
ABX_API void abx_context_wake(abx_context *ctx);

/* --- providers --------------------------------------------------------------------------------------- */

/* A provider with the keys and options of one connection. Two of them share nothing: plugins run once for each.
 * connection: NULL or {} for what the configuration chooses, or an object with these members, all optional:
 *   provider     an id (local, alicloud-express, an installed one), or the path of a plugin's folder, with a "/" in it
 *   options      {name: value}: the provider's own options
 *   apiKey, apiUrl, domain, accessKeyId, accessKeySecret    keys that all providers have in common
 *   profile, config    as in abx_context_new, for this provider
 * What is given here comes before all other places. Nothing is started or connected before the first call.
 * With config: false a sandbox is known by its whole id only, else also by its name or the beginning of its id, and a sandbox
 * that the ledger knows is looked for at the provider that it was made with. NULL and *err: E1001, E1005, E3004 (no such provider), faults of the configuration. */
ABX_API abx_provider *abx_provider_open(abx_context *ctx, const char *connection, abx_error **err);
/* Cancels its calls (each still gets its end), and waits until the provider has let go. */
ABX_API void abx_provider_close(abx_provider *p);
/* Its id. Borrowed until it is closed. */
ABX_API const char *abx_provider_id(const abx_provider *p);
/* {"id", "kind", "features": {name: "native" | "emulated" | "unsupported"}}; the provider is opened for it where that is needed, no request is
 * made. */
ABX_API char *abx_provider_describe(abx_provider *p, abx_error **err);
/* The connection with all that configuration and environment add to it: {"provider", "options", "apiKey", …}, of the common keys those that
 * the provider is given. As the engine's header X-Abx-Connection has it. It holds secrets. Nothing is opened. */
ABX_API char *abx_provider_connection(abx_provider *p, abx_error **err);

/* Whose a sandbox is: {"id", "provider", "profile"}, of an id, a name or the beginning of an id. What this home has not made is taken as a sandbox of
 * the provider that the connection, the environment or a file names (not of one that is only the default), if it looks like an id. Nobody is asked
 * whether it lives. NULL and *err: E3001 (not known here, and no provider was named), E4001 (the beginning of several ids). */
ABX_API char *abx_sandbox_find(abx_provider *p, const char *word, abx_error **err);

/* --- calls ------------------------------------------------------------------------------------------- */

#define ABX_KIND_EVENT    1 /* name: of the event; data: JSON */
#define ABX_KIND_CHUNK    2 /* name: the channel (stdout, stderr, pty, body); data: bytes */
#define ABX_KIND_END      3 /* the last one; data: the result, or error as JSON */
#define ABX_KIND_WRITABLE 4 /* abx_call_send answered 0 before; now there is room */

typedef struct abx_event {
    uint32_t size;          /* abx_call_next: set to sizeof(abx_event) before */
    int32_t kind;           /* ABX_KIND_… */
    const char *name;       /* or NULL */
    const char *data;       /* never NULL; a 0 follows it */
    size_t length;          /* bytes of data without that 0 */
    const abx_error *error; /* end of a call that failed; else NULL */
} abx_event;

/* Runs in the thread that drives the context, never two at a time for one call, and may call every function of this library but
 * abx_context_free. call may be freed in it, by which the event ends. */
typedef void (*abx_event_fn)(abx_call *call, const abx_event *event, void *user);

/* Start an operation. params: NULL for {}, or an object. timeout_ms: of the whole call, 0: none. on_event: gets every event; NULL: they
 * wait for abx_call_next. user: for on_event and abx_call_user.
 * A call has any number of events and chunks, then exactly one end; after it abx_call_free. At most 1 MiB waits in it: who does not take
 * its events stops the process that writes them, and nothing is lost.
 * NULL and *err: the call was not started: unknown method or parameter, no such sandbox, a feature that is not there (E8004), … Everything else comes
 * as its end. */
ABX_API abx_call *abx_call_start(abx_provider *p, const char *method, const char *params,
                                 int64_t timeout_ms, abx_event_fn on_event, void *user,
                                 abx_error **err);
/* The next event of a call without callback; waits for it at most timeout_ms (0: not at all; -1: no limit). 1: *event, which is valid until
 * the next abx_call_next or abx_call_free of this call. 0: none yet, or a signal ended the wait. -1: there is none after the end; or not after fork. One
 * thread at a time for one call. */
ABX_API int abx_call_next(abx_call *call, abx_event *event, int timeout_ms);
/* Bytes for a call that takes input (fs.write, process.stdin, pty.write, sandbox.tunnel): all of them (at most 16 MiB at once), or none when 1 MiB already
 * waits. Waits for room at most timeout_ms (0: not at all, and no callback runs meanwhile; -1: no limit). 1: taken (copied), or dropped because the call has ended. 0: no room: none
 * was taken, an event ABX_KIND_WRITABLE will come. -1: over 16 MiB, or not after fork. */
ABX_API int abx_call_send(abx_call *call, const void *bytes, size_t length, int timeout_ms);
/* The input is complete. */
ABX_API void abx_call_send_end(abx_call *call);
/* End it soon: it gets its end with E5002, or the one that it just had. A foreground process is ended, as everything that it started.
 * Does not wait. */
ABX_API void abx_call_stop(abx_call *call);
/* 0: keep further events back from the callback, and with them the process that makes them; 1: go on. */
ABX_API void abx_call_flow(abx_call *call, int on);
/* What abx_call_start was given as user. */
ABX_API void *abx_call_user(const abx_call *call);
/* Forget a call; one that has not ended is cancelled. Does not wait. NULL allowed. */
ABX_API void abx_call_free(abx_call *call);

/* Start a call and wait for its end: the result. For operations whose events and bytes are of no interest. timeout_ms as of abx_call_start. */
ABX_API char *abx_provider_call(abx_provider *p, const char *method, const char *params,
                                int64_t timeout_ms, abx_error **err);

/* --- which providers there are ----------------------------------------------------------------------- */

/* These functions wait for the disk, not for the network; nothing of a plugin is run, but abx_provider_info and _caps open builtin providers. */

/* {"providers": [{"id", "name", "version", "kind", "trust", "chosen", "problem"}…]}: builtin ones, then installed ones. */
ABX_API char *abx_provider_list(abx_context *ctx, abx_error **err);
/* Everything known of one: an id, or the path of a plugin's folder, with a "/" in it. As `abx provider info -o json`. */
ABX_API char *abx_provider_info(abx_context *ctx, const char *provider, abx_error **err);
/* {"providers": [{"id", "features" or "problem"}…]} of all. */
ABX_API char *abx_provider_caps(abx_context *ctx, abx_error **err);
/* Compare installed plugins with what was installed; provider NULL: all. {"providers": [{"id", "version", "trust", "ok", "compared",
 * "problem"}…]}: one that is broken is in the answer, with ok false and its error as problem. */
ABX_API char *abx_provider_verify(abx_context *ctx, const char *provider, abx_error **err);
/* Install a plugin; source: a path (with a "/" in it, or ending in .tar.gz), else an id of the catalog. options: NULL, or an object: inherit
 * (list of the common keys that it may see; absent: those that it was given before), link (true: a link to a folder that is still
 * changed; what lies there at that moment is run, compared with nothing), downgrade (true: also when a newer version is
 * there, else E4001). What was installed, as `abx provider install -o json`. */
ABX_API char *abx_provider_install(abx_context *ctx, const char *source, const char *options,
                                   abx_error **err);
/* Take an installed plugin away. force 0: E4001 when the ledger has sandboxes of it, which nobody could reach any more. 0, or -1 and
 * *err. */
ABX_API int abx_provider_remove(abx_context *ctx, const char *provider, int force, abx_error **err);

/* --- upkeep ------------------------------------------------------------------------------------------ */

/* {"settings": [{"key", "value", "source", "where"}…]}; of secrets the last four characters at most. */
ABX_API char *abx_settings_list(abx_context *ctx, abx_error **err);
/* The sandboxes that this home has made and not ended, whatever has become of them: {"sandboxes": [{"id", "key", "name",
 * "provider", "profile", "url", "complete", "createdAt"}…], "broken": [text…]}. complete false: its maker may still be at work, or has died. */
ABX_API char *abx_ledger_list(abx_context *ctx, abx_error **err);
/* Clear what nobody owns any more, at the providers that are in use: {"removed": [{"id", "what"}…]}. dry_run 1: only say it. Drives the
 * context until it is done. */
ABX_API char *abx_gc(abx_context *ctx, int dry_run, abx_error **err);

#ifdef __cplusplus
}
#endif

#endif
