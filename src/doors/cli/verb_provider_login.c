/* provider login, logout: keys of a provider, tried before they are stored, and taken away. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/dry_run.h"
#include "doors/cli/print.h"
#include "doors/cli/provider_view.h"
#include "doors/cli/secret_input.h"
#include "doors/cli/verbs.h"
#include "host/config_keys.h"
#include "host/credentials.h"
#include "host/manifest.h"

#define VALUES_MAX 64

/* What will be written: whole keys with their values. Values that are secrets are overwritten at the end. */
typedef struct login {
    abx_cli *cli;
    abx_providers known;
    const char *id;
    abx_credentials credentials;
    char *names[VALUES_MAX]; /* "api_key" */
    char *values[VALUES_MAX];
    size_t count;
    bool tested;
} login;

/* The provider that a login is about: the word, else the one in use. 0, or -1 and *err. */
static int open_login(abx_cli *cli, login *l, abx_error **err)
{
    *l = (login){.cli = cli};
    if (abx_cli_providers(cli, &l->known, err) < 0)
        return -1;
    l->id = cli->args->word_count ? cli->args->words[0]
                                  : abx_config_get(cli->_config, "provider", NULL, NULL);
    return abx_credentials_open(&l->known, l->id, &l->credentials, err);
}

static void close_login(login *l)
{
    for (size_t i = 0; i < l->count; i++) {
        explicit_bzero(l->values[i], strlen(l->values[i]));
        free(l->values[i]);
        free(l->names[i]);
    }
    abx_credentials_clear(&l->credentials);
}

/* value is taken over. */
static int add(login *l, const char *name, char *value, abx_error **err)
{
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->names[i], name) == 0) { /* the last one wins */
            explicit_bzero(l->values[i], strlen(l->values[i]));
            free(l->values[i]);
            l->values[i] = value;
            return 0;
        }
    if (l->count == VALUES_MAX) {
        free(value);
        return abx_fail(err, ABX_ERR_USAGE, "too many options");
    }
    l->names[l->count] = abx_strdup(name);
    l->values[l->count++] = value;
    return 0;
}

/* --- what is stored beside the key --------------------------------------------------------------------- */

static int fail_setting(const login *l, const char *flag, const char *name, abx_error **err)
{
    abx_fail(err, ABX_ERR_USAGE, "%s: provider '%s' takes no %s", flag, l->id, name);
    return abx_hint(err, "'abx provider info %s' lists what it takes", l->id);
}

static int add_flags(login *l, abx_error **err)
{
    static const struct {
        abx_flag_id flag;
        const char *shown, *name;
    } flags[] = {{ABX_FLAG_REGION, "--region", "region"},
                 {ABX_FLAG_API_URL, "--api-url", "api_url"},
                 {ABX_FLAG_DOMAIN, "--domain", "domain"}};
    const abx_args *a = l->cli->args;
    for (size_t i = 0; i < a->item_count; i++) {
        if (a->items[i].flag != ABX_FLAG_OPTION)
            continue;
        const char *equal = strchr(a->items[i].value, '=');
        ABX_AUTO_FREE char *name =
            abx_strndup(a->items[i].value, (size_t)(equal - a->items[i].value));
        ABX_AUTO_FREE char *shown = abx_format("--option %s", name);
        if (!abx_credentials_takes(&l->credentials, name))
            return fail_setting(l, shown, "such option", err);
        if (abx_credentials_secret(&l->credentials, name)) {
            abx_fail(err, ABX_ERR_USAGE,
                     "option '%s' is a secret: it does not belong on a command line", name);
            return abx_hint(err, "leave it out: it is asked for, or read from standard input");
        }
        if (add(l, name, abx_strdup(equal + 1), err) < 0)
            return -1;
    }
    for (size_t i = 0; i < ABX_COUNT(flags); i++) {
        const char *value = abx_flag_value(a, flags[i].flag, NULL);
        if (!value)
            continue;
        if (!abx_credentials_takes(&l->credentials, flags[i].name))
            return fail_setting(l, flags[i].shown, flags[i].name, err);
        if (add(l, flags[i].name, abx_strdup(value), err) < 0)
            return -1;
    }
    return 0;
}

