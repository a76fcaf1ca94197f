/* provider install, link. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/ask.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/print.h"
#include "doors/cli/store_task.h"
#include "doors/cli/verbs.h"
#include "host/store_report.h"

/* --- which common keys it may see ----------------------------------------------------------------------- */

/* "apiKey, domain" of the keys that are set. Owned; "" for none. */
static char *key_list(const bool keys[ABX_CORE_COUNT], const char *between)
{
    ABX_AUTO_BUF text = ABX_BUF(1024);
    int rc = abx_buf_add_str(&text, "");
    for (int k = 0; k < ABX_CORE_COUNT; k++)
        if (keys[k])
            rc |= abx_buf_addf(&text, "%s%s", text.len ? between : "",
                               abx_core_key_name((abx_core_key)k));
    ABX_CHECK(rc == 0);
    return abx_buf_take(&text);
}

static int unknown_key(const char *word, abx_error **err)
{
    bool all[ABX_CORE_COUNT] = {true, true, true, true, true};
    ABX_AUTO_FREE char *known = key_list(all, ", ");
    abx_fail(err, ABX_ERR_USAGE, "--inherit: '%s' is no common key", word);
    return abx_hint(err, "the keys are %s; 'none' gives none", known);
}

/* --inherit KEY,…: exactly these. */
static int read_keys(abx_store_change *c, const char *list, abx_error **err)
{
    ABX_AUTO_FREE char *copy = abx_strdup(list);
    char *rest = NULL;
    memset(c->now.consent, 0, sizeof(c->now.consent));
    if (strcmp(list, "none") == 0)
        return 0;
    for (char *word = strtok_r(copy, ",", &rest); word; word = strtok_r(NULL, ",", &rest)) {
        abx_core_key key;
        if (!abx_core_key_find(word, &key))
            return unknown_key(word, err);
        if (!c->manifest->inherit[key]) {
            ABX_AUTO_FREE char *asked = key_list(c->manifest->inherit, ", ");
            abx_fail(err, ABX_ERR_USAGE, "provider '%s' does not ask for '%s'", c->now.id, word);
            return abx_hint(err, "it asks for %s", *asked ? asked : "no common key");
        }
        c->now.consent[key] = true;
    }
    return 0;
}

static bool may_ask(const abx_cli *cli)
{
    return !cli->yes && !cli->no_input && !cli->dry_run && isatty(STDIN_FILENO) &&
           isatty(STDERR_FILENO);
}

/* --yes answers questions, but gives no keys away. */
static int find_consent(abx_cli *cli, abx_store_change *c, abx_error **err)
{
    const char *flag = abx_flag_value(cli->args, ABX_FLAG_INHERIT, NULL);
    if (flag)
        return read_keys(c, flag, err);
    ABX_AUTO_FREE char *asked = key_list(c->asks, ", ");
    ABX_AUTO_FREE char *words = key_list(c->manifest->inherit, ",");
    if (!*asked)
        return 0;
    if (!may_ask(cli)) {
        if (c->step != ABX_STORE_SAME)
            abx_cli_note(cli, "abx: '%s' asks to see %s and may not; '--inherit %s' lets it",
                         c->now.id, asked, words);
        return 0;
    }
    ABX_AUTO_FREE char *question = abx_format(
        "provider '%s' would like to see these settings of yours: %s; may it?", c->now.id, asked);
    int yes = abx_confirm(cli, question, "--inherit", err);
    for (int k = 0; yes == 1 && k < ABX_CORE_COUNT; k++)
        c->now.consent[k] = c->now.consent[k] || c->asks[k];
    return yes < 0 ? -1 : 0;
}

/* --- questions ------------------------------------------------------------------------------------------ */

static int confirm(abx_cli *cli, const char *question, abx_error **err)
{
    int yes = cli->dry_run ? 1 : abx_confirm(cli, question, "--yes", err);
    return yes < 0 ? -1 : yes ? 0 : abx_fail(err, ABX_ERR_CANCELLED, "nothing was installed");
}

static int confirm_step(abx_cli *cli, const abx_store_change *c, abx_error **err)
{
    if (c->now.trust == ABX_TRUST_LINK && c->step != ABX_STORE_SAME) {
        ABX_AUTO_FREE char *question = abx_format(
            "a link runs what lies in '%s' at that moment, compared with nothing; link it?",
            c->now.source);
        return confirm(cli, question, err);
    }
    if (c->step != ABX_STORE_DOWNGRADE)
        return 0;
    ABX_AUTO_FREE char *question =
        abx_format("provider '%s' is installed in version %s; go back to %s?", c->now.id,
                   c->then.version, c->now.version);
    return confirm(cli, question, err);
}

/* --- what was done -------------------------------------------------------------------------------------- */

static void tell_step(const abx_cli *cli, const abx_store_change *c)
{
    const abx_store_entry *e = &c->now;
    ABX_AUTO_FREE char *keys = key_list(e->consent, ", ");
    switch (c->step) {
    case ABX_STORE_SAME:
        abx_cli_note(cli, "abx: provider '%s' %s is installed already", e->id, e->version);
        break;
    case ABX_STORE_NEW:
        abx_cli_note(cli, "abx: %s provider '%s' %s",
                     e->trust == ABX_TRUST_LINK ? "linked" : "installed", e->id, e->version);
        break;
    case ABX_STORE_REPLACE:
        abx_cli_note(cli, "abx: provider '%s' %s is another one now", e->id, e->version);
        break;
    default:
        abx_cli_note(cli, "abx: provider '%s' is %s now (was %s)", e->id, e->version,
                     c->then.version);
        break;
    }
    if (*keys)
        abx_cli_note(cli, "abx: it may see %s", keys);
}

static int finish(abx_cli *cli, abx_store_change *c, abx_error **err)
{
    if (confirm_step(cli, c, err) < 0 || find_consent(cli, c, err) < 0)
        return -1;
    ABX_AUTO_MUT d = abx_store_change_report(c);
    if (cli->dry_run)
        return abx_dry_run_add(cli, "provider.install", c->now.id, ABX_TAKE(d), err);
    if (abx_store_commit(c, err) < 0)
        return -1;
    tell_step(cli, c);
    if (abx_cli_json(cli))
        return abx_print_json_mut(cli, yyjson_mut_doc_get_root(d), err);
    return abx_print_line(cli, c->now.id, err);
}

static int change(abx_cli *cli,
                  abx_store_change *(*prepare)(const char *, const char *, const abx_store_task *,
                                               abx_error **),
                  const char *label, abx_error **err)
{
    abx_cli_task t;
    ABX_AUTO_FREE char *home = NULL;
    if (abx_cli_task_begin(&t, cli, label, &home, err) < 0)
        return -1;
    ABX_AUTO(abx_store_change, abx_store_change_free) c =
        prepare(home, cli->args->words[0], &t.task, err);
    abx_cli_task_end(&t);
    return c ? finish(cli, c, err) : -1;
}

int abx_verb_provider_install(abx_cli *cli, abx_error **err)
{
    return change(cli, abx_store_prepare, "installing", err);
}

int abx_verb_provider_link(abx_cli *cli, abx_error **err)
{
    return change(cli, abx_store_prepare_link, "linking", err);
}
