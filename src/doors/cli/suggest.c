#include "doors/cli/suggest.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

int abx_fail_unknown_flag(const abx_verb *verb, const char *name, abx_error **err)
{
    const char *names[ABX_FLAG_COUNT];
    size_t n = 0;
    const abx_flag *of_others = NULL;
    for (int i = 0; i < ABX_FLAG_COUNT; i++) {
        const abx_flag *f = abx_flag_row((abx_flag_id)i);
        if (abx_verb_has_flag(verb, f))
            names[n++] = f->name;
        else if (strcmp(f->name, name) == 0)
            of_others = f;
    }
    if (of_others && !verb) {
        abx_fail(err, ABX_ERR_USAGE, "flag '--%s' stands before the verb", name);
        return abx_hint(err, "put it behind the verb: abx VERB --%s", name);
    }
    if (of_others)
        abx_fail(err, ABX_ERR_USAGE, "'abx %s' has no flag '--%s'", verb->name, name);
    else
        abx_fail(err, ABX_ERR_USAGE, "unknown flag '--%s'", name);
    const char *near = abx_nearest(name, names, n);
    if (near)
        return abx_hint(err, "did you mean '--%s'?", near);
    if (verb)
        return abx_hint(err, "'abx help %s' lists the flags", verb->name);
    return abx_hint(err, "'abx help' lists the global flags");
}

int abx_fail_unknown_letter(const abx_verb *verb, const char *letter, abx_error **err)
{
    size_t n = 1; /* a whole character, it may have several bytes */
    while (((unsigned char)letter[n] & 0xc0) == 0x80)
        n++;
    ABX_AUTO_FREE char *one = abx_strndup(letter, n);
    if (!verb) {
        abx_fail(err, ABX_ERR_USAGE, "unknown flag '-%s' before the verb", one);
        return abx_hint(err, "flags of a verb stand behind it; 'abx help' lists the global ones");
    }
    abx_fail(err, ABX_ERR_USAGE, "'abx %s' has no flag '-%s'", verb->name, one);
    return abx_hint(err, "'abx help %s' lists the flags", verb->name);
}

/* Is the one an abbreviation of the other: the same first letter, its others in the same order? "js" of "javascript" */
static bool is_short_for(const char *brief, const char *word)
{
    if (*brief != *word || strlen(brief) < 2)
        return false;
    for (; *brief && *word; word++)
        brief += *brief == *word;
    return *brief == '\0';
}

int abx_fail_unknown_choice(const abx_flag *flag, const char *value, abx_error **err)
{
    const char *words[16];
    size_t n = 0;
    ABX_AUTO_FREE char *list = abx_strdup(flag->arg);
    for (char *rest = list, *word; n < ABX_COUNT(words) && (word = strsep(&rest, "|"));)
        words[n++] = word;
    const char *near = abx_nearest(value, words, n);
    for (size_t i = 0; !near && i < n; i++)
        if (is_short_for(value, words[i]) || is_short_for(words[i], value))
            near = words[i];
    abx_fail(err, ABX_ERR_USAGE, "flag '--%s' does not know '%s'", flag->name, value);
    if (near)
        return abx_hint(err, "did you mean '%s'? One of: %s", near, flag->arg);
    return abx_hint(err, "one of: %s", flag->arg);
}

/* The words that may stand here: first words, or second words of a group, with aliases. Fills `words` with
 * owned strings and returns how many. */
static size_t collect_words(const char *group, char **words, size_t max)
{
    size_t n = 0;
    size_t head = group ? strlen(group) + 1 : 0;
    for (int i = 0; i < ABX_VERB_COUNT; i++) {
        const abx_verb *v = abx_verb_row((abx_verb_id)i);
        if (group && !(abx_has_prefix(v->name, group) && v->name[head - 1] == ' '))
            continue;
        const char *name = v->name + head;
        const char *blank = strchr(name, ' ');
        size_t first = strcspn(name, " ");
        if (group && blank && n > 0 && strlen(words[n - 1]) == first &&
            strncmp(words[n - 1], name, first) == 0)
            continue; /* a group inside of this one: once */
        if (n < max)
            words[n++] = blank ? abx_strndup(name, (size_t)(blank - name)) : abx_strdup(name);
        for (const char *a = group || blank ? "" : v->aliases; *a && n < max;) {
            size_t len = strcspn(a, " ");
            words[n++] = abx_strndup(a, len);
            a += len + (a[len] == ' ');
        }
    }
    return n;
}

static int fail_group(const char *group, char *const *words, size_t n, abx_error **err)
{
    ABX_AUTO_BUF list = ABX_BUF(4096);
    for (size_t i = 0; i < n; i++)
        if (abx_buf_addf(&list, "%s%s", i ? ", " : "", words[i]) < 0)
            break;
    abx_fail(err, ABX_ERR_USAGE, "'abx %s' needs one of: %s", group, abx_buf_cstr(&list));
    return abx_hint(err, "'abx help %s' tells more", group);
}

/* The verb that does what this word of other tools does, or NULL. It is only advised: the word stays unknown. */
static const char *verb_of_habit(const char *word)
{
    static const char *const habits[][2] = {
        {"stop", "kill"},         {"terminate", "kill"},
        {"destroy", "kill"},      {"start", "create"},
        {"new", "create"},        {"up", "create"},
        {"down", "kill"},         {"rmi", "gc"},
        {"prune", "gc"},          {"clean", "gc"},
        {"top", "jobs"},          {"enter", "shell"},
        {"bash", "shell"},        {"images", "ls"},
        {"describe", "info"},     {"pull", "create"},
        {"launch", "run"},        {"push", "cp"},
        {"upload", "cp"},         {"download", "cp"},
        {"log", "logs"},          {"cat", "files cat"},
        {"mkdir", "files mkdir"}, {"mv", "files mv"},
        {"stat", "files stat"},   {"status", "info"},
    };
    for (size_t i = 0; i < ABX_COUNT(habits); i++)
        if (strcmp(habits[i][0], word) == 0)
            return habits[i][1];
    return NULL;
}

int abx_fail_unknown_verb(const char *group, const char *word, abx_error **err)
{
    char *words[4 * ABX_VERB_COUNT] = {NULL};
    size_t n = collect_words(group, words, ABX_COUNT(words));
    if (!word) {
        fail_group(group, words, n, err);
    } else {
        const char *sep = group ? " " : "";
        const char *near = group ? NULL : verb_of_habit(word);
        if (!near)
            near = abx_nearest(word, (const char *const *)words, n);
        abx_fail(err, ABX_ERR_USAGE, "unknown verb '%s%s%s'", group ? group : "", sep, word);
        if (near)
            abx_hint(err, "did you mean 'abx %s%s%s'?", group ? group : "", sep, near);
        else
            abx_hint(err, "'abx help%s%s' lists the verbs", sep, group ? group : "");
    }
    for (size_t i = 0; i < n; i++)
        free(words[i]);
    return -1;
}
