#include "doors/cli/complete.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/spec.h"
#include "host/config_keys.h"
#include "host/ledger.h"
#include "host/providers.h"

/* A half-typed line, as far as it is understood. */
typedef struct line {
    const abx_verb *verb;
    const char *group;     /* the words of a verb but the last; or NULL */
    const abx_flag *value; /* the word being typed is the value of this flag */
    size_t words;          /* behind the verb, flags not counted */
    bool command;          /* the command of run or exec has begun */
    bool only_words;       /* behind "--" of another verb */
    const char *typed;     /* the word being typed */
    const char *home;
    const abx_adapter *const *adapters;
    abx_buf *out;
} line;

/* --- what is there already ----------------------------------------------------------------------------- */

static const abx_flag *find_flag(const abx_verb *verb, const char *name, size_t n)
{
    ABX_AUTO_FREE char *word = abx_strndup(name, n);
    for (int i = 0; i < ABX_FLAG_COUNT; i++) {
        const abx_flag *f = abx_flag_row((abx_flag_id)i);
        if (abx_verb_has_flag(verb, f) &&
            (strcmp(f->name, word) == 0 || abx_in_list(f->aliases, word, ' ')))
            return f;
    }
    return NULL;
}

/* A bundle of short flags: its last letter may want a value. */
static const abx_flag *open_letter(const abx_verb *verb, const char *letters)
{
    for (const char *c = letters; *c; c++)
        for (int i = 0; i < ABX_FLAG_COUNT; i++) {
            const abx_flag *f = abx_flag_row((abx_flag_id)i);
            if (f->letter == *c && abx_verb_has_flag(verb, f) && abx_flag_takes_value(f->type))
                return c[1] ? NULL : f;
        }
    return NULL;
}

static void take_flag(line *l, const char *word)
{
    const abx_flag *f = NULL;
    if (word[1] != '-')
        f = open_letter(l->verb, word + 1);
    else if (!strchr(word, '='))
        f = find_flag(l->verb, word + 2, strlen(word + 2));
    l->value = f && abx_flag_takes_value(f->type) ? f : NULL;
}

static void take_word(line *l, const char *word)
{
    int n;
    if (l->value) {
        l->value = NULL;
    } else if (!l->only_words && strcmp(word, "--") == 0) {
        l->only_words = true;
        l->command = l->verb && l->verb->args != ABX_ARGS_WORDS;
    } else if (!l->only_words && word[0] == '-' && word[1]) {
        take_flag(l, word);
    } else if (!l->verb && !l->group && abx_is_verb_group(word)) {
        l->group = word;
    } else if (!l->verb && l->group && abx_verb_subgroup(l->group, word)) {
        l->group = abx_verb_subgroup(l->group, word);
    } else if (!l->verb) {
        l->verb = l->group ? abx_verb_find(l->group, word, &n) : abx_verb_find(word, NULL, &n);
    } else if (l->verb->args != ABX_ARGS_WORDS && l->words == (size_t)l->verb->max) {
        l->command = true;
    } else {
        l->words++;
    }
}

/* --- candidates ---------------------------------------------------------------------------------------- */

/* before: what stands in front of the part that is completed ("--output="). */
static void offer(line *l, const char *before, const char *word, const char *text)
{
    if (!abx_has_prefix(word, l->typed + strlen(before)))
        return;
    ABX_AUTO_FREE char *shown = abx_printable(word);
    ABX_AUTO_FREE char *told = abx_printable(text ? text : "");
    if (strcmp(shown, word) != 0)
        return; /* a word that a shell would have to be told byte by byte */
    ABX_CHECK(abx_buf_addf(l->out, told[0] ? "%s%s\t%s\n" : "%s%s\n", before, word, told) == 0);
}

static void offer_list(line *l, const char *before, const char *list, char separator)
{
    for (const char *p = list; *p;) {
        const char *end = strchr(p, separator);
        size_t n = end ? (size_t)(end - p) : strlen(p);
        ABX_AUTO_FREE char *word = abx_strndup(p, n);
        offer(l, before, word, NULL);
        p += n + (end != NULL);
    }
}

static void ask_shell(line *l, const char *what)
{
    ABX_CHECK(abx_buf_addf(l->out, ":%s\n", what) == 0);
}

static void offer_verbs(line *l, const char *group)
{
    const char *last = NULL;
    size_t last_len = 0, head = group ? strlen(group) + 1 : 0;
    for (int i = 0; i < ABX_VERB_COUNT; i++) {
        const abx_verb *v = abx_verb_row((abx_verb_id)i);
        if (group && !(abx_has_prefix(v->name, group) && v->name[head - 1] == ' '))
            continue;
        const char *name = v->name + head;
        size_t n = strcspn(name, " ");
        if (last && last_len == n && strncmp(last, name, n) == 0)
            continue; /* a group: once */
        last = name;
        last_len = n;
        ABX_AUTO_FREE char *word = abx_strndup(name, n);
        ABX_AUTO_FREE char *of_group =
            name[n] ? abx_format("abx %s%s%s VERB ...", group ? group : "", group ? " " : "", word)
                    : NULL;
        offer(l, "", word, of_group ? of_group : v->summary);
    }
}

