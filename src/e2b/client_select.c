/* Which process, and what starts: pieces of requests that several operations share. */
#include "e2b/client_inner.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/text.h"
#include "wire/base64.h"

#define MAX_ID 64

static bool is_id(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > MAX_ID)
        return false;
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && *s != '-' && *s != '_')
            return false;
    return true;
}

int abx__envd_put_selector(const abx_envd_client *c, yyjson_mut_doc *d, yyjson_mut_val *obj,
                           const char *id, abx_error **err)
{
    uint64_t pid = 0;
    bool is_pid = abx_parse_uint(id, UINT32_MAX, &pid) == 0;
    if (!is_pid && (!c->abx || !is_id(id)))
        return abx_fail(err, ABX_ERR_PROCESS_NOT_FOUND, "no process '%s' in the sandbox", id);
    yyjson_mut_val *selector = abx_mut_obj(d, obj, "process");
    if (is_pid)
        abx_mut_int(d, selector, "pid", (int64_t)pid);
    else
        abx_mut_str(d, selector, "abxId", id);
    return 0;
}

int abx__envd_check_user(const char *user, abx_error **err)
{
    for (const char *p = user ? user : "u"; *p; p++)
        if (*p == ':' || iscntrl((unsigned char)*p))
            return abx_fail(err, ABX_ERR_USAGE, "'%s' cannot be the name of a user", user);
    return 0;
}

const char *abx__envd_text(yyjson_val *obj, const char *key)
{
    yyjson_val *v = yyjson_obj_get(obj, key);
    const char *s = yyjson_get_str(v);
    return s && strlen(s) == yyjson_get_len(v) ? s : NULL;
}

char *abx__envd_process_id(const abx_envd_client *c, yyjson_val *with_pid)
{
    if (c->abx && yyjson_obj_get(with_pid, "abxId")) {
        const char *id = abx__envd_text(with_pid, "abxId");
        return id && is_id(id) ? abx_strdup(id) : NULL;
    }
    return abx_format("%lld", (long long)abx_json_int(with_pid, "pid", 0));
}

uint8_t *abx__envd_bytes(yyjson_val *v, size_t *n, abx_error **err)
{
    yyjson_val *text = abx_json_get(v, "text");
    if (text) {
        *n = yyjson_get_len(text);
        uint8_t *copy = abx_alloc(*n + 1); /* a 0 byte in it is a byte like others */
        memcpy(copy, yyjson_get_str(text), *n);
        return copy;
    }
    yyjson_val *base64 = abx_json_get(v, "base64");
    uint8_t *bytes = yyjson_is_str(base64)
                         ? abx_base64_bytes(yyjson_get_str(base64), yyjson_get_len(base64),
                                            ABX_BASE64_STANDARD, n)
                         : NULL;
    if (!bytes)
        abx_fail(err, ABX_ERR_USAGE, "the input is neither text nor base64");
    return bytes;
}

void abx__envd_put_bytes(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *key, const void *bytes,
                         size_t n)
{
    ABX_AUTO_FREE char *text = abx_base64_text(bytes, n, ABX_BASE64_STANDARD, true);
    abx_mut_str(d, obj, key, text);
}

void abx__envd_put_input(yyjson_mut_doc *d, yyjson_mut_val *obj, const char *channel,
                         const void *bytes, size_t n)
{
    abx__envd_put_bytes(d, abx_mut_obj(d, obj, "input"), channel, bytes, n);
}

/* --- the program ---------------------------------------------------------------------------------------------- */
static void put_words(yyjson_mut_doc *d, yyjson_mut_val *config, const char *const *words)
{
    abx_mut_str(d, config, "cmd", words[0]);
    yyjson_mut_val *args = abx_mut_arr(d, config, "args");
    for (size_t i = 1; words[i]; i++)
        yyjson_mut_arr_add_strcpy(d, args, words[i]);
}

void abx__envd_put_in_front(yyjson_mut_doc *d, yyjson_mut_val *config, const char *shell,
                            const char *script)
{
    const char *const front[] = {"-c", script, "sh"};
    yyjson_mut_val *args = yyjson_mut_obj_remove_key(config, "args");
    yyjson_mut_val *program = yyjson_mut_obj_remove_key(config, "cmd");
    yyjson_mut_arr_prepend(args, program);
    for (size_t i = ABX_COUNT(front); i-- > 0;)
        yyjson_mut_arr_prepend(args, yyjson_mut_strcpy(d, front[i]));
    abx_mut_str(d, config, "cmd", shell);
    abx_mut_put(d, config, "args", args);
}

