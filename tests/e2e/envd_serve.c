/* An envd for one recording: pid 1 of namespaces of its own, over a machine like the one the recordings were made on:
 * the users root and user, empty homes, host name "e2b", terminals numbered from 0. It serves 127.0.0.1.
 *
 *     envd_serve TOKEN USER FOLDER [NAME=VALUE...]      "" for a value that is not set
 *
 * The caller is root, or root of its own user namespace. The first line of the output is the port. Each line of the
 * input is a script of sh, run as root in the same namespaces and in /home/user; its exit code comes back as a line.
 * The end of the input ends everything. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "local/envd/envd.h"

static void need(int rc, const char *what)
{
    if (rc >= 0)
        return;
    (void)fprintf(stderr, "envd_serve: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* Lay a file with this text over the one at path. */
static void cover(const char *path, const char *text)
{
    char name[] = "/tmp/cover-XXXXXX";
    int fd = mkostemp(name, O_CLOEXEC);
    need(fd, name);
    need(write(fd, text, strlen(text)) == (ssize_t)strlen(text) ? 0 : -1, name);
    need(fchmod(fd, 0644), name);
    need(close(fd), name);
    need(mount(name, path, NULL, MS_BIND, NULL), path);
    need(unlink(name), name);
}

static void make_machine(void)
{
    need(unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWUTS), "unshare");
    need(sethostname("e2b", 3), "sethostname");
    need(mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL), "mount");
    need(mount("tmpfs", "/home", "tmpfs", 0, "mode=755"), "/home");
    need(mount("tmpfs", "/root", "tmpfs", 0, "mode=755"), "/root");
    need(mount("tmpfs", "/tmp", "tmpfs", 0, "mode=1777"), "/tmp");
    cover("/etc/passwd",
          "root:x:0:0:root:/root:/bin/bash\nuser:x:1000:1000::/home/user:/bin/bash\n");
    cover("/etc/group", "root:x:0:\ntty:x:5:\nuser:x:1000:\n");
    need(mkdir("/home/user", 0755), "/home/user");
    need(chown("/home/user", 1000, 1000), "/home/user");
}

static int listen_socket(int *port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    need(fd, "socket");
    need(bind(fd, (struct sockaddr *)&address, n), "bind");
    need(getsockname(fd, (struct sockaddr *)&address, &n), "getsockname");
    *port = ntohs(address.sin_port);
    return fd;
}

static void on_ready(void *data)
{
    need((int)write(*(int *)data, "", 1), "write");
}

_Noreturn static void be_envd(int listen_fd, int ready_fd, char **argv)
{
    need(prctl(PR_SET_PDEATHSIG, SIGKILL), "prctl");
    need(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL), "/proc");
    need(mount("devpts", "/dev/pts", "devpts", 0, "newinstance,ptmxmode=0666,mode=620,gid=5"),
         "/dev/pts");
    need(mount("/dev/pts/ptmx", "/dev/ptmx", NULL, MS_BIND, NULL), "/dev/ptmx");
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    need(null, "/dev/null");
    need(dup2(null, 0), "dup2");
    need(dup2(null, 1), "dup2");
    const abx_envd_config config = {
        .listen_fd = listen_fd,
        .first_fd = -1,
        .lock_fd = -1,
        .log_fd = 2,
        .id = "recorded",
        .token = *argv[1] ? argv[1] : NULL,
        .default_user = *argv[2] ? argv[2] : NULL,
        .workdir = *argv[3] ? argv[3] : NULL,
        .env = (const char *const *)argv + 4,
        .timeout_ms = ABX_FOREVER,
        .has_range = true,
        .ready = on_ready,
        .ready_data = &ready_fd,
    };
    abx_envd_main(&config);
}

static void run_scripts(void)
{
    char *line = NULL;
    size_t room = 0;
    while (getline(&line, &room, stdin) > 0) {
        pid_t pid = fork();
        need(pid, "fork");
        if (pid == 0) {
            need(chdir("/home/user"), "/home/user");
            execl("/bin/sh", "sh", "-c", line, (char *)NULL);
            _exit(127);
        }
        int status = 0;
        need(waitpid(pid, &status, 0), "waitpid");
        (void)printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 255);
        (void)fflush(stdout);
    }
    free(line);
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        (void)fprintf(stderr, "usage: envd_serve TOKEN USER FOLDER [NAME=VALUE...]\n");
        return 2;
    }
    int port = 0, ready[2];
    (void)umask(022);
    make_machine();
    int fd = listen_socket(&port);
    need(pipe2(ready, O_CLOEXEC), "pipe");
    pid_t init = fork();
    need(init, "fork");
    if (init == 0)
        be_envd(fd, ready[1], argv);
    (void)close(fd);
    (void)close(ready[1]);
    char byte = 0;
    need(read(ready[0], &byte, 1) == 1 ? 0 : -1, "envd does not start");
    (void)printf("%d\n", port);
    (void)fflush(stdout);
    run_scripts();
    (void)kill(init, SIGKILL);
    (void)waitpid(init, NULL, 0);
    return 0;
}
