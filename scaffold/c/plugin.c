/* @NAME@: a provider of abx. A sandbox is a folder on this machine; its processes run here, as you. NO ISOLATION: put calls to your
 * own backend in the place of box.c, process.c, spawn.c, keep.c and files.c. epp.c and json.c may stay as they are. */
#include <stddef.h>
#include <string.h>

#include "keep.h"

/* What this provider has. The manifest lists the same; the host uses what both name. */
static const char features[] =
    "{\"sandbox\":\"native\",\"connect\":\"native\",\"list\":\"native\",\"timeout\":\"native\",\"process\":\"native\","
    "\"process.stdin\":\"native\",\"process.replay\":\"native\",\"filesystem\":\"native\",\"pty\":\"native\","
    "\"process.detach\":\"unsupported\"}";

static const epp_method methods[] = {
    {"sandbox.create", sandbox_create},
    {"sandbox.info", sandbox_info},
    {"sandbox.kill", sandbox_kill},
    {"sandbox.connect", sandbox_connect},
    {"sandbox.list", sandbox_list},
    {"sandbox.set_timeout", sandbox_set_timeout},
    {"process.start", process_start},
    {"process.attach", process_attach},
    {"process.signal", process_signal},
    {"process.list", process_list},
    {"process.stdin", process_stdin},
    {"process.close_stdin", process_close_stdin},
    {"fs.read", fs_read},
    {"fs.write", fs_write},
    {"fs.stat", fs_stat},
    {"fs.list", fs_list},
    {"fs.make_dir", fs_make_dir},
    {"fs.rename", fs_rename},
    {"fs.remove", fs_remove},
    {"pty.open", pty_open},
    {"pty.write", process_stdin},
    {"pty.resize", pty_resize},
    {"pty.close", pty_close},
    {NULL, NULL},
};

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--keep") == 0)
        return keep(argc, argv);
    epp_serve(features, methods);
    end_processes();
    return 0;
}
