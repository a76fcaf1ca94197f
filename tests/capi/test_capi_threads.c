/* One context used by many threads, several contexts in one process, threads that end while what they started lives on. */
#include "rig.h"

#include <pthread.h>
#include <stdatomic.h>

#include "plugin.h"

#define THREADS 6
#define ROUNDS  8

typedef struct worker {
    rig *r;
    abx_provider *p;
    char sandbox[64];
    int number;
    int bad;
} worker;

/* In a thread no assert of cmocka works: mistakes are counted. */
static int run_one(worker *w, int round)
{
    char params[256], want[64], out[64] = "";
    size_t n = 0;
    int exit_code = -1, rc;
    snprintf(want, sizeof(want), "%d.%d\n", w->number, round);
    snprintf(params, sizeof(params),
             "{\"sandboxId\":\"%s\",\"cmd\":[\"sh\",\"-c\",\"echo %d.%d; exit %d\"]}", w->sandbox,
             w->number, round, w->number);
    abx_call *c = abx_call_start(w->p, "process.start", params, 0, NULL, NULL, NULL);
    abx_event e = {.size = sizeof(e)};
    if (!c)
        return 1;
    while ((rc = abx_call_next(c, &e, RIG_LONG)) == 1) {
        if (e.kind == ABX_KIND_CHUNK && n + e.length < sizeof(out)) {
            memcpy(out + n, e.data, e.length);
            n += e.length;
        }
        if (e.kind == ABX_KIND_END && !e.error)
            sscanf(strstr(e.data, "\"exitCode\":"), "\"exitCode\":%d", &exit_code);
    }
    out[n] = 0;
    abx_call_free(c);
    return rc != -1 || exit_code != w->number || strcmp(out, want) != 0;
}

static void *work(void *data)
{
    worker *w = data;
    for (int i = 0; i < ROUNDS; i++)
        w->bad += run_one(w, i);
    return NULL;
}

static void many_threads_on_one_context(void **state)
{
    rig *r = *state;
    pthread_t threads[THREADS];
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.r = r, .p = r->local, .number = i};
        strcpy(workers[i].sandbox, r->sandbox);
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].bad, 0);
    }
}

/* A context, a provider, a sandbox: all of it in a thread of its own. */
static void *live(void *data)
{
    worker *w = data;
    char options[160], params[128];
    snprintf(options, sizeof(options), "{\"home\":\"%s\"}", w->r->home);
    abx_context *ctx = abx_context_new(options, NULL);
    w->p = ctx ? abx_provider_open(ctx, "{\"provider\":\"local\"}", NULL) : NULL;
    char *made = w->p ? abx_provider_call(w->p, "sandbox.create", NULL, 0, NULL) : NULL;
    if (!made) {
        w->bad++;
        abx_context_free(ctx);
        return NULL;
    }
    sscanf(strstr(made, "\"id\":\"") + 6, "%63[^\"]", w->sandbox);
    abx_free(made);
    for (int i = 0; i < 3; i++)
        w->bad += run_one(w, i);
    snprintf(params, sizeof(params), "{\"sandboxId\":\"%s\"}", w->sandbox);
    char *gone = abx_provider_call(w->p, "sandbox.kill", params, 0, NULL);
    w->bad += !gone;
    abx_free(gone);
    abx_context_free(ctx);
    return NULL;
}

static void several_contexts_at_once(void **state)
{
    pthread_t threads[3];
    worker workers[3];
    for (int i = 0; i < 3; i++) {
        workers[i] = (worker){.r = *state, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, live, &workers[i]), 0);
    }
    for (int i = 0; i < 3; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(workers[i].bad, 0);
    }
}

static void *ask_once(void *data)
{
    return abx_provider_call(data, "sandbox.info", "{\"sandboxId\":\"aaaaaaaaaaaaaaaa\"}", 0, NULL);
}

static int plugin_pid(const char *answer)
{
    int pid = 0;
    assert_non_null(answer);
    assert_int_equal(sscanf(strstr(answer, "\"name\":\"pid"), "\"name\":\"pid%d", &pid), 1);
    return pid;
}

/* The program of a provider is started by whatever thread asks first; when that thread ends, it must not. */
static void a_plugin_outlives_the_thread_that_started_it(void **state)
{
    rig *r = *state;
    char folder[128], connection[256];
    snprintf(folder, sizeof(folder), "%s/pid", r->home);
    plugin_write(folder, plugin_pid_program);
    snprintf(connection, sizeof(connection), "{\"provider\":\"%s\"}", folder);
    abx_provider *p = rig_open(r->ctx, connection);
    pthread_t thread;
    void *first = NULL;
    assert_int_equal(pthread_create(&thread, NULL, ask_once, p), 0);
    assert_int_equal(pthread_join(thread, &first), 0);
    char *second = ask_once(p);
    assert_int_equal(plugin_pid(first), plugin_pid(second));
    abx_free(first);
    abx_free(second);
    abx_provider_close(p);
}

static atomic_int chunks, ends;

static void on_event(abx_call *call, const abx_event *e, void *user)
{
    (void)user;
    if (e->kind == ABX_KIND_CHUNK)
        chunks++;
    if (e->kind == ABX_KIND_END) {
        ends++;
        abx_call_free(call);
    }
}

static void *keep_running(void *data)
{
    while (abx_context_run(data, -1) >= 0 && ends < 2 * THREADS)
        ;
    return NULL;
}

/* A thread that does nothing but drive, while others start, wait and stop. */
static void callbacks_in_a_thread_of_their_own(void **state)
{
    rig *r = *state;
    pthread_t driver;
    chunks = ends = 0;
    assert_int_equal(pthread_create(&driver, NULL, keep_running, r->ctx), 0);
    for (int i = 0; i < THREADS; i++) {
        rig_shell(r, "echo x", "", on_event, NULL);
        abx_call *endless = rig_shell(r, "sleep 1000", "", on_event, NULL);
        worker w = {.r = r, .p = r->local, .number = i};
        strcpy(w.sandbox, r->sandbox);
        assert_int_equal(run_one(&w, i), 0);
        abx_call_stop(endless);
    }
    while (ends < 2 * THREADS)
        usleep(1000);
    abx_context_wake(r->ctx);
    assert_int_equal(pthread_join(driver, NULL), 0);
    assert_int_equal(chunks, THREADS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_threads_on_one_context),
        cmocka_unit_test(several_contexts_at_once),
        cmocka_unit_test(a_plugin_outlives_the_thread_that_started_it),
        cmocka_unit_test(callbacks_in_a_thread_of_their_own),
    };
    return cmocka_run_group_tests(tests, rig_setup, rig_teardown);
}
