/* The same call over libabx, many times: capi_calls SANDBOX ROUNDS. Prints one line: microseconds of the context and the first call, then of
 * the median of the calls after it. Compiled by doors.py, against the library as its users have it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <abx/abx.h>

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* `true` in the sandbox, from its start to its end. */
static int run_true(abx_provider *p, const char *params)
{
    abx_error *err = NULL;
    abx_event event = {.size = sizeof(event)};
    abx_call *call = abx_call_start(p, "process.start", params, 0, NULL, NULL, &err);
    if (!call) {
        fprintf(stderr, "%s\n", abx_error_message(err));
        return -1;
    }
    do {
        event.size = sizeof(event);
    } while (abx_call_next(call, &event, -1) == 1 && event.kind != ABX_KIND_END);
    int rc = event.kind == ABX_KIND_END && !event.error ? 0 : -1;
    abx_call_free(call);
    return rc;
}

int main(int argc, char **argv)
{
    int rounds = argc == 3 ? atoi(argv[2]) : 0;
    if (rounds < 1)
        return 2;
    char params[256];
    snprintf(params, sizeof(params), "{\"sandboxId\":\"%s\",\"cmd\":[\"true\"]}", argv[1]);
    double begin = now_us();
    abx_error *err = NULL;
    abx_context *ctx = abx_context_new(NULL, &err);
    abx_provider *p = ctx ? abx_provider_open(ctx, "{\"provider\":\"local\"}", &err) : NULL;
    if (!p || run_true(p, params) < 0)
        return 1;
    double first = now_us() - begin, *times = calloc((size_t)rounds, sizeof(*times));
    for (int i = 0; times && i < rounds; i++) {
        begin = now_us();
        if (run_true(p, params) < 0)
            return 1;
        times[i] = now_us() - begin;
    }
    if (!times)
        return 1;
    qsort(times, (size_t)rounds, sizeof(*times), by_size);
    printf("%.0f %.0f\n", first, times[rounds / 2]);
    free(times);
    abx_provider_close(p);
    abx_context_free(ctx);
    return 0;
}
