/* Two listings and a state → actions, row by row.
 *
 * A side is written as words "PATH=CONTENT": a path with a slash at its end is a folder (CONTENT is its mode then), a
 * content that begins with '>' is a link; "!" before a folder: it holds what is ignored; "~" before a path of the state: it
 * was on its way to the sandbox, without a content nothing was there before. Actions are written as "+1 path" (copied to
 * side 1), "-0 path" (removed from side 0), "? path" (a conflict). */
#include "kit.h"

#include "doors/cli/sync_plan.h"

typedef struct row {
    const char *what, *left, *right, *state, *want;
} row;

static const row one_way[] = {
    {"nothing", "", "", NULL, ""},
    {"new", "a=1 d/ d/b=2", "", NULL, "+1 a, +1 d, +1 d/b"},
    {"the same", "a=1 d/ l=>x", "a=1 d/ l=>x", NULL, ""},
    {"changed", "a=2", "a=1", NULL, "+1 a"},
    {"mode of a folder", "d/=1", "d/=2", NULL, "+1 d"},
    {"another target", "l=>x", "l=>y", NULL, "+1 l"},
    {"more there stays", "", "a=1 d/ d/b=1", NULL, ""},
    {"a folder takes the place of a file", "a/ a/b=1", "a=1", NULL, "-1 a, +1 a, +1 a/b"},
    {"a file meets an empty folder", "a=1", "a/", NULL, "-1 a, +1 a"},
    {"a file meets a full folder", "a=1", "a/ a/b=1", NULL, "? a"},
    {"a link takes the place of a file", "a=>x", "a=1", NULL, "+1 a"},
    {"order of paths", "a=1 a-b=1 a/=", "", NULL, "+1 a, +1 a, +1 a-b"},
};

static const row deleting[] = {
    {"more there goes", "", "a=1 d/ d/b=1 d/c/ e=1", NULL, "-1 a, -1 d, -1 e"},
    {"part of a folder goes", "d/ d/b=1", "d/ d/b=1 d/c=1", NULL, "-1 d/c"},
    {"a folder with something ignored stays", "", "!d/ d/b=1 !d/e/ d/f/", NULL, "-1 d/b, -1 d/f"},
    {"a file meets a full folder", "a=1", "a/ a/b=1", NULL, "-1 a, +1 a"},
    {"a file meets a folder with something ignored", "a=1", "!a/ a/b=1", NULL, "? a"},
};

static const row two_way[] = {
    {"both empty", "", "", "", ""},
    {"first time, the same", "a=1", "a=1", "", ""},
    {"first time, they differ", "a=1", "a=2", "", "? a"},
    {"first time, one each", "a=1", "b=2", "", "+1 a, +0 b"},
    {"changed here", "a=2", "a=1", "a=1", "+1 a"},
    {"changed there", "a=1", "a=2", "a=1", "+0 a"},
    {"changed on both sides", "a=2", "a=3", "a=1", "? a"},
    {"changed on both sides to the same", "a=2", "a=2", "a=1", ""},
    {"removed here", "", "a=1", "a=1", "-1 a"},
    {"removed there", "a=1", "", "a=1", "-0 a"},
    {"removed on both sides", "", "", "a=1", ""},
    {"removed here, changed there", "", "a=2", "a=1", "? a"},
    {"removed there, changed here", "a=2", "", "a=1", "? a"},
    {"a folder removed here", "", "d/ d/a=1 d/e/ d/e/b=1", "d/ d/a=1 d/e/ d/e/b=1", "-1 d"},
    {"a folder removed here, changed there", "", "d/ d/a=1 d/b=2", "d/ d/a=1 d/b=1",
     "+0 d, -1 d/a, ? d/b"},
    {"a folder removed there, something new here", "d/ d/a=1 d/n=1", "", "d/ d/a=1",
     "+1 d, -0 d/a, +1 d/n"},
    {"a folder with something ignored stays", "!d/ d/a=1", "", "d/ d/a=1", "-0 d/a"},
    {"renamed here", "b=1", "a=1", "a=1", "-1 a, +1 b"},
    {"a file became a folder here", "a/ a/b=1", "a=1", "a=1", "-1 a, +1 a, +1 a/b"},
    {"a folder became a file here", "a=1", "a/ a/b=1", "a/ a/b=1", "-1 a, +1 a"},
    {"a folder became a file here, changed there", "a=1", "a/ a/b=2", "a/ a/b=1", "? a"},
    {"a folder became a file here, more there", "a=1", "a/ a/b=1 a/c=1", "a/ a/b=1", "? a"},
    {"modes of a folder on both sides", "d/=1", "d/=2", "d/=3", ""},
    {"half a file there", "a=2", "a=half", "~a=1", "+1 a"},
    {"half a new file there", "a=2", "a=half", "~a", "+1 a"},
    {"a file that was on its way is missing there", "a=2", "", "~a=1", "+1 a"},
    {"a file that was on its way arrived", "a=2", "a=2", "~a=1", ""},
};