static bool is_known(const login *l, const char *name)
{
    ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", l->id, name);
    for (size_t i = 0; i < l->count; i++)
        if (strcmp(l->names[i], name) == 0)
            return true;
    return abx_config_get(l->cli->_config, key, NULL, NULL) != NULL;
}

/* "region (cn-beijing, cn-hangzhou): " */
static void write_question(const abx_setting_row *row, abx_buf *out)
{
    size_t n = 0;
    (void)!abx_buf_add_str(out, "region");
    for (const char *c = row->choices; c && *c; n++) {
        int len = (int)strcspn(c, "|");
        (void)!abx_buf_addf(out, "%s%.*s", n ? ", " : " (", len, c);
        c += len + (c[len] == '|');
    }
    for (char **c = row->option ? row->option->choices : NULL; c && *c; c++, n++)
        (void)!abx_buf_addf(out, "%s%s", n ? ", " : " (", *c);
    (void)!abx_buf_add_str(out, n ? "): " : ": ");
}

/* A provider that must know a region, or an address, is told one before the key goes anywhere. */
static int ask_region(login *l, abx_error **err)
{
    ABX_AUTO_FREE char *key = abx_format("providers.%s.region", l->id);
    if (!abx_credentials_takes(&l->credentials, "region") || !abx_may_ask(l->cli) ||
        is_known(l, "region") || is_known(l, "api_url") || is_known(l, "domain"))
        return 0;
    const abx_setting_row *row = abx_config_row(l->cli->_config, key, ABX_ERR_CONFIG, NULL);
    if (!row || (row->option && !row->option->required))
        return 0;
    ABX_AUTO_BUF question = ABX_BUF(4096);
    write_question(row, &question);
    char *answer = abx_ask_line(l->cli, abx_buf_cstr(&question), err);
    if (answer && *answer)
        return add(l, "region", answer, err);
    free(answer);
    return answer ? 0 : -1;
}

/* --- the key ----------------------------------------------------------------------------------------------- */

static int fail_no_secret(const login *l, abx_error **err)
{
    abx_fail(err, ABX_ERR_USAGE, "provider '%s' takes no key", l->id);
    if (l->credentials.key_withheld)
        return abx_hint(err, "it asks for your API key and may not see it: install it again with "
                             "'--inherit apiKey'");
    return abx_hint(err, "it needs no login");
}

/* A key without the blanks around it, or NULL and *err when it can be none. */
static char *checked_key(char *text, const char *name, abx_error **err)
{
    char *begin = text + strspn(text, " \t");
    size_t n = strlen(begin);
    while (n > 0 && strchr(" \t", begin[n - 1]))
        n--;
    bool bad = false;
    for (size_t i = 0; i < n; i++)
        bad = bad || (unsigned char)begin[i] <= ' ' || (unsigned char)begin[i] >= 0x7f;
    char *key = bad ? NULL : abx_strndup(begin, n);
    if (bad)
        abx_fail(err, ABX_ERR_API_KEY,
                 "this is no %s: it holds a blank or a sign that keys have not", name);
    explicit_bzero(text, strlen(text));
    free(text);
    return key;
}

/* An empty line leaves what there is. */
static int read_secret(login *l, const char *name, abx_error **err)
{
    ABX_AUTO_FREE char *what = abx_format("%s of %s", name, l->id);
    ABX_AUTO_FREE char *instead = abx_format("abx provider login %s < FILE", l->id);
    const abx_secret_ask ask = {.what = what,
                                .instead = instead,
                                .silent = abx_has_flag(l->cli->args, ABX_FLAG_API_KEY_STDIN)};
    char *text = abx_read_secret(l->cli, &ask, err);
    char *key = text ? checked_key(text, name, err) : NULL;
    if (key && key[0])
        return add(l, name, key, err);
    free(key);
    return key ? 0 : -1;
}