static int put_list(yyjson_mut_doc *d, yyjson_mut_val *config, yyjson_val *list, abx_error **err)
{
    size_t i = 0, n = 0;
    yyjson_val *word = NULL;
    yyjson_mut_val *args = NULL;
    yyjson_arr_foreach(list, i, n, word)
    {
        if (abx_json_has_nul(word))
            return abx_fail(err, ABX_ERR_USAGE, "a word of the command holds a 0 byte");
        yyjson_mut_val *copy = yyjson_mut_strncpy(d, yyjson_get_str(word), yyjson_get_len(word));
        if (i == 0) {
            abx_mut_put(d, config, "cmd", copy);
            args = abx_mut_arr(d, config, "args");
        } else {
            yyjson_mut_arr_append(args, copy);
        }
    }
    return 0;
}

/* A list as it is; a string for the sandbox's shell; nothing (terminals): the user's shell. E2B's sandboxes
 * have bash, and their SDKs use it that way; what shell another has, its environment says. */
static int put_program(abx__envd_job *job, yyjson_mut_doc *d, yyjson_mut_val *config,
                       abx_error **err)
{
    yyjson_val *cmd = abx_json_get(abx_call_params(job->call), "cmd");
    bool abx = job->client->abx;
    if (yyjson_is_arr(cmd) && yyjson_arr_size(cmd) > 0) {
        return put_list(d, config, cmd, err);
    } else if (yyjson_is_str(cmd) && !abx_json_has_nul(cmd)) {
        const char *const bash[] = {"/bin/bash", "-l", "-c", yyjson_get_str(cmd), NULL};
        const char *const sh[] = {"/bin/sh", "-c", yyjson_get_str(cmd), NULL};
        put_words(d, config, abx ? sh : bash);
    } else if (!cmd) {
        static const char *const bash[] = {"/bin/bash", "-i", "-l", NULL};
        static const char *const sh[] = {"/bin/sh", "-c", "exec \"${SHELL:-/bin/sh}\" -l", NULL};
        put_words(d, config, abx ? sh : bash);
    } else {
        return abx_fail(err, ABX_ERR_USAGE, "the command is empty, or holds a 0 byte");
    }
    return 0;
}

/* What a terminal has if the caller says nothing else. */
static void put_default(yyjson_mut_doc *d, yyjson_mut_val *envs, const char *name,
                        const char *value)
{
    if (!yyjson_mut_obj_get(envs, name))
        abx_mut_str(d, envs, name, value);
}

/* Into envs, which is empty; a parameter has no name twice. */
static int put_env(abx__envd_job *job, yyjson_mut_doc *d, yyjson_mut_val *envs, abx_error **err)
{
    yyjson_val *env = abx_json_get(abx_call_params(job->call), "env");
    size_t i = 0, n = 0;
    yyjson_val *key = NULL, *value = NULL;
    if (!env)
        return 0;
    yyjson_obj_foreach(env, i, n, key, value)
    {
        const char *name = yyjson_get_str(key);
        if (!*name || strchr(name, '=') || abx_json_has_nul(key) || abx_json_has_nul(value))
            return abx_fail(err, ABX_ERR_USAGE,
                            "'%s' cannot be the name of an environment variable", name);
        abx_mut_addn(d, envs, name, strlen(name), yyjson_get_str(value), yyjson_get_len(value));
    }
    return 0;
}

int abx__envd_put_process(abx__envd_job *job, yyjson_mut_doc *d, yyjson_mut_val *root,
                          abx_error **err)
{
    const char *term = abx__envd_param(job, "term");
    yyjson_val *cwd = abx_json_get(abx_call_params(job->call), "cwd");
    bool is_pty = abx_call_op(job->call)->id == ABX_OP_PTY_OPEN;
    yyjson_mut_val *config = abx_mut_obj(d, root, "process");
    if (put_program(job, d, config, err) < 0)
        return -1;
    yyjson_mut_val *envs = yyjson_mut_obj(d);
    if (put_env(job, d, envs, err) < 0)
        return -1;
    if (is_pty)
        put_default(d, envs, "TERM", term ? term : "xterm-256color");
    if (is_pty && !job->client->abx) {
        put_default(d, envs, "LANG", "C.UTF-8");
        put_default(d, envs, "LC_ALL", "C.UTF-8");
    }
    if (yyjson_mut_obj_size(envs) > 0)
        abx_mut_put(d, config, "envs", envs);
    if (abx_json_has_nul(cwd))
        return abx_fail(err, ABX_ERR_USAGE, "'cwd' cannot be a path");
    if (yyjson_get_len(cwd) > 0)
        abx_mut_str(d, config, "cwd", yyjson_get_str(cwd));
    return 0;
}
