/* All that live, and clearing away the dead. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/id.h"
#include "base/json.h"
#include "base/mem.h"
#include "local/clear.h"
#include "local/create.h"
#include "local/folder.h"
#include "local/trash.h"

#define LIST_CLEAR_MS 3u /* spent on removing what the dead had; the rest is for the next command */

typedef struct listing {
    abx_local *local;
    yyjson_mut_doc *d;
    yyjson_mut_val *sandboxes;
} listing;

static void on_sandbox(void *data, const char *id, int folder, bool alive)
{
    listing *l = (listing *)data;
    ABX_AUTO_STATE s = {0};
    ABX_AUTO_ERROR err = NULL;
    if (!alive) {
        abx_clear_dead(l->local, id, folder);
        return;
    }
    int rc = abx_state_read(folder, &s, &err); /* 1: it is being made */
    if (rc < 0)
        abx_logf(l->local->log, ABX_LOG_WARN, "sandbox '%s': %s", id, abx_error_text(err));
    if (rc == 1)
        abx_clear_unborn(folder);
    if (rc == 0)
        abx_state_add_record(&s, folder);
    if (rc == 0)
        yyjson_mut_arr_append(l->sandboxes, abx_state_object(l->d, &s));
}

yyjson_doc *abx_local_list(abx_local *local, abx_error **err)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    listing l = {local, d, abx_mut_arr(d, root, "sandboxes")};
    if (abx_each_sandbox(local, 0, on_sandbox, &l) < 0) {
        abx_fail_errno(err, ABX_ERR_LOCAL_STATE, errno, "cannot read '%s/sandboxes'", local->base);
        return NULL;
    }
    (void)abx_trash_empty(local, LIST_CLEAR_MS);
    return abx_json_freeze(d);
}
