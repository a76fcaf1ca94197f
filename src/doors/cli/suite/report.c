#include "doors/cli/suite/report.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/cli/print.h"
#include "doors/cli/table.h"

const char *abx_outcome_name(abx_outcome outcome)
{
    static const char *const names[] = {"passed", "failed", "notApplicable", "stopped"};
    return names[outcome];
}

static const char *provider_id(const abx_suite_report *r)
{
    return abx_json_str(yyjson_doc_get_root(r->provider), "id", "");
}

static yyjson_val *features_of(const abx_suite_report *r)
{
    return yyjson_obj_get(yyjson_doc_get_root(r->provider), "features");
}

/* --- JSON ------------------------------------------------------------------------------------------------ */

static void add_cases(yyjson_mut_doc *d, yyjson_mut_val *root, const abx_suite_report *r)
{
    yyjson_mut_val *list = abx_mut_arr(d, root, "cases");
    for (size_t i = 0; i < r->count; i++) {
        const abx_suite_result *result = &r->results[i];
        yyjson_mut_val *o = yyjson_mut_arr_add_obj(d, list);
        abx_mut_str(d, o, "name", result->item->name);
        abx_mut_str(d, o, "group", result->item->group);
        abx_mut_str(d, o, "title", result->item->title);
        abx_mut_str(d, o, "outcome", abx_outcome_name(result->outcome));
        abx_mut_str(d, o, "why", result->why);
        abx_mut_str(d, o, "rule", result->rule);
        abx_mut_str(d, o, "exchange", result->exchange);
        abx_mut_int(d, o, "tookMs", (int64_t)result->took_ms);
    }
}

static yyjson_doc *as_json(const abx_suite_report *r)
{
    yyjson_mut_val *root = NULL;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    abx_mut_str(d, root, "provider", provider_id(r));
    yyjson_mut_val *summary = abx_mut_obj(d, root, "summary");
    abx_mut_int(d, summary, "passed", (int64_t)r->passed);
    abx_mut_int(d, summary, "failed", (int64_t)r->failed);
    abx_mut_int(d, summary, "notApplicable", (int64_t)r->not_applicable);
    abx_mut_int(d, root, "score", abx_suite_score(r));
    abx_mut_int(d, root, "tookMs", (int64_t)r->took_ms);
    abx_mut_val(d, root, "features", features_of(r));
    add_cases(d, root, r);
    return abx_json_freeze(d);
}

/* --- for people ----------------------------------------------------------------------------------------- */

static void write_table(abx_cli *cli, abx_table *t, abx_buf *out)
{
    abx_table_write(t, abx_print_width(cli), out);
    abx_table_clear(t);
    ABX_CHECK(abx_buf_add_byte(out, '\n') == 0);
}

