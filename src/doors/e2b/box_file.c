/* What belongs to a sandbox at this door but is not kept by its provider: HOME/e2b/boxes/ID.json, one small file (0600) a sandbox.
 *
 *   provider, hostId     which sandbox it is
 *   template             as its creator named it
 *   secure               false: its data plane asks for no token; publicTraffic false: its other ports ask for one
 *   env                  environment of all its processes
 *   metadata             where the provider keeps none
 *   autoPause, autoResume, timeoutS (the one that it was made with), startedAtMs
 *   internet, network    what its creator said about them
 *   cold, coldAuto       what it runs is to end at its next resume; … at the one after its end by time
 *
 * Tokens are not in it: they are made from the seed and the id. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/text.h"
#include "doors/e2b/control.h"
#include "doors/e2b/life.h"

#define FILE_MAX ((size_t)16 * 1024 * 1024)

static char *folder_of(const e2b_door *door)
{
    return abx_format("%s/e2b/boxes", door->home);
}

static char *path_of(const e2b_box *box)
{
    return abx_format("%s/e2b/boxes/%s.json", box->door->home, box->id);
}

yyjson_mut_doc *e2b_notes_copy(const e2b_box *box, yyjson_mut_val **root)
{
    yyjson_mut_doc *d = yyjson_mut_doc_new(NULL);
    *root = yyjson_val_mut_copy(d, yyjson_doc_get_root(box->notes));
    yyjson_mut_doc_set_root(d, *root);
    return d;
}

bool e2b_box_is_noted(const e2b_box *box)
{
    return abx_json_get(yyjson_doc_get_root(box->notes), "hostId") != NULL;
}

/* Notes that cannot be read may have closed its ports: they are closed then. */
yyjson_doc *e2b_box_unread_notes(const e2b_box *box)
{
    yyjson_mut_val *root;
    ABX_AUTO_MUT d = abx_mut_new(&root);
    ABX_AUTO_FREE char *path = path_of(box);
    if (access(path, F_OK) == 0 || errno != ENOENT)
        abx_mut_bool(d, root, "publicTraffic", false);
    return abx_json_freeze(d);
}

int e2b_box_note(e2b_box *box, yyjson_mut_doc *notes, abx_error **err)
{
    yyjson_mut_val *root = yyjson_mut_doc_get_root(notes);
    yyjson_mut_obj_remove_key(root, "provider");
    yyjson_mut_obj_remove_key(root, "hostId");
    abx_mut_str(notes, root, "provider", box->door->provider);
    abx_mut_str(notes, root, "hostId", box->host_id);
    yyjson_doc *old = box->notes;
    box->notes = abx_json_freeze(notes);
    yyjson_doc_free(old);
    yyjson_mut_doc_free(notes);
    e2b_box_read_notes(box);

    ABX_AUTO_FREE char *folder = folder_of(box->door);
    ABX_AUTO_FREE char *path = path_of(box);
    ABX_AUTO_BUF text = ABX_BUF(FILE_MAX);
    abx_error *why = NULL;
    int rc = abx_json_write(yyjson_doc_get_root(box->notes), &text);
    if (rc < 0)
        abx_fail(&why, ABX_ERR_TOO_LARGE, "the notes of sandbox '%s' are too long", box->id);
    else
        rc = abx_make_dirs(folder, 0700, &why) < 0
                 ? -1
                 : abx_write_atomic(path, text.data, text.len, 0600, false, &why);
    if (rc < 0)
        abx_logf(box->door->log, ABX_LOG_WARN, "e2b: %s; after a restart the sandbox lacks it",
                 abx_error_text(why));
    if (rc < 0 && box->traffic_token) /* the server's failure, whatever it was */
        abx_fail(err, ABX_ERR_HOME, "the notes of the sandbox cannot be written: %s",
                 abx_error_text(why));
    rc = rc < 0 && box->traffic_token ? -1 : 0;
    abx_error_free(why);
    return rc;
}

void e2b_box_drop_notes(const e2b_box *box)
{
    ABX_AUTO_FREE char *path = path_of(box);
    if (unlink(path) < 0 && errno != ENOENT)
        abx_logf(box->door->log, ABX_LOG_WARN, "e2b: cannot remove '%s': %s", path,
                 strerror(errno));
}

static void load_one(e2b_door *door, int folder, const char *name)
{
    ABX_AUTO_BUF text = ABX_BUF(FILE_MAX);
    ABX_AUTO_ERROR why = NULL;
    if (abx_read_file_at(folder, name, FILE_MAX, &text, &why) != 0)
        return;
    ABX_AUTO_JSON doc = abx_json_parse(text.data, text.len, ABX_ERR_HOME, name, &why);
    yyjson_val *root = doc ? yyjson_doc_get_root(doc) : NULL;
    const char *host_id = abx_json_str(root, "hostId", NULL);
    if (!host_id) {
        abx_logf(door->log, ABX_LOG_WARN, "e2b: '%s' tells of no sandbox%s%s", name,
                 why ? ": " : "", why ? abx_error_text(why) : "");
        return;
    }
    if (!abx_str_eq(abx_json_str(root, "provider", NULL), door->provider))
        return; /* of another time: it is there again when the door serves that provider */
    ABX_AUTO_FREE char *id = e2b_id_of(door, host_id);
    if (!e2b_door_box(door, id))
        e2b_box_add(door, host_id, ABX_TAKE(doc));
}

void e2b_boxes_load(e2b_door *door)
{
    ABX_AUTO_FREE char *path = folder_of(door);
    DIR *dir = opendir(path);
    if (!dir)
        return;
    (void)abx_sweep_temporaries(dirfd(dir), E2B_ANY_AGE);
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.' && abx_has_suffix(e->d_name, ".json"))
            load_one(door, dirfd(dir), e->d_name);
    closedir(dir);
}
