/* Times whole processes, interleaved: run_times ROUNDS -- PROGRAM [ARG...] [--- PROGRAM [ARG...]]...
 * Each round runs each command once, in this order, with /dev/null as input and output. Prints one line of JSON a
 * command: times in microseconds from before the start until it was waited for, and its peak memory in KiB. A
 * command that fails ends everything. Small on purpose: a large parent would make each start slower. */
#include <fcntl.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MOST 8

extern char **environ;

typedef struct command {
    char **argv;
    uint64_t *us;
    long peak_kb;
} command;

static uint64_t now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static int run(command *c, size_t round, const posix_spawn_file_actions_t *files)
{
    pid_t pid;
    int status;
    struct rusage usage;
    uint64_t from = now_us();
    if (posix_spawnp(&pid, c->argv[0], files, NULL, c->argv, environ) != 0 ||
        wait4(pid, &status, 0, &usage) < 0) {
        perror(c->argv[0]);
        return -1;
    }
    c->us[round] = now_us() - from;
    if (usage.ru_maxrss > c->peak_kb)
        c->peak_kb = usage.ru_maxrss;
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        fprintf(stderr, "'%s' failed (status %x)\n", c->argv[0], (unsigned)status);
        return -1;
    }
    return 0;
}

static int by_size(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static size_t parse(int argc, char **argv, command *commands, size_t rounds)
{
    size_t n = 0;
    for (int i = 2; i < argc && n < MOST; i++) {
        commands[n] = (command){argv + i + 1, calloc(rounds, sizeof(uint64_t)), 0};
        n++;
        while (i + 1 < argc && strcmp(argv[i + 1], "---") != 0)
            i++;
        if (i + 1 < argc)
            argv[i + 1] = NULL;
    }
    return n;
}

int main(int argc, char **argv)
{
    command commands[MOST];
    size_t rounds = argc > 3 ? (size_t)strtoul(argv[1], NULL, 10) : 0;
    if (rounds == 0) {
        fprintf(stderr, "usage: run_times ROUNDS -- PROGRAM [ARG...] [--- PROGRAM [ARG...]]...\n");
        return 2;
    }
    size_t n = parse(argc, argv, commands, rounds);
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, 1, "/dev/null", O_WRONLY, 0);
    for (size_t r = 0; r < rounds; r++)
        for (size_t i = 0; i < n; i++)
            if (run(&commands[i], r, &files) < 0)
                return 1;
    for (size_t i = 0; i < n; i++) {
        command *c = &commands[i];
        qsort(c->us, rounds, sizeof *c->us, by_size);
        printf("{\"median_us\":%" PRIu64 ",\"p10_us\":%" PRIu64 ",\"p90_us\":%" PRIu64
               ",\"min_us\":%" PRIu64 ",\"peak_kb\":%ld}\n",
               c->us[rounds / 2], c->us[rounds / 10], c->us[rounds * 9 / 10], c->us[0], c->peak_kb);
        free(c->us);
    }
    posix_spawn_file_actions_destroy(&files);
    return 0;
}
