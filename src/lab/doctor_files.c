/* SPDX-License-Identifier: MIT
 *
 * Who else has the file of a store open. A process of EchoMQ has the side file mapped; another SQLite, a shell or a
 * backup, has not: its locks and checkpoints know nothing of ours.
 */
#include "lab/doctor.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

static bool has_open(const char *pid, const struct stat *file)
{
    char path[300];
    struct dirent *entry;
    struct stat st;
    bool found = false;

    (void)snprintf(path, sizeof path, "/proc/%s/fd", pid);
    DIR *dir = opendir(path);
    while (dir && !found && (entry = readdir(dir)) != NULL)
        found = fstatat(dirfd(dir), entry->d_name, &st, 0) == 0 && st.st_dev == file->st_dev &&
                st.st_ino == file->st_ino;
    if (dir)
        closedir(dir);
    return found;
}

/* Is the side file among what the process has mapped? */
static bool has_side(const char *pid, const char *path)
{
    char name[300], side[4200], *line = NULL;
    size_t cap = 0;
    bool found = false;

    (void)snprintf(name, sizeof name, "/proc/%s/maps", pid);
    (void)snprintf(side, sizeof side, "%s-emq", path);
    FILE *maps = fopen(name, "re");
    while (maps && !found && getline(&line, &cap, maps) > 0)
        found = strstr(line, side) != NULL;
    free(line);
    if (maps)
        fclose(maps);
    return found;
}

static void name_of(const char *pid, char out[64])
{
    char path[300];

    (void)snprintf(path, sizeof path, "/proc/%s/comm", pid);
    FILE *comm = fopen(path, "re");
    out[0] = '\0';
    if (comm && fgets(out, 64, comm))
        out[strcspn(out, "\n")] = '\0';
    if (comm)
        fclose(comm);
}

void emq__doctor_foreign(struct emq__doctor *d, const char *path, struct emq__arena *mem)
{
    struct stat file;
    struct dirent *entry;
    char name[64], real[4097];
    DIR *proc = stat(path, &file) == 0 && realpath(path, real) ? opendir("/proc") : NULL;

    while (proc && (entry = readdir(proc)) != NULL) {
        const char *pid = entry->d_name;
        if (pid[0] < '1' || pid[0] > '9' || strtol(pid, NULL, 10) == (long)getpid() ||
            !has_open(pid, &file) || has_side(pid, real))
            continue;
        name_of(pid, name);
        emq__advise(d, mem,
                    "process %s (%s) has the file open through another SQLite: it may hold it "
                    "locked, and what it "
                    "writes wakes nobody",
                    pid, name);
    }
    if (proc)
        closedir(proc);
}