static void write_groups(abx_cli *cli, const abx_suite *suite, const abx_suite_report *r,
                         abx_buf *out)
{
    static const char *const headers[] = {"GROUP", "PASSED", "FAILED", "NOT APPLICABLE", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    size_t i, n;
    yyjson_val *group;
    yyjson_arr_foreach(suite->groups, i, n, group)
    {
        const char *name = abx_json_str(group, "name", "");
        size_t counts[ABX_STOPPED + 1] = {0}, all = 0;
        for (size_t k = 0; k < r->count; k++) {
            if (strcmp(r->results[k].item->group, name) != 0)
                continue;
            counts[r->results[k].outcome]++;
            all++;
        }
        char text[3][24];
        for (size_t k = 0; k < 3; k++)
            snprintf(text[k], sizeof text[k], "%zu", counts[k]);
        const char *cells[] = {name, text[ABX_PASSED], text[ABX_FAILED], text[ABX_NOT_APPLICABLE]};
        if (all > 0)
            abx_table_add(&t, cells);
    }
    write_table(cli, &t, out);
}

/* The cases, each with its outcome; of the wide format. */
static void write_cases(abx_cli *cli, const abx_suite_report *r, abx_buf *out)
{
    static const char *const headers[] = {"CASE", "OUTCOME", "TOOK", "TITLE", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    for (size_t i = 0; i < r->count; i++) {
        const abx_suite_result *result = &r->results[i];
        char took[32];
        abx_format_duration(result->took_ms, took);
        const char *cells[] = {result->item->name, abx_outcome_name(result->outcome), took,
                               result->item->title};
        abx_table_add(&t, cells);
    }
    write_table(cli, &t, out);
}

/* What a failure shows below its reason: what the case proves, where that is written, what went over. */
static void write_exchange(const abx_suite_result *result, abx_buf *out)
{
    ABX_CHECK(abx_buf_addf(out, "      proves: %s\n", result->item->title) == 0);
    if (result->rule)
        ABX_CHECK(abx_buf_addf(out, "      see: %s\n", result->rule) == 0);
    for (const char *line = result->exchange; line && line[0];) {
        size_t n = strcspn(line, "\n");
        ABX_CHECK(abx_buf_addf(out, "      %.*s\n", (int)n, line) == 0);
        line += n + (line[n] != 0);
    }
}

static void write_why(const abx_suite_report *r, abx_outcome outcome, const char *title,
                      abx_buf *out)
{
    bool any = false;
    for (size_t i = 0; i < r->count; i++) {
        if (r->results[i].outcome != outcome)
            continue;
        ABX_AUTO_FREE char *why = abx_printable(r->results[i].why);
        if (!any)
            ABX_CHECK(abx_buf_addf(out, "%s:\n", title) == 0);
        ABX_CHECK(abx_buf_addf(out, "  %s: %s\n", r->results[i].item->name, why) == 0);
        if (outcome == ABX_FAILED)
            write_exchange(&r->results[i], out);
        any = true;
    }
    if (any)
        ABX_CHECK(abx_buf_add_byte(out, '\n') == 0);
}

static void write_features(abx_cli *cli, const abx_suite_report *r, abx_buf *out)
{
    static const char *const headers[] = {"FEATURE", "STATE", "MEANING", NULL};
    abx_table t;
    abx_table_init(&t, headers);
    for (int f = 0; f < ABX_FEATURE_COUNT; f++) {
        const char *name = abx_feature_name((abx_feature)f);
        const char *otherwise = f == ABX_FEATURE_SANDBOX ? "native" : "unsupported";
        const char *cells[] = {name, abx_json_str(features_of(r), name, otherwise),
                               abx_feature_text((abx_feature)f)};
        abx_table_add(&t, cells);
    }
    write_table(cli, &t, out);
}

static int print_text(abx_cli *cli, const abx_suite *suite, const abx_suite_report *r,
                      abx_error **err)
{
    ABX_AUTO_BUF out = ABX_BUF(SIZE_MAX / 2);
    if (!cli->quiet && cli->format == ABX_OUT_WIDE)
        write_cases(cli, r, &out);
    if (!cli->quiet) {
        write_groups(cli, suite, r, &out);
        write_features(cli, r, &out);
        write_why(r, ABX_NOT_APPLICABLE, "not applicable", &out);
    }
    write_why(r, ABX_FAILED, "failed", &out);
    char took[32];
    abx_format_duration(r->took_ms, took);
    ABX_CHECK(abx_buf_addf(&out, "%s: %zu passed, %zu failed, %zu not applicable; score %d%%; %s\n",
                           provider_id(r), r->passed, r->failed, r->not_applicable,
                           abx_suite_score(r), took) == 0);
    return abx_print_buf(cli, &out, err);
}

int abx_suite_print(abx_cli *cli, const abx_suite *suite, const abx_suite_report *report,
                    abx_error **err)
{
    ABX_AUTO_JSON doc = as_json(report);
    yyjson_val *root = yyjson_doc_get_root(doc);
    if (cli->format == ABX_OUT_JSON)
        return abx_print_json(cli, root, err);
    if (cli->format == ABX_OUT_JSONL || cli->format == ABX_OUT_NAME)
        return abx_print_list(cli, "cases", abx_json_get(root, "cases"), "name", err) < 0 ? -1 : 0;
    return print_text(cli, suite, report, err);
}

/* --- JUnit ----------------------------------------------------------------------------------------------- */

static void add_xml(abx_buf *out, const char *text)
{
    ABX_AUTO_FREE char *safe = abx_printable(text);
    for (const char *p = safe; *p; p++) {
        const char *name = *p == '&'    ? "&amp;"
                           : *p == '<'  ? "&lt;"
                           : *p == '>'  ? "&gt;"
                           : *p == '"'  ? "&quot;"
                           : *p == '\'' ? "&apos;"
                                        : NULL;
        int rc = name ? abx_buf_add_str(out, name) : abx_buf_add_byte(out, (uint8_t)*p);
        ABX_CHECK(rc == 0);
    }
}

static void add_attribute(abx_buf *out, const char *name, const char *value)
{
    ABX_CHECK(abx_buf_addf(out, " %s=\"", name) == 0);
    add_xml(out, value);
    ABX_CHECK(abx_buf_add_byte(out, '"') == 0);
}

static void add_number(abx_buf *out, const char *name, size_t number)
{
    ABX_CHECK(abx_buf_addf(out, " %s=\"%zu\"", name, number) == 0);
}

static void add_seconds(abx_buf *out, uint64_t ms)
{
    ABX_CHECK(abx_buf_addf(out, " time=\"%llu.%03llu\"", (unsigned long long)(ms / 1000),
                           (unsigned long long)(ms % 1000)) == 0);
}

static void add_testcase(abx_buf *out, const abx_suite_result *result)
{
    ABX_CHECK(abx_buf_add_str(out, "  <testcase") == 0);
    add_attribute(out, "classname", result->item->group);
    add_attribute(out, "name", result->item->name);
    add_seconds(out, result->took_ms);
    if (result->outcome == ABX_PASSED) {
        ABX_CHECK(abx_buf_add_str(out, "/>\n") == 0);
        return;
    }
    bool failed = result->outcome == ABX_FAILED;
    ABX_CHECK(abx_buf_addf(out, ">\n    <%s", failed ? "failure" : "skipped") == 0);
    add_attribute(out, "message", result->why ? result->why : "");
    if (!result->exchange) {
        ABX_CHECK(abx_buf_add_str(out, "/>\n  </testcase>\n") == 0);
        return;
    }
    ABX_AUTO_FREE char *text =
        abx_format("%s\n%s", result->rule ? result->rule : "", result->exchange);
    ABX_CHECK(abx_buf_add_byte(out, '>') == 0);
    add_xml(out, text);
    ABX_CHECK(abx_buf_addf(out, "</%s>\n  </testcase>\n", failed ? "failure" : "skipped") == 0);
}

void abx_suite_junit(const abx_suite_report *r, abx_buf *out)
{
    ABX_CHECK(abx_buf_add_str(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
                                   "<testsuites>\n<testsuite") == 0);
    ABX_AUTO_FREE char *name = abx_format("abx provider test %s", provider_id(r));
    add_attribute(out, "name", name);
    add_number(out, "tests", r->count);
    add_number(out, "failures", r->failed);
    add_number(out, "errors", 0);
    add_number(out, "skipped", r->count - r->passed - r->failed);
    add_seconds(out, r->took_ms);
    ABX_CHECK(abx_buf_add_str(out, ">\n") == 0);
    for (size_t i = 0; i < r->count; i++)
        add_testcase(out, &r->results[i]);
    ABX_CHECK(abx_buf_add_str(out, "</testsuite>\n</testsuites>\n") == 0);
}
