/* The highest layer of every template: what a sandbox needs on top of whatever the image brings. Mount points and files for device
 * nodes as plain folders and files (an image's links in their places are hidden), /home/user and /work, and in /etc what must be
 * ours: hosts, hostname, machine-id, mtab, resolv.conf, and the accounts `root` and `user` where the image has none. All else of
 * /etc is the image's own. */
#ifndef ABX_LOCAL_TEMPLATE_BASE_LAYER_H
#define ABX_LOCAL_TEMPLATE_BASE_LAYER_H

#include "base/error.h"
#include "local/template/layer_find.h"
#include "local/template/oci.h"

/* The digest of the one for a template with this digest. */
void abx_base_digest(const char *template_digest, abx_sha256 out);
/* Build it in the empty folder `dirfd` over the image's layers. own: give files to their owners inside. workdir: made when the
 * image does not have it, or NULL. */
int abx_base_build(int dirfd, const abx_layer_set *image, bool own, const char *workdir,
                   abx_error **err);

/* The text of a passwd file with `root` and `user` (1000) in it; text: the image's own. shell: of the two. */
int abx_passwd_with_user(const char *text, const char *shell, abx_buf *out);
int abx_group_with_user(const char *text, abx_buf *out);
/* The user of an image's configuration ("name", "uid", "name:group", …) by the text of its passwd: *name (owned) is what a
 * command's user is called, *uid its number, UINT32_MAX when nobody has the name. */
void abx_image_user(const char *passwd, const char *user, char **name, uint32_t *uid);

#endif
