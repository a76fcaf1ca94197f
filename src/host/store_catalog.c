#include "host/store_catalog.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/text.h"

static int not_there(const char *id, abx_error **err)
{
    ABX_AUTO_BUF all = ABX_BUF(1 << 16);
    for (const abx_catalog_item *i = abx_catalog_items; i->id; i++)
        if (abx_buf_addf(&all, "%s%s", all.len ? ", " : "", i->id) < 0)
            break;
    abx_fail(err, ABX_ERR_PROVIDER_NOT_FOUND, "the catalog of this version has no provider '%s'",
             id);
    if (all.len)
        return abx_hint(err, "it has %s; a folder is given with a '/': 'abx provider install ./%s'",
                        abx_buf_cstr(&all), id);
    return abx_hint(err, "a folder is given with a '/': 'abx provider install ./%s'", id);
}

int abx_catalog_open(const char *id, char digest[65], abx_error **err)
{
    const abx_catalog_item *i = abx_catalog_items;
    while (i->id && strcmp(i->id, id) != 0)
        i++;
    if (!i->id)
        return not_there(id, err);
    ABX_AUTO_FD fd = memfd_create("abx-catalog", MFD_CLOEXEC);
    if (fd < 0 || abx_write_full(fd, i->archive, i->size) < 0 || lseek(fd, 0, SEEK_SET) < 0)
        return abx_fail_errno(err, ABX_ERR_INTERNAL, errno, "cannot unpack provider '%s'", id);
    memcpy(digest, i->tree_sha256, 65);
    return abx_take_fd(&fd);
}