/* Those that the provider takes, or the one that was named, a line each. */
static int read_secrets(login *l, abx_error **err)
{
    const abx_credentials *c = &l->credentials;
    const char *chosen = abx_flag_value(l->cli->args, ABX_FLAG_SETTING, NULL);
    size_t before = l->count;
    if (chosen && !abx_credentials_secret(c, chosen)) {
        abx_fail(err, ABX_ERR_USAGE, "--setting: provider '%s' takes no key of this name", l->id);
        return abx_hint(err, "'abx provider info %s' lists what it takes", l->id);
    }
    for (size_t i = 0; i < c->secret_count; i++)
        if ((!chosen || strcmp(chosen, c->secrets[i].name) == 0) &&
            read_secret(l, c->secrets[i].name, err) < 0)
            return -1;
    if (l->count > before)
        return 0;
    abx_fail(err, ABX_ERR_USAGE, "no %s was given", chosen ? chosen : c->secrets[0].name);
    return abx_hint(
        err, "give it on the terminal, or on standard input: abx provider login %s < FILE", l->id);
}

/* --- trying it --------------------------------------------------------------------------------------------- */

/* A question that costs little and changes nothing: sandboxes with a label that none has. With a filter the ledger is not
 * compared with the answer, which may be that of another account. */
static yyjson_mut_doc *question(void)
{
    yyjson_mut_val *root;
    yyjson_mut_doc *params = abx_mut_new(&root);
    yyjson_mut_val *metadata = abx_mut_obj(params, root, "metadata");
    abx_mut_str(params, metadata, "abx-login", "test");
    return params;
}

/* 1: it answers; 0: it lists nothing, so there is nothing to ask; -1 and *err. */
static int ask_provider(login *l, abx_error **err)
{
    if (abx_cli_open(l->cli, err) < 0)
        return -1;
    ABX_AUTO_MUT params = question();
    abx_call *call = abx_call_new(&l->cli->_loop, ABX_OP_SANDBOX_LIST, abx_json_freeze(params),
                                  &(abx_call_handlers){0}, NULL);
    ABX_AUTO_FREE char *provider = NULL;
    ABX_AUTO_FREE char *sandbox = NULL;
    abx_error *why = NULL;
    int rc = abx_host_check(l->cli->_host, l->id, call, &provider, &sandbox, &why);
    abx_call_discard(call);
    if (rc < 0 && why->id == ABX_ERR_FEATURE_MISSING) {
        abx_error_free(why);
        return 0;
    }
    if (rc < 0)
        return abx_error_take(err, why);
    if (abx_cli_call_at(l->cli, l->id, ABX_OP_SANDBOX_LIST, question(), NULL, &why) == 0)
        return 1;
    if (why->id != ABX_ERR_FEATURE_MISSING)
        return abx_error_take(err, why);
    /* a plugin has less than its manifest says; a service that does not know the question is no such service */
    if (!l->credentials.address && !abx_credentials_takes(&l->credentials, "api_url")) {
        abx_error_free(why);
        return 0;
    }
    abx_hint(&why,
             "is this the address of such a service? 'abx provider login %s --api-url URL' "
             "gives another",
             l->id);
    return abx_error_take(err, why);
}

