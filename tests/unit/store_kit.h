/* A plugin folder and a home for the tests of the store. */
#ifndef TESTS_STORE_KIT_H
#define TESTS_STORE_KIT_H

#include "kit.h"

#include "host/store.h"

typedef struct shop {
    char *top, *home, *source; /* TOP/home, TOP/source */
} shop;

static inline void shop_file(const char *folder, const char *name, const char *text, mode_t mode)
{
    ABX_AUTO_FREE char *path = abx_path_join(folder, name);
    ABX_AUTO_FREE char *dir = abx_path_dir(path);
    assert_int_equal(abx_make_dirs(dir, 0755, NULL), 0);
    kit_write(path, text);
    assert_int_equal(chmod(path, mode), 0);
}

static inline void shop_manifest(const shop *s, const char *version)
{
    ABX_AUTO_FREE char *text =
        abx_format("schema = 1\nid = \"demo\"\nname = \"Demo\"\nversion = \"%s\"\n[runtime]\n"
                   "kind = \"exec\"\nprotocol = \"epp/1\"\ncommand = [\"./plugin\"]\n"
                   "features = [\"process\"]\n[connection]\ninherit = [\"apiKey\", \"domain\"]\n",
                   version);
    shop_file(s->source, ABX_MANIFEST_NAME, text, 0644);
}

static inline shop shop_open(void)
{
    shop s = {.top = kit_folder()};
    s.home = abx_path_join(s.top, "home");
    s.source = abx_path_join(s.top, "source");
    assert_int_equal(mkdir(s.home, 0700), 0);
    assert_int_equal(mkdir(s.source, 0755), 0);
    shop_manifest(&s, "1.0.0");
    shop_file(s.source, "plugin", "#!/bin/sh\nexit 0\n", 0755);
    shop_file(s.source, "lib/part", "a part\n", 0644);
    return s;
}

static inline void shop_close(shop *s)
{
    free(s->home);
    free(s->source);
    kit_drop(s->top);
}

/* Install what lies in `source`; the step that it was. */
static inline abx_store_step shop_install(const shop *s, const char *source)
{
    abx_error *err = NULL;
    abx_store_change *c = abx_store_prepare(s->home, source, NULL, &err);
    if (!c || abx_store_commit(c, &err) < 0)
        fail_msg("%s", abx_error_text(err));
    abx_store_step step = c->step;
    abx_store_change_free(c);
    return step;
}

#endif
