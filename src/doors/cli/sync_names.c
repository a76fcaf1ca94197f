/* Paths of a list for one program in the sandbox: what would be a call for each. */
#include "base/mem.h"
#include "doors/cli/sync_inner.h"

void abx__sync_names_add(abx_buf *names, const char *path)
{
    ABX_CHECK(abx_buf_addf(names, "./%s", path) == 0 && abx_buf_add_byte(names, 0) == 0);
}

int abx__sync_names_run(abx_sync *s, const abx_buf *names, const char *const *words,
                        abx_stream *stream, abx_error **err)
{
    yyjson_mut_val *root = NULL;
    yyjson_mut_doc *d = abx_cli_params(s->sandbox, &root);
    yyjson_mut_val *cmd = abx_mut_arr(d, root, "cmd");
    yyjson_mut_arr_add_str(d, cmd, "xargs");
    yyjson_mut_arr_add_str(d, cmd, "-0");
    for (; *words; words++)
        yyjson_mut_arr_add_str(d, cmd, *words);
    abx_mut_str(d, root, "cwd", s->remote);
    abx_mut_str(d, root, "user", s->copy.user);
    abx_mut_strn(d, abx_mut_obj(d, root, "input"), "text", abx_buf_cstr(names), names->len);
    return abx_stream_open(stream, s->cli, ABX_OP_PROCESS_START, s->sandbox, d, false, err);
}