static int try_values(login *l, abx_error **err)
{
    for (size_t i = 0; i < l->count; i++) {
        ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", l->id, l->names[i]);
        const abx_setting_row *row = abx_config_row(l->cli->_config, key, ABX_ERR_USAGE, err);
        bool reference = row && row->secret && abx_is_reference(l->values[i]);
        if (!row ||
            (!reference &&
             abx_setting_check(row, l->values[i], ABX_ERR_USAGE, l->names[i], err) < 0) ||
            abx_config_set_flag(l->cli->_config, key, l->values[i], err) < 0)
            return -1;
    }
    abx_error *why = NULL;
    int rc = ask_provider(l, &why);
    abx_config_end_trial(l->cli->_config);
    l->tested = rc > 0;
    if (rc >= 0)
        return 0;
    ABX_AUTO_FREE char *hint = abx_strdup(why->hint);
    if (why->id == ABX_ERR_NETWORK)
        abx_hint(&why,
                 "nothing was stored; 'abx config set providers.%s.%s -' stores a key without a "
                 "test%s%s",
                 l->id, l->credentials.secrets[0].name, hint ? "; " : "", hint ? hint : "");
    else
        abx_hint(&why, "nothing was stored%s%s", hint ? "; " : "", hint ? hint : "");
    return abx_error_take(err, why);
}

/* --- storing it -------------------------------------------------------------------------------------------- */

static int store(login *l, abx_error **err)
{
    const char *profile = abx_config_get(l->cli->_config, "profile", NULL, NULL);
    abx_config_change changes[VALUES_MAX];
    char *keys[VALUES_MAX];
    for (size_t i = 0; i < l->count; i++) {
        keys[i] = abx_format("%s%s%sproviders.%s.%s", profile ? "profiles." : "",
                             profile ? profile : "", profile ? "." : "", l->id, l->names[i]);
        changes[i] = (abx_config_change){keys[i], l->values[i]};
    }
    int rc = abx_config_apply(l->cli->_config, changes, l->count, err);
    for (size_t i = 0; i < l->count; i++)
        free(keys[i]);
    return rc;
}

/* The file has what was written, and something that comes before it says otherwise. */
static void note_others(const login *l)
{
    const abx_cli *cli = l->cli;
    for (size_t i = 0; i < l->count; i++) {
        abx_source source;
        const char *where;
        ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", l->id, l->names[i]);
        const char *now = abx_config_get(cli->_config, key, &source, &where);
        if (now && strcmp(now, l->values[i]) != 0)
            abx_cli_warn(cli,
                         "abx: another %s is used all the same: that of %s, which comes before",
                         l->names[i], where);
    }
    const char *provider = abx_config_get(cli->_config, "provider", NULL, NULL);
    if (!abx_str_eq(provider, l->id))
        abx_cli_note(cli, "abx: new sandboxes come from '%s'; 'abx provider use %s' changes that",
                     provider, l->id);
}

/* {"provider", "keys", "file", "profile", "tested"}; names only. */
static yyjson_mut_doc *describe(const login *l, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = abx_mut_new(root);
    abx_mut_str(d, *root, "provider", l->id);
    yyjson_mut_val *keys = abx_mut_arr(d, *root, "keys");
    for (size_t i = 0; i < l->count; i++)
        yyjson_mut_arr_add_strcpy(d, keys, l->names[i]);
    abx_mut_str(d, *root, "file", abx_config_user_path(l->cli->_config));
    abx_mut_str(d, *root, "profile", abx_config_get(l->cli->_config, "profile", NULL, NULL));
    return d;
}

static int tell_stored(const login *l, abx_error **err)
{
    const char *profile = abx_config_get(l->cli->_config, "profile", NULL, NULL);
    abx_cli_note(l->cli, "abx: stored in '%s'%s%s%s; %s", abx_config_user_path(l->cli->_config),
                 profile ? ", profile '" : "", profile ? profile : "", profile ? "'" : "",
                 l->tested ? "the provider takes it"
                           : "not tested: the provider has no question that would tell");
    note_others(l);
    if (!abx_cli_json(l->cli))
        return 0;
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = describe(l, &root);
    abx_mut_bool(d, root, "tested", l->tested);
    return abx_print_json_mut(l->cli, root, err);
}

