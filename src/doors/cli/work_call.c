#include "doors/cli/work_call.h"

#include <string.h>

#include "base/mem.h"
#include "doors/cli/progress.h"

typedef struct work {
    abx_call *call;
    abx_transfer line;
    int64_t bytes; /* of the layer that is unpacked now */
    bool ended;
    yyjson_doc *result;
    abx_error *err;
} work;

static void on_event(abx_call *c, const char *type, yyjson_val *event, void *data)
{
    work *a = data;
    int64_t now = abx_json_int(event, "bytes", 0);
    (void)c;
    if (strcmp(type, "progress") != 0)
        return;
    if (now < a->bytes) /* the next layer */
        a->bytes = 0;
    abx_transfer_add(&a->line, now - a->bytes, 0);
    a->bytes = now;
}

static void on_end(abx_call *c, yyjson_val *result, const abx_error *err, void *data)
{
    work *a = data;
    (void)c;
    a->ended = true;
    a->call = NULL;
    a->err = abx_error_copy(err);
    a->result = err ? NULL : abx_json_copy(result);
}

static void on_signal(abx_cli *cli, int sig, void *data)
{
    work *a = data;
    abx_cli_interrupt(cli, sig);
    if (a->call)
        abx_call_cancel(a->call);
}

int abx_work_call(abx_cli *cli, abx_op_id op, yyjson_mut_doc *params, const char *label,
                  yyjson_doc **result, abx_error **err)
{
    static const abx_call_handlers handlers = {.on_event = on_event, .on_end = on_end};
    work a = {0};
    a.call = abx_cli_start(cli, op, params, &handlers, &a, err);
    if (!a.call)
        return -1;
    void *former_data = NULL;
    abx_cli_signal_cb former = abx_cli_take_signals(cli, on_signal, &a, &former_data);
    abx_transfer_begin(&a.line, cli, label);
    a.line.state.total_bytes = a.line.state.total_files = -1;
    while (!a.ended)
        abx_cli_turn(cli);
    abx_transfer_end(&a.line);
    abx_cli_take_signals(cli, former, former_data, NULL);
    if (a.err)
        return abx_error_take(err, a.err);
    *result = a.result;
    return 0;
}
