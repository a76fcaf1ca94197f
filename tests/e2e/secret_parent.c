/* The second way in: a parent that is no one-shot program. It runs threads,
 * holds a secret in its memory and its environment and an open descriptor that
 * is inherited by what forgets to close it; makes a sandbox through the table
 * of operations with may_fork = false, runs a command in it, prints one line of
 * JSON, and waits for the end of its input before it kills the sandbox. Usage:
 * secret_parent PATH_OF_ABX [bad-self] */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "adapters/registry.h"
#include "base/file.h"
#include "base/json.h"
#include "base/log.h"
#include "base/mem.h"
#include "host/config.h"
#include "host/host.h"

#define THREADS 4

/* "S3CRET-" twice "4711": built at run time, so that the program's own file
 * does not hold it. */
static char *secret;
static volatile bool stop;

static void *work(void *data)
{
    char copy[64];
    snprintf(copy, sizeof copy, "%s", secret);
    while (!stop)
        usleep(1000);
    *(size_t *)data = strlen(copy);
    return NULL;
}

typedef struct result {
    bool ended;
    char *id, *text, *error;
    int64_t pid, code;
} result;

static void on_chunk(abx_call *c, abx_channel channel, const uint8_t *bytes, size_t n, void *data)
{
    (void)c;
    result *r = data;
    if (channel == ABX_CH_STDOUT && !r->text)
        r->text = abx_strndup((const char *)bytes, n);
}

static void on_end(abx_call *c, yyjson_val *v, const abx_error *err, void *data)
{
    (void)c;
    result *r = data;
    r->ended = true;
    if (err) {
        r->error = abx_format("%s: %s", abx_error_code(err), abx_error_text(err));
        return;
    }
    r->id = abx_strdup(abx_json_str(v, "id", ""));
    r->pid = abx_json_int(v, "pid", 0);
    r->code = abx_json_int(v, "exitCode", -1);
}

static result call(uv_loop_t *loop, abx_host *host, abx_op_id op, const char *params)
{
    result r = {0};
    abx_error *err = NULL;
    yyjson_doc *doc = yyjson_read(params, strlen(params), 0);
    abx_call_handlers handlers = {.on_chunk = on_chunk, .on_end = on_end};
    abx_call *c = abx_call_new(loop, op, doc, &handlers, &r);
    if (abx_host_start(host, c, &err) < 0) {
        r.error = abx_format("%s: %s", abx_error_code(err), abx_error_text(err));
        abx_error_free(err);
        abx_call_discard(c);
        return r;
    }
    while (!r.ended)
        uv_run(loop, UV_RUN_ONCE);
    return r;
}

static void on_closed(void *data)
{
    *(bool *)data = true;
}

static int run(uv_loop_t *loop, abx_host *host)
{
    result made = call(loop, host, ABX_OP_SANDBOX_CREATE, "{\"timeoutMs\":60000}");
    if (made.error) {
        printf("{\"error\":\"%s\"}\n", made.error);
        return 1;
    }
    char params[512];
    snprintf(params, sizeof params,
             "{\"sandboxId\":\"%s\",\"cmd\":[\"sh\",\"-c\",\"env; ls -l "
             "/proc/self/fd; echo; cat <&9 2>&1; exit 3\"]}",
             made.id);
    result ran = call(loop, host, ABX_OP_PROCESS_START, params);
    snprintf(params, sizeof params,
             "{\"sandboxId\":\"%s\",\"cmd\":[\"sleep\",\"1000\"],\"background\":true}", made.id);
    result left = call(loop, host, ABX_OP_PROCESS_START, params);
    printf("{\"id\":\"%s\",\"pid\":%lld,\"exitCode\":%lld,\"leaks\":%s,\"error\":"
           "\"%s%s\"}\n",
           made.id, (long long)made.pid, (long long)ran.code,
           ran.text && (strstr(ran.text, "S3CRET") || strstr(ran.text, "SECRET_OF")) ? "true"
                                                                                     : "false",
           ran.error ? ran.error : "", left.error ? left.error : "");
    fflush(stdout);
    char byte;
    while (read(0, &byte, 1) > 0)
        ;
    snprintf(params, sizeof params, "{\"sandboxId\":\"%s\"}", made.id);
    result gone = call(loop, host, ABX_OP_SANDBOX_KILL, params);
    return gone.error ? 1 : 0;
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    secret = malloc(64);
    snprintf(secret, 64, "%s%s%s", "S3CRET-", "4711", "4711");
    setenv("SECRET_OF_MINE", secret, 1);
    if (dup2(fileno(tmpfile()), 9) < 0 || write(9, secret, strlen(secret)) < 0 ||
        lseek(9, 0, SEEK_SET) < 0)
        return 2;
    pthread_t threads[THREADS];
    size_t lengths[THREADS];
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, &lengths[i]);

    uv_loop_t loop;
    abx_error *err = NULL;
    abx_host *host = NULL;
    abx_config *config = NULL;
    char *home = abx_home_open(NULL, &err);
    uv_loop_init(&loop);
    abx_log log = {0};
    const char *const env[] = {"ABX_PROVIDER=local", NULL};
    if (!home ||
        abx_config_open(&(abx_config_options){.home = home, .env = env}, &config, &err) < 0 ||
        abx_host_open(&(abx_host_options){.loop = &loop,
                                          .home = home,
                                          .config = config,
                                          .adapters = abx_adapters,
                                          .may_fork = false,
                                          .self = argv[1],
                                          .log = &log},
                      &host, &err) < 0) {
        fprintf(stderr, "%s\n", abx_error_text(err));
        return 2;
    }
    int code = run(&loop, host);
    bool closed = false;
    abx_host_close(host, on_closed, &closed);
    while (!closed || uv_run(&loop, UV_RUN_NOWAIT))
        uv_run(&loop, UV_RUN_ONCE);
    abx_config_free(config);
    if (uv_loop_close(&loop) != 0)
        code = 3;
    stop = true;
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    free(home);
    free(secret);
    return code;
}
