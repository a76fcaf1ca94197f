/* Starting processes and waiting for them. */
#ifndef SPAWN_H
#define SPAWN_H

#include "box.h"

/* All that a process is started with. */
typedef struct plan {
    char **argv, **envp; /* ended by NULL; without the marks */
    char *program, *cwd;
    char mark[40];         /* ABX_JOB=… */
    char sandbox_mark[96]; /* ABX_SANDBOX=… */
} plan;

/* From the parameters of process.start and pty.open. 0, or -1: failed with E6006. plan_clear in both cases. */
int plan_make(epp_call *call, const box *b, bool terminal, plan *p);
void plan_clear(plan *p);

/* A child in a session of its own with these descriptors; terminal: fds[0] is its terminal. -1 and errno. */
pid_t spawn(const plan *p, const int fds[3], bool terminal);

/* The members of an end: exitCode or signal, timedOut. status: of waitpid. */
void add_end(epp_text *t, int status, bool timed_out);
int signal_number(const char *word); /* name with or without SIG, or number; -1: none */

/* jobs/pPID.json. 0 or -1 and errno. */
int note_job(const char *folder, pid_t pid, const plan *p, bool background);
void job_path(char out[640], const char *folder, pid_t pid, const char *ending); /* "json" */

#endif