static void offer_flags(line *l)
{
    bool negative = abx_has_prefix(l->typed, "--no");
    for (int i = 0; i < ABX_FLAG_COUNT; i++) {
        const abx_flag *f = abx_flag_row((abx_flag_id)i);
        if (!abx_verb_has_flag(l->verb, f))
            continue;
        ABX_AUTO_FREE char *name = abx_format("--%s", f->name);
        ABX_AUTO_FREE char *off = abx_format("--no-%s", f->name);
        offer(l, "", name, f->text);
        if (negative && f->type == ABX_FLAG_TYPE_BOOL)
            offer(l, "", off, NULL);
    }
}

/* Names and ids from the ledger; with behind ":" for a path in a sandbox. */
static void offer_sandboxes(line *l, const char *behind)
{
    abx_ledger *ledger = NULL;
    abx_ledger_entry *entries = NULL;
    char **bad = NULL;
    size_t count = 0, bad_count = 0;
    if (!l->home || abx_ledger_open(l->home, &ledger, NULL) < 0)
        return;
    if (abx_ledger_read(ledger, &entries, &count, &bad, &bad_count, NULL) == 0) {
        for (size_t i = 0; i < count; i++) {
            const abx_ledger_entry *e = &entries[i];
            const char *id = e->id ? e->id : e->key;
            ABX_AUTO_FREE char *named = abx_format("%s%s", e->name ? e->name : "", behind);
            ABX_AUTO_FREE char *by_id = abx_format("%s%s", id, behind);
            if (e->name)
                offer(l, "", named, e->provider);
            offer(l, "", by_id, e->name ? e->name : e->provider);
        }
        for (size_t i = 0; i < bad_count; i++)
            free(bad[i]);
        free(bad);
        abx_ledger_entries_free(entries, count);
    }
    abx_ledger_free(ledger);
}

/* What lies in the store under the name of a provider: offered, or given to `each`. */
static void each_installed(line *l, const char *before, void (*each)(line *l, const char *id))
{
    ABX_AUTO_FREE char *folder = l->home ? abx_path_join(l->home, "providers") : NULL;
    DIR *dir = folder ? opendir(folder) : NULL;
    for (struct dirent *e; dir && (e = readdir(dir)) != NULL;)
        if (abx_is_name(e->d_name)) {
            if (each)
                each(l, e->d_name);
            else
                offer(l, before, e->d_name, NULL);
        }
    if (dir)
        closedir(dir);
}

static void offer_providers(line *l, const char *before)
{
    each_installed(l, before, NULL);
    for (size_t i = 0; l->adapters && l->adapters[i]; i++)
        for (const char *const *id = l->adapters[i]->builtin_ids; id && *id; id++)
            offer(l, before, *id, NULL);
}

static void offer_signals(line *l)
{
    for (int i = 1; i < NSIG; i++) {
        const char *name = sigabbrev_np(i);
        if (name)
            offer(l, "", name, NULL);
    }
}

/* Keys of an installed plugin: the common ones and its own options. */
static void offer_plugin_settings(line *l, const char *id)
{
    ABX_AUTO_FREE char *folder = abx_format("%s/providers/%s", l->home, id);
    ABX_AUTO(abx_manifest, abx_manifest_free) m = abx_providers_folder_manifest(folder, NULL);
    if (!m)
        return;
    for (int i = 0; i < ABX_CORE_COUNT; i++) {
        ABX_AUTO_FREE char *key =
            abx_format("providers.%s.%s", id, abx_core_key_setting((abx_core_key)i));
        offer(l, "", key, NULL);
    }
    for (size_t i = 0; i < m->option_count; i++) {
        ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", id, m->options[i].name);
        offer(l, "", key, m->options[i].description);
    }
}

static void offer_settings(line *l)
{
    each_installed(l, "", offer_plugin_settings);
    size_t n;
    const abx_setting_row *rows = abx_settings(&n);
    for (size_t i = 0; i < n; i++) {
        const abx_setting_row *r = &rows[i];
        if (!r->provider) {
            offer(l, "", r->key, r->text);
            continue;
        }
        for (size_t a = 0; l->adapters && l->adapters[a]; a++)
            for (const char *const *id = l->adapters[a]->builtin_ids; id && *id; id++) {
                ABX_AUTO_FREE char *key = abx_format("providers.%s.%s", *id, r->key);
                if (!r->provider[0] || strcmp(r->provider, *id) == 0)
                    offer(l, "", key, r->text);
            }
    }
}

static void offer_value(line *l, const abx_flag *f, const char *before)
{
    if (f->type == ABX_FLAG_TYPE_CHOICE)
        offer_list(l, before, f->arg, '|');
    else if (f->id == ABX_FLAG_NETWORK)
        offer_list(l, before, "none|internet", '|');
    else if (f->id == ABX_FLAG_PROVIDER)
        offer_providers(l, before);
    else if (strcmp(f->arg, "FILE") == 0)
        ask_shell(l, "files");
    else if (strcmp(f->arg, "DIR") == 0 && f->id != ABX_FLAG_WORKDIR) /* that one is inside */
        ask_shell(l, "folders");
}

