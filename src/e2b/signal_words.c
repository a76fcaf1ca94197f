#include "e2b/signal_words.h"

#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/text.h"

static const char *const WORDS[] = {[1] = "hangup",
                                    "interrupt",
                                    "quit",
                                    "illegal instruction",
                                    "trace/breakpoint trap",
                                    "aborted",
                                    "bus error",
                                    "floating point exception",
                                    "killed",
                                    "user defined signal 1",
                                    "segmentation fault",
                                    "user defined signal 2",
                                    "broken pipe",
                                    "alarm clock",
                                    "terminated",
                                    "stack fault",
                                    "child exited",
                                    "continued",
                                    "stopped (signal)",
                                    "stopped",
                                    "stopped (tty input)",
                                    "stopped (tty output)",
                                    "urgent I/O condition",
                                    "CPU time limit exceeded",
                                    "file size limit exceeded",
                                    "virtual timer expired",
                                    "profiling timer expired",
                                    "window changed",
                                    "I/O possible",
                                    "power failure",
                                    "bad system call"};

const char *abx_e2b_signal_words(int number)
{
    return number > 0 && (size_t)number < ABX_COUNT(WORDS) ? WORDS[number] : NULL;
}

int abx_e2b_signal_number(const char *name)
{
    uint64_t n = 0;
    if (abx_parse_uint(name, 64, &n) == 0)
        return (int)n;
    if (strncasecmp(name, "SIG", 3) == 0)
        name += 3;
    for (int i = 1; i < 32; i++) {
        const char *known = sigabbrev_np(i);
        if (known && strcasecmp(known, name) == 0)
            return i;
    }
    return 0;
}
