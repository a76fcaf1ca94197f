#include "local/template/work.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "local/starter_message.h"

static int send_all(int pair, yyjson_mut_val *v)
{
    ABX_AUTO_BUF out = ABX_BUF(ABX_STARTER_MAX + 4);
    if (abx_starter_frame(v, &out) < 0)
        return -1;
    for (size_t at = 0; at < out.len;) {
        ssize_t n = send(pair, out.data + at, out.len - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return -1;
        at += (size_t)n;
    }
    return 0;
}

int abx_work_tell(abx_work *w, yyjson_mut_doc *event)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_put(d, root, "event", yyjson_mut_val_mut_copy(d, yyjson_mut_doc_get_root(event)));
    return send_all(w->pair, root);
}

_Noreturn static void answer(int pair, const char *key, yyjson_mut_doc *d, yyjson_mut_val *v)
{
    yyjson_mut_val *root = yyjson_mut_obj(d);
    abx_mut_put(d, root, key, v);
    _exit(send_all(pair, root) < 0 ? 1 : 0);
}

_Noreturn static void refuse(int pair, abx_error *err)
{
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    answer(pair, "error", d, abx_error_json(d, err));
}

/* Walks hold two descriptors for each level of folders. */
static void raise_files(void)
{
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        files.rlim_cur = files.rlim_max < 65536 ? files.rlim_max : 65536;
        (void)setrlimit(RLIMIT_NOFILE, &files);
    }
}

void abx_work_finishing(void)
{
    sigset_t term;
    sigemptyset(&term);
    sigaddset(&term, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &term, NULL);
}

_Noreturn void abx_work_main(yyjson_val *request, int pair)
{
    abx_error *err = NULL;
    abx_work w = {.pair = pair, .params = abx_json_get(request, "params")};
    abx_local_options options = {.home = abx_json_str(request, "home", NULL), .may_fork = true};
    w.ids = (abx_ids)abx_json_int(request, "ids", ABX_IDS_SINGLE);
    umask(0);
    raise_files();
    (void)signal(SIGPIPE, SIG_IGN);
    (void)signal(SIGTERM, SIG_DFL);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    /* The home is found with the caller's own ids. */
    if (abx_local_open(&options, &w.local, &err) < 0 || abx_work_take_ids(w.ids, &err) < 0)
        refuse(pair, err);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* a change of ids has cleared it */
    w.d = abx_mut_new(&w.result);
    if (abx_work_run(&w, abx_json_str(request, "job", ""), &err) < 0)
        refuse(pair, err);
    answer(pair, "result", w.d, w.result);
}
