/* Plugins of kind exec, written as shell programs by the tests that need them. */
#ifndef TESTS_CAPI_PLUGIN_H
#define TESTS_CAPI_PLUGIN_H

#include <fcntl.h>

#include "rig.h"

#define PLUGIN_HELLO                                                                               \
    "#!/bin/sh\n"                                                                                  \
    "id() { id=${1#*\\\"id\\\":}; echo \"${id%%[,\\}]*}\"; }\n"                                    \
    "read -r line\n"                                                                               \
    "echo '{\"jsonrpc\":\"2.0\",\"id\":'$(id "                                                     \
    "\"$line\")',\"result\":{\"protocol\":\"epp/1\",\"features\":[]}}'\n"

/* Answers sandbox.info with its own pid as name. */
static const char plugin_pid_program[] =
    PLUGIN_HELLO "while read -r line; do\n"
                 "echo '{\"jsonrpc\":\"2.0\",\"id\":'$(id "
                 "\"$line\")',\"result\":{\"id\":\"aaaaaaaaaaaaaaaa\",\"name\":\"pid'$$'\"}}'\n"
                 "done\n";

/* Greets, then reads nothing any more: whoever writes to it is told by SIGPIPE. */
static const char plugin_deaf_program[] = PLUGIN_HELLO "exec <&-\nsleep 1000\n";

static inline void plugin_put(const char *folder, const char *name, const char *text, mode_t mode)
{
    char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, strlen(text)), strlen(text));
    close(fd);
}

/* The last part of folder is the plugin's id. */
static inline void plugin_write(const char *folder, const char *program)
{
    char manifest[512];
    assert_int_equal(mkdir(folder, 0755), 0);
    snprintf(manifest, sizeof(manifest),
             "schema = 1\nid = \"%s\"\nname = \"Test\"\nversion = \"0.1.0\"\n[runtime]\nkind = "
             "\"exec\"\n"
             "protocol = \"epp/1\"\ncommand = [\"./plugin\"]\nfeatures = []\n",
             strrchr(folder, '/') + 1);
    plugin_put(folder, "abx-provider.toml", manifest, 0644);
    plugin_put(folder, "plugin", program, 0755);
}

#endif
