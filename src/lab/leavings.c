/* SPDX-License-Identifier: MIT
 *
 * See leavings.h.
 */
#include "lab/leavings.h"

#include "base/error.h"
#include "client/client.h"
#include "lab/keys.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RENEW_MS = 30000, PATH_ROOM = LAB_PATH_MAX + 300 };

/* ---- folders ----------------------------------------------------------------------------- */

/* Marked, ours, and held by nobody. */
static bool is_left(char *folder)
{
    char path[PATH_ROOM + 20];
    struct stat st;

    (void)snprintf(path, sizeof path, "%s/%s", folder, LAB_MARK);
    return lstat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
           lab_is_free(path);
}

static void remove_left(const char *folder)
{
    const char *own = strrchr(folder, '/') + 1;
    char path[PATH_ROOM];
    DIR *d = NULL;

    (void)snprintf(path, sizeof path, "%.*s", (int)(own - folder), folder);
    d = opendir(path);
    for (const struct dirent *e; d && (e = readdir(d));) {
        if (strncmp(e->d_name, own, strlen("emq-lab-")) != 0 || strcmp(e->d_name, own) == 0)
            continue;
        (void)snprintf(path, sizeof path, "%.*s%s", (int)(own - folder), folder, e->d_name);
        if (is_left(path))
            lab_remove(path);
    }
    if (d)
        (void)closedir(d);
}

int lab_folder_claim(const char *folder)
{
    char made[LAB_PATH_MAX + 20], path[LAB_PATH_MAX + 20];

    /* Held before it has its name: nobody ever sees it free while we live. */
    (void)snprintf(made, sizeof made, "%s/new", folder);
    (void)snprintf(path, sizeof path, "%s/%s", folder, LAB_MARK);
    if (!lab_hold(made) || rename(made, path) != 0)
        return errno;
    remove_left(folder);
    return 0;
}

/* ---- keys -------------------------------------------------------------------------------- */

struct lab_pulse {
    emq_client *c;
    const char *prefix;
    pthread_t thread;
    pthread_mutex_t mu;
    pthread_cond_t cond;
    bool stop; /* under mu */
};

static void *beat(void *arg)
{
    struct lab_pulse *p = arg;
    struct timespec at;

    pthread_mutex_lock(&p->mu);
    while (!p->stop) {
        (void)clock_gettime(CLOCK_MONOTONIC, &at);
        at.tv_sec += RENEW_MS / 1000;
        (void)pthread_cond_timedwait(&p->cond, &p->mu, &at);
        if (p->stop)
            break;
        pthread_mutex_unlock(&p->mu);
        (void)lab_mark_renew(p->c, p->prefix, NULL); /* the next beat tries again */
        pthread_mutex_lock(&p->mu);
    }
    pthread_mutex_unlock(&p->mu);
    return NULL;
}

static emq_status start_thread(struct lab_pulse *p, emq_error *err)
{
    pthread_condattr_t attr;

    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_mutex_init(&p->mu, NULL);
    (void)pthread_cond_init(&p->cond, &attr);
    (void)pthread_condattr_destroy(&attr);
    int rc = pthread_create(&p->thread, NULL, beat, p);
    return rc == 0 ? EMQ_OK : emq__fail(err, EMQ_E_SYSTEM, rc, "lab", "%s", strerror(rc));
}

emq_status lab_pulse_start(const char *url, const char *prefix, struct lab_pulse **out,
                           emq_error *err)
{
    const emq_open_opts o = {.size = sizeof o, .prefix = emq_cstr(prefix)};
    struct lab_pulse *p = calloc(1, sizeof *p);

    *out = NULL;
    if (!p)
        return emq__no_memory("lab", err);
    p->prefix = prefix;
    emq_status s = emq_open(&p->c, emq_cstr(url), &o, err);
    if (s == EMQ_OK)
        s = lab_mark_renew(p->c, prefix, err);
    if (s == EMQ_OK)
        s = lab_left_keys_remove(p->c, prefix, err);
    if (s == EMQ_OK)
        s = start_thread(p, err);
    if (s == EMQ_OK) {
        *out = p;
        return s;
    }
    emq_close(p->c);
    free(p);
    return s;
}

void lab_pulse_stop(struct lab_pulse *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->mu);
    p->stop = true;
    (void)pthread_cond_signal(&p->cond);
    pthread_mutex_unlock(&p->mu);
    (void)pthread_join(p->thread, NULL);
    (void)pthread_cond_destroy(&p->cond);
    (void)pthread_mutex_destroy(&p->mu);
    emq_close(p->c);
    free(p);
}