static int log_in(login *l, abx_error **err)
{
    if (l->credentials.secret_count == 0)
        return fail_no_secret(l, err);
    if (add_flags(l, err) < 0)
        return -1;
    if (l->cli->dry_run) { /* the key is not even asked for */
        for (size_t i = 0; i < l->credentials.secret_count; i++)
            if (add(l, l->credentials.secrets[i].name, abx_strdup(""), err) < 0)
                return -1;
        yyjson_mut_val *root = NULL;
        return abx_dry_run_add(l->cli, "provider.login", l->id, describe(l, &root), err);
    }
    if (ask_region(l, err) < 0 || read_secrets(l, err) < 0 || try_values(l, err) < 0 ||
        store(l, err) < 0)
        return -1;
    return tell_stored(l, err);
}

int abx_verb_provider_login(abx_cli *cli, abx_error **err)
{
    login l;
    int rc = open_login(cli, &l, err);
    if (rc == 0)
        rc = log_in(&l, err);
    close_login(&l);
    return rc;
}

/* --- logout ------------------------------------------------------------------------------------------------ */

/* Keys that the provider has all the same: of a variable, of another file. */
static void tell_rest(abx_cli *cli, const abx_credentials *c, yyjson_mut_doc *d,
                      yyjson_mut_val *root)
{
    yyjson_mut_val *rest = abx_mut_arr(d, root, "remaining");
    for (size_t i = 0; i < c->secret_count; i++) {
        const char *where;
        ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", c->provider, c->secrets[i].name);
        if (!abx_config_get(cli->_config, key, NULL, &where))
            continue;
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, rest);
        abx_mut_str(d, o, "key", c->secrets[i].name);
        abx_mut_str(d, o, "where", where);
        abx_cli_warn(cli, "abx: '%s' still has %s: that of %s", c->provider, c->secrets[i].name,
                     where);
    }
}

static int log_out(abx_cli *cli, const char *id, const abx_credentials *c, abx_error **err)
{
    char **keys = abx_config_stored_secrets(cli->_config, id);
    abx_config_change changes[VALUES_MAX];
    size_t n = 0;
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_mut_new(&root);
    abx_mut_str(d, root, "provider", id);
    yyjson_mut_val *list = abx_mut_arr(d, root, "removed");
    for (; keys[n] && n < VALUES_MAX; n++) {
        changes[n] = (abx_config_change){keys[n], NULL};
        yyjson_mut_arr_add_strcpy(d, list, keys[n]);
    }
    abx_mut_str(d, root, "file", abx_config_user_path(cli->_config));
    if (cli->dry_run) {
        abx_config_free_keys(keys);
        return abx_dry_run_add(cli, "provider.logout", id, d, err);
    }
    int rc = abx_config_apply(cli->_config, changes, n, err);
    if (rc == 0) {
        abx_cli_note(cli,
                     n ? "abx: the key of '%s' is no longer in '%s'"
                       : "abx: no key of '%s' was stored in '%s'",
                     id, abx_config_user_path(cli->_config));
        tell_rest(cli, c, d, root);
        if (abx_cli_json(cli))
            rc = abx_print_json_mut(cli, root, err);
    }
    abx_config_free_keys(keys);
    yyjson_mut_doc_free(d);
    return rc;
}

int abx_verb_provider_logout(abx_cli *cli, abx_error **err)
{
    login l;
    abx_error *why = NULL;
    if (open_login(cli, &l, &why) < 0) {
        /* Keys of a provider that is not installed any more, or broken, can be taken away too. */
        char **keys = l.id ? abx_config_stored_secrets(cli->_config, l.id) : NULL;
        bool stored = keys && keys[0];
        abx_config_free_keys(keys);
        if (!stored)
            return abx_error_take(err, why);
        abx_error_free(why);
    }
    int rc = log_out(cli, l.id, &l.credentials, err);
    close_login(&l);
    return rc;
}
