/* sync: scan both sides, plan, do it. With --watch again whenever something changes. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/ask.h"
#include "doors/cli/sync_inner.h"
#include "doors/cli/verbs.h"

#define RETRIES 5 /* failed runs in a row that --watch forgives: files come and go under it */

/* Absolute, links resolved as far as the path exists; without a slash at the end. NULL and *err. */
static char *absolute(const char *word, abx_error **err)
{
    ABX_CHECK(word);
    char *real = realpath(word, NULL);
    if (real)
        return real;
    if (errno != ENOENT) {
        abx_fail_errno(err, ABX_ERR_FILE, errno, "cannot read '%s'", word);
        return NULL;
    }
    ABX_AUTO_FREE char *cwd = word[0] == '/' ? NULL : getcwd(NULL, 0);
    char *path = cwd ? abx_path_join(cwd, word) : abx_strdup(word);
    for (size_t n = strlen(path); n > 1 && path[n - 1] == '/'; n--)
        path[n - 1] = 0;
    return path;
}

static int read_words(abx_sync *s, abx_error **err)
{
    const abx_args *a = s->cli->args;
    ABX_AUTO_REMOTE from = {NULL, NULL}, to = {NULL, NULL};
    abx_remote_path_init(&from, a->words[0]);
    abx_remote_path_init(&to, a->words[1]);
    if (!from.sandbox == !to.sandbox) {
        abx_fail(err, ABX_ERR_USAGE, "'%s' and '%s': one must be a folder here, one in a sandbox",
                 a->words[0], a->words[1]);
        return abx_hint(err, "abx sync DIR ID:PATH, or abx sync ID:PATH DIR");
    }
    s->to_local = from.sandbox != NULL;
    abx_remote_path *remote = s->to_local ? &from : &to;
    ABX_AUTO_FREE char *provider = NULL;
    if (abx_host_resolve(s->cli->_host, remote->sandbox, &s->sandbox, &provider, err) < 0)
        return -1;
    s->remote = ABX_TAKE(remote->path);
    for (size_t n = strlen(s->remote); n > 1 && s->remote[n - 1] == '/'; n--)
        s->remote[n - 1] = 0;
    s->local = absolute(s->to_local ? to.path : from.path, err);
    return s->local ? 0 : -1;
}

static void read_flags(abx_sync *s)
{
    const abx_args *a = s->cli->args;
    s->two_way = abx_has_flag(a, ABX_FLAG_TWO_WAY);
    s->delete_extra = abx_has_flag(a, ABX_FLAG_DELETE);
    s->checksum = abx_has_flag(a, ABX_FLAG_CHECKSUM);
    s->dry_run = abx_has_flag(a, ABX_FLAG_DRY_RUN);
    s->copy.user = abx_flag_value(a, ABX_FLAG_USER, NULL);
}

static const abx_sync_list *source_of(const abx_sync *s)
{
    return &s->lists[s->to_local ? 1 : 0];
}

static int check_source(abx_sync *s, abx_error **err)
{
    bool missing = s->to_local ? s->remote_missing : s->local_missing;
    if (s->two_way ? !(s->local_missing && s->remote_missing) : !missing)
        return 0;
    return abx_fail(err, ABX_ERR_FILE_NOT_FOUND, "no such folder '%s'",
                    s->to_local ? s->remote : s->local);
}

/* A source without anything in it is more often a mistake than a wish. */
static int check_empty(abx_sync *s, const abx_sync_plan *plan, abx_error **err)
{
    bool empty = s->two_way ? s->state.count > 0 && (!s->lists[0].count || !s->lists[1].count)
                            : source_of(s)->count == 0;
    bool deletes = false;
    for (size_t i = 0; i < plan->count; i++)
        deletes = deletes || plan->actions[i].kind == ABX_SYNC_DELETE;
    if (!empty || !deletes || s->dry_run)
        return 0;
    ABX_AUTO_FREE char *question =
        abx_format("'%s' is empty; remove everything on the other side?",
                   s->two_way ? (s->lists[0].count ? s->remote : s->local)
                              : (s->to_local ? s->remote : s->local));
    int answer = abx_confirm(s->cli, question, "--yes", err);
    if (answer < 0)
        return -1;
    return answer ? 0 : abx_fail(err, ABX_ERR_CANCELLED, "nothing was removed");
}

static int scan(abx_sync *s, abx_error **err)
{
    if (abx__sync_read_ignore(s, err) < 0 || abx__sync_scan_local(s, err) < 0 ||
        abx__sync_scan_remote(s, err) < 0)
        return -1;
    return s->checksum ? abx__sync_digests(s, err) : 0;
}

