/* Any bytes as a manifest: it is read, or its problems have places in the text; and every default that it gives is a value
 * of its option. */
#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "host/manifest.h"

static void check_manifest(const abx_manifest *m)
{
    char expected[160];
    ABX_CHECK(m->id && m->name && m->version && m->protocol && abx_is_version(m->version));
    ABX_CHECK(!abx_is_reserved_id(m->id));
    ABX_CHECK(m->kind != ABX_KIND_EXEC || m->command[0]);
    ABX_CHECK(m->kind != ABX_KIND_NODE || m->entry);
    ABX_CHECK(abx_version_compare(m->version, m->version) == 0);
    for (size_t i = 0; i < m->option_count; i++) {
        const abx_option *o = &m->options[i];
        ABX_CHECK(!o->otherwise || abx_option_accepts(o, o->otherwise, expected));
        (void)abx_option_accepts(o, m->name, expected);
        ABX_CHECK(abx_manifest_option(m, o->name) == o);
    }
    yyjson_doc_free(abx_manifest_features(m));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    abx_problems problems = ABX_PROBLEMS;
    abx_manifest *m = abx_manifest_parse("fuzz", (const char *)data, size, &problems);
    ABX_CHECK((m != NULL) == (problems.errors == 0));
    if (m)
        check_manifest(m);
    abx_problems_sort(&problems);
    for (size_t i = 0; i < problems.count; i++) {
        free(abx_problem_line(&problems.items[i]));
        ABX_CHECK(problems.items[i].line > 0 && problems.items[i].text[0]);
    }
    abx_error *err = NULL;
    ABX_CHECK((abx_problems_to_error(&problems, &err) < 0) == (problems.errors > 0));
    abx_error_free(err);
    abx_problems_clear(&problems);
    abx_manifest_free(m);
    return 0;
}