/* --- the word behind the verb --------------------------------------------------------------------------- */

/* The name of the word at this place by the verb's usage: "ID", "SRC", "JOB" ...; brackets are left out. Owned; NULL:
 * none stands there. The last one repeats when it ends with "...". */
static char *place_of(const abx_verb *verb, size_t at)
{
    const char *p = verb->usage + strlen(verb->name);
    char *last = NULL;
    bool repeats = false;
    for (size_t i = 0; *p;) {
        p += strspn(p, " ");
        size_t n = strcspn(p, " ");
        if (n == 0 || strncmp(p, "[flags]", n) == 0 || strncmp(p, "[--]", n) == 0) {
            p += n;
            continue;
        }
        free(last);
        last = abx_alloc(n + 1);
        size_t len = 0;
        for (size_t k = 0; k < n; k++)
            if (p[k] != '[' && p[k] != ']' && p[k] != '.')
                last[len++] = p[k];
        last[len] = 0;
        repeats = n >= 3 && strstr(p, "...") && strstr(p, "...") < p + n;
        if (i++ == at)
            return last;
        p += n;
    }
    if (repeats)
        return last;
    free(last);
    return NULL;
}

static void offer_place(line *l, const char *place)
{
    bool path_inside = abx_has_prefix(place, "ID:");
    if (l->verb->id == ABX_VERB_SYNC) { /* one here and one inside, in either order */
        if (!strchr(l->typed, ':'))
            offer_sandboxes(l, ":");
        ask_shell(l, "folders");
        return;
    }
    bool either = strcmp(place, "SRC") == 0 || strcmp(place, "DST") == 0;
    if (path_inside || either) {
        if (!strchr(l->typed, ':'))
            offer_sandboxes(l, ":");
        if (either)
            ask_shell(l, "files");
    } else if (abx_has_prefix(place, "ID") && abx_has_prefix(l->verb->name, "provider ")) {
        offer_providers(l, "");
        if (strcmp(place, "ID|DIR") == 0)
            ask_shell(l, "folders");
    } else if (strcmp(place, "ID") == 0) {
        offer_sandboxes(l, "");
    } else if (strcmp(place, "SIGNAL") == 0) {
        offer_signals(l);
    } else if (strcmp(place, "KEY") == 0) {
        offer_settings(l);
    } else if (strcmp(place, "VERB") == 0) {
        offer_verbs(l, NULL);
    } else if (strchr(place, '|')) {
        offer_list(l, "", place, '|');
    } else if (abx_in_list("FILE ARCHIVE SOURCE COMMAND ARG", place, ' ')) {
        ask_shell(l, "files");
    } else if (strcmp(place, "DIR") == 0) {
        ask_shell(l, "folders");
    }
}

static void offer_next(line *l)
{
    const char *equals = strchr(l->typed, '=');
    if (l->value) {
        offer_value(l, l->value, "");
    } else if (l->command) {
        ask_shell(l, "files");
    } else if (!l->only_words && abx_has_prefix(l->typed, "--") && equals) {
        const abx_flag *f = find_flag(l->verb, l->typed + 2, (size_t)(equals - l->typed) - 2);
        ABX_AUTO_FREE char *before = abx_strndup(l->typed, (size_t)(equals - l->typed) + 1);
        if (f)
            offer_value(l, f, before);
    } else if (!l->only_words && l->typed[0] == '-') {
        offer_flags(l);
    } else if (!l->verb) {
        offer_verbs(l, l->group);
    } else if (l->verb->id == ABX_VERB_HELP && l->words > 0) {
        return; /* the second word of a group: help shows the group itself */
    } else {
        ABX_AUTO_FREE char *place = place_of(l->verb, l->words);
        if (place)
            offer_place(l, place);
    }
}

void abx_complete(char *const *words, size_t count, const char *home,
                  const abx_adapter *const *adapters, abx_buf *out)
{
    if (count == 0)
        return;
    line l = {.typed = words[count - 1], .home = home, .adapters = adapters, .out = out};
    for (size_t i = 0; i + 1 < count; i++) {
        const char *before = l.group;
        take_word(&l, words[i]);
        bool unknown = !l.verb && !l.value && words[i][0] != '-' && l.group == before;
        if (unknown)
            return;
    }
    offer_next(&l);
}

int abx_complete_main(int argc, char **argv, const abx_adapter *const *adapters)
{
    ABX_AUTO_FREE char *home = abx_home_path(NULL);
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    int from = argc > 2 && strcmp(argv[2], "--") == 0 ? 3 : 2;
    if (argc > from)
        abx_complete(argv + from, (size_t)(argc - from), home, adapters, &out);
    (void)fwrite(abx_buf_cstr(&out), 1, out.len, stdout);
    return 0;
}