/* Two ways: what is the same now, for the next time. */
static int remember(abx_sync *s, const abx_sync_plan *plan, abx_error **err)
{
    abx_sync_list former[2] = {s->lists[0], s->lists[1]};
    s->lists[0] = s->lists[1] = (abx_sync_list){0};
    int rc = 0;
    if (plan->count > plan->conflicts) {
        rc = scan(s, err);
    } else {
        for (int side = 0; side < 2; side++)
            for (size_t i = 0; i < former[side].count; i++)
                abx_sync_list_add_copy(&s->lists[side], &former[side].entries[i]);
    }
    if (rc == 0)
        rc = abx__sync_state_end(s, former, err);
    abx_sync_list_clear(&former[0]);
    abx_sync_list_clear(&former[1]);
    return rc;
}

static int carry_out(abx_sync *s, const abx_sync_plan *plan, abx_error **err)
{
    if (check_empty(s, plan, err) < 0)
        return -1;
    if (s->dry_run)
        return abx__sync_print(s, plan, err);
    bool works = plan->count > plan->conflicts;
    if (works && s->two_way && abx__sync_state_begin(s, plan, err) < 0)
        return -1;
    if ((works || !s->two_way) && abx__sync_apply(s, plan, err) < 0)
        return -1;
    abx_transfer_hide(&s->copy.transfer);
    if ((!s->watch || works) && abx__sync_print(s, plan, err) < 0)
        return -1;
    return 0;
}

/* One run. 0, or -1 and *err. *conflicts: how many paths were left alone. */
static int run_once(abx_sync *s, size_t *conflicts, abx_error **err)
{
    s->done = (abx_sync_done){0};
    if ((s->two_way && abx__sync_state_open(s, err) < 0) || scan(s, err) < 0 ||
        check_source(s, err) < 0)
        return -1;
    abx_sync_input in = {
        .side = {&s->lists[abx__sync_place(s, 0)], &s->lists[abx__sync_place(s, 1)]},
        .state = &s->state,
        .two_way = s->two_way,
        .delete_extra = s->delete_extra};
    abx_sync_plan plan;
    abx_sync_plan_make(&in, &plan);
    *conflicts = plan.conflicts;
    int rc = carry_out(s, &plan, err);
    if (rc == 0 && s->two_way && !s->dry_run)
        rc = remember(s, &plan, err);
    abx_sync_plan_clear(&plan);
    return rc;
}

static int watch(abx_sync *s, abx_error **err)
{
    int failed = 0;
    for (;;) {
        size_t conflicts = 0;
        ABX_AUTO_ERROR why = NULL;
        abx_transfer_begin(&s->copy.transfer, s->cli, "syncing");
        int rc = run_once(s, &conflicts, &why);
        abx_transfer_end(&s->copy.transfer);
        bool final = rc < 0 && (why->id == ABX_ERR_CANCELLED || why->id == ABX_ERR_USAGE ||
                                why->id == ABX_ERR_SANDBOX_NOT_FOUND || s->cli->output_closed);
        failed = rc < 0 ? failed + 1 : 0;
        if (final || failed > RETRIES)
            return abx_error_take(err, ABX_TAKE(why));
        if (rc < 0)
            abx_cli_warn(s->cli, "abx: %s; trying again", abx_error_text(why));
        if (abx__sync_watch_wait(s, err) < 0)
            return -1;
    }
}

static int run(abx_sync *s, abx_error **err)
{
    if (read_words(s, err) < 0)
        return -1;
    if (abx_has_flag(s->cli->args, ABX_FLAG_WATCH) && !s->dry_run) {
        if (abx__sync_watch_open(s, s->two_way || !s->to_local, s->two_way || s->to_local, err) < 0)
            return -1;
        return watch(s, err);
    }
    size_t conflicts = 0;
    abx_transfer_begin(&s->copy.transfer, s->cli, "syncing");
    int rc = run_once(s, &conflicts, err);
    abx_transfer_end(&s->copy.transfer);
    if (rc < 0 || conflicts == 0)
        return rc;
    abx_fail(err, ABX_ERR_CONFLICT, "%zu %s left as it is on both sides", conflicts,
             conflicts == 1 ? "path is" : "paths are");
    return abx_hint(err, "make both sides the same, or remove one of the two, and run it again");
}

int abx_verb_sync(abx_cli *cli, abx_error **err)
{
    if (abx_cli_open(cli, err) < 0)
        return -1;
    abx_sync s = {.cli = cli, .copy = {.cli = cli}, .lock = -1};
    read_flags(&s);
    ABX_AUTO_ERROR failed = NULL;
    int rc = run(&s, &failed);
    abx__sync_watch_close(&s);
    abx__sync_state_close(&s);
    abx_sync_list_clear(&s.lists[0]);
    abx_sync_list_clear(&s.lists[1]);
    abx_ignore_clear(&s.ignore);
    free(s.local);
    free(s.remote);
    free(s.sandbox);
    if (rc == 0)
        return 0;
    if (abx_has_flag(cli->args, ABX_FLAG_WATCH) && abx_cli_interrupted(cli) &&
        failed->id == ABX_ERR_CANCELLED)
        return 128 + abx_cli_interrupted(cli); /* the way that --watch ends */
    return abx_error_take(err, ABX_TAKE(failed));
}
