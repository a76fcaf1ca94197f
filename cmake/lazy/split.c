/* After linking, two things:
 *
 * Takes the relative relocations of section .abx.lazy out of the loader's list (DT_RELR) of a program
 * and writes them, in the same packed form, into its section .abx.relr. src/base/openssl_tables.c applies them.
 *
 * Makes section .debug_frame, in which tables.ld gathers what the compiler calls .eh_frame, what its name says: there an
 * entry of the first kind (CIE) has the number ~0 instead of 0, and one of the second names its CIE by the place in the
 * section instead of the distance.
 *
 * Usage: abx_lazy_split PROGRAM    A program without these sections, or without DT_RELR, stays as it is.
 * The packed form: https://maskray.me/blog/2021-10-31-relative-relocations-and-relr, gABI DT_RELR. */
#include <elf.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef DT_RELRSZ
#define DT_RELRSZ 35
#endif
#define WORD sizeof(uint64_t)

typedef struct image {
    unsigned char *bytes;
    size_t size;
} image;

typedef struct list {
    uint64_t *items;
    size_t count;
} list;

static _Noreturn void fail(const char *what)
{
    fprintf(stderr, "abx_lazy_split: %s\n", what);
    exit(1);
}

static void *at(const image *im, uint64_t offset, uint64_t size)
{
    if (offset > im->size || size > im->size - offset)
        fail("the program is cut off");
    return im->bytes + offset;
}

static Elf64_Shdr *section(const image *im, const char *name)
{
    const Elf64_Ehdr *head = at(im, 0, sizeof(*head));
    Elf64_Shdr *all = at(im, head->e_shoff, (uint64_t)head->e_shnum * sizeof(*all));
    const char *names = at(im, all[head->e_shstrndx].sh_offset, all[head->e_shstrndx].sh_size);
    for (unsigned i = 0; i < head->e_shnum; i++)
        if (strcmp(names + all[i].sh_name, name) == 0)
            return &all[i];
    return NULL;
}

static void add(list *l, uint64_t item)
{
    l->items = realloc(l->items, (l->count + 1) * sizeof(*l->items));
    if (!l->items)
        fail("out of memory");
    l->items[l->count++] = item;
}

static list unpack(const uint64_t *words, size_t count)
{
    list out = {0};
    uint64_t next = 0;
    for (size_t i = 0; i < count; i++) {
        if (!(words[i] & 1)) {
            add(&out, words[i]);
            next = words[i] + WORD;
            continue;
        }
        for (unsigned bit = 0; bit < 63; bit++)
            if (words[i] >> (bit + 1) & 1)
                add(&out, next + bit * WORD);
        next += 63 * WORD;
    }
    return out;
}

static list pack(const list *addresses)
{
    list out = {0};
    for (size_t i = 0; i < addresses->count;) {
        uint64_t next = addresses->items[i++];
        add(&out, next);
        next += WORD;
        for (;;) {
            uint64_t map = 0;
            while (i < addresses->count && addresses->items[i] - next < 63 * WORD)
                map |= (uint64_t)1 << ((addresses->items[i++] - next) / WORD + 1);
            if (!map)
                break;
            add(&out, map | 1);
            next += 63 * WORD;
        }
    }
    return out;
}

static uint64_t *size_in_dynamic(const image *im, const Elf64_Shdr *dynamic)
{
    Elf64_Dyn *d = at(im, dynamic->sh_offset, dynamic->sh_size);
    for (size_t i = 0; i < dynamic->sh_size / sizeof(*d); i++)
        if (d[i].d_tag == DT_RELRSZ)
            return &d[i].d_un.d_val;
    return NULL;
}

static void split(const image *im)
{
    const Elf64_Shdr *lazy = section(im, ".abx.lazy"), *table = section(im, ".abx.relr");
    Elf64_Shdr *relr = section(im, ".relr.dyn");
    const Elf64_Shdr *dynamic = section(im, ".dynamic");
    uint64_t *relr_size = dynamic ? size_in_dynamic(im, dynamic) : NULL;
    if (!lazy || !table || !relr || !relr_size)
        return;
    uint64_t *words = at(im, relr->sh_offset, relr->sh_size);
    uint64_t *room = at(im, table->sh_offset, table->sh_size);
    list all = unpack(words, relr->sh_size / WORD), now = {0}, later = {0};
    for (size_t i = 0; i < all.count; i++)
        add(all.items[i] - lazy->sh_addr < lazy->sh_size ? &later : &now, all.items[i]);
    list first = pack(&now), second = pack(&later);
    if (room[0] != 0 || (second.count + 1) * WORD > table->sh_size || first.count * WORD > relr->sh_size)
        fail("the tables do not fit");
    memset(words, 0, relr->sh_size);
    memcpy(words, first.items, first.count * WORD);
    relr->sh_size = *relr_size = first.count * WORD;
    room[0] = second.count;
    memcpy(room + 1, second.items, second.count * WORD);
    free(all.items);
    free(now.items);
    free(later.items);
    free(first.items);
    free(second.items);
}

static void convert_frames(const image *im)
{
    const Elf64_Shdr *frames = section(im, ".debug_frame");
    if (!frames)
        return;
    unsigned char *bytes = at(im, frames->sh_offset, frames->sh_size);
    uint32_t size = 0, id = 0;
    for (uint64_t i = 0; i + sizeof(size) + sizeof(id) <= frames->sh_size; i += sizeof(size) + size) {
        memcpy(&size, bytes + i, sizeof(size));
        if (size == 0) // the end of one input file
            continue;
        memcpy(&id, bytes + i + sizeof(size), sizeof(id));
        if (size == UINT32_MAX || size > frames->sh_size - i - sizeof(size) || id > i + sizeof(size))
            fail("the frames are not what is expected");
        id = id == 0 ? UINT32_MAX : (uint32_t)(i + sizeof(size) - id);
        memcpy(bytes + i + sizeof(size), &id, sizeof(id));
    }
}

int main(int argc, char **argv)
{
    struct stat st;
    int fd = argc == 2 ? open(argv[1], O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0 || fstat(fd, &st) < 0)
        fail("usage: abx_lazy_split PROGRAM");
    image im = {.size = (size_t)st.st_size};
    im.bytes = mmap(NULL, im.size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (im.bytes == MAP_FAILED)
        fail("cannot map the program");
    const Elf64_Ehdr *head = at(&im, 0, sizeof(*head));
    if (memcmp(head->e_ident, ELFMAG, SELFMAG) == 0 && head->e_ident[EI_CLASS] == ELFCLASS64) {
        split(&im);
        convert_frames(&im);
    }
    munmap(im.bytes, im.size);
    close(fd);
    return 0;
}