static void add_word(abx_sync_list *l, char *word)
{
    bool keep = *word == '!', in_flight = *word == '~';
    word += keep || in_flight;
    char *content = strchr(word, '=');
    if (content)
        *content++ = 0;
    size_t n = strlen(word);
    bool folder = word[n - 1] == '/';
    if (folder)
        word[n - 1] = 0;
    abx_sync_entry *e = abx_sync_list_add(l, word);
    e->keep = keep;
    e->in_flight = in_flight;
    e->type = folder                         ? ABX_SYNC_DIR
              : in_flight && !content        ? ABX_SYNC_NONE
              : content && content[0] == '>' ? ABX_SYNC_LINK
                                             : ABX_SYNC_FILE;
    if (folder)
        e->mode = content && content[0] ? (mode_t)(content[0] - '0') : 7;
    else if (e->type == ABX_SYNC_LINK)
        e->target = abx_strdup(content);
    else if (content)
        e->seconds = content[0];
}

static void read_side(abx_sync_list *l, const char *text)
{
    ABX_AUTO_FREE char *copy = abx_strdup(text ? text : "");
    char *save = NULL;
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
        add_word(l, w);
    abx_sync_list_sort(l);
}

static void check(const row *r, bool both, bool deletes)
{
    ABX_AUTO_SYNC_LIST left = {0}, right = {0}, state = {0};
    read_side(&left, r->left);
    read_side(&right, r->right);
    read_side(&state, r->state);
    abx_sync_input in = {{&left, &right}, &state, both, deletes};
    abx_sync_plan plan;
    abx_sync_plan_make(&in, &plan);
    ABX_AUTO_BUF got = ABX_BUF(4096);
    for (size_t i = 0; i < plan.count; i++) {
        const abx_sync_action *a = &plan.actions[i];
        const char *comma = i > 0 ? ", " : "";
        int rc = a->kind == ABX_SYNC_CONFLICT
                     ? abx_buf_addf(&got, "%s? %s", comma, a->entry->path)
                     : abx_buf_addf(&got, "%s%c%d %s", comma, a->kind == ABX_SYNC_COPY ? '+' : '-',
                                    a->to, a->entry->path);
        assert_int_equal(rc, 0);
        assert_true((a->reason != NULL) == (a->kind == ABX_SYNC_CONFLICT));
    }
    if (strcmp(abx_buf_cstr(&got), r->want) != 0)
        fail_msg("%s: got '%s', not '%s'", r->what, abx_buf_cstr(&got), r->want);
    abx_sync_plan_clear(&plan);
}

static void one_way_rows(void **state)
{
    for (size_t i = 0; i < ABX_COUNT(one_way); i++)
        check(&one_way[i], false, false);
}

static void deleting_rows(void **state)
{
    for (size_t i = 0; i < ABX_COUNT(deleting); i++)
        check(&deleting[i], false, true);
}

static void two_way_rows(void **state)
{
    for (size_t i = 0; i < ABX_COUNT(two_way); i++)
        check(&two_way[i], true, false);
}

/* Everything that happens on one side happens on the other as well. */
static void two_way_is_symmetric(void **state)
{
    ABX_AUTO_SYNC_LIST now = {0}, then = {0}, none = {0};
    read_side(&now, "a=2 d/ d/n=1 k=1");
    read_side(&then, "a=1 d/ d/g=1 k=1");
    for (int side = 0; side < 2; side++) {
        abx_sync_input in = {{side ? &then : &now, side ? &now : &then}, &then, true, false};
        abx_sync_plan plan;
        abx_sync_plan_make(&in, &plan);
        assert_int_equal(plan.count, 3);
        for (size_t i = 0; i < plan.count; i++)
            assert_int_equal(plan.actions[i].to, !side);
        abx_sync_plan_clear(&plan);
    }
    (void)none;
}

static void times_without_a_part_of_a_second(void **state)
{
    abx_sync_entry a = {.type = ABX_SYNC_FILE, .size = 1, .seconds = 5, .ns = 123, .mode = 0644};
    abx_sync_entry b = a;
    b.ns = 0;
    assert_true(abx_sync_same(&a, &b));
    b.ns = 124;
    assert_false(abx_sync_same(&a, &b));
    a.has_digest = b.has_digest = true;
    b.seconds = 9;
    assert_true(abx_sync_same(&a, &b));
    b.digest[3] = 1;
    assert_false(abx_sync_same(&a, &b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_way_rows),
        cmocka_unit_test(deleting_rows),
        cmocka_unit_test(two_way_rows),
        cmocka_unit_test(two_way_is_symmetric),
        cmocka_unit_test(times_without_a_part_of_a_second),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
