/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_plugin.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <daemon.h>

#include "convoy_kernel.h"
#include "convoy_socket.h"

typedef struct {
    plugin_t public;
} convoy_plugin_t;

/* Only touched while charon loads and unloads plugins, which one thread does. */
static convoy_link_t *shared_link;
static u_int link_users;

convoy_link_t *convoy_plugin_hold_link(void) {
    if (!link_users++) {
        shared_link = convoy_link_create();
    }
    return shared_link;
}

void convoy_plugin_release_link(void) {
    if (!--link_users) {
        convoy_link_destroy(shared_link);
        shared_link = NULL;
    }
}

static bool is_of_version(char letter) {
    return letter && strchr("0123456789.", letter);
}

/* Whether `version` stands in a program, and not as a part of another: charon has it within its first line of log,
 * charon-systemd by itself. */
static bool names_version(const char *program, size_t size, const char *version) {
    size_t len = strlen(version);
    const char *end = program + size, *found = program;

    while ((found = memmem(found, end - found, version, len))) {
        if ((found == program || !is_of_version(found[-1])) && (found + len == end || !is_of_version(found[len]))) {
            return TRUE;
        }
        found++;
    }
    return FALSE;
}

/* Whether the running daemon is of this version, by its program. */
static bool is_running(const char *version) {
    struct stat found;
    bool is_named = FALSE;
    char *program;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    if (fd < 0) {
        return FALSE;
    }
    if (fstat(fd, &found) == 0 && found.st_size > 0) {
        program = mmap(NULL, found.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (program != MAP_FAILED) {
            is_named = names_version(program, found.st_size, version);
            munmap(program, found.st_size);
        }
    }
    close(fd);
    return is_named;
}

METHOD(plugin_t, get_name, char *, convoy_plugin_t *this) {
    return "convoy";
}

METHOD(plugin_t, get_features, int, convoy_plugin_t *this, plugin_feature_t *features[]) {
    static plugin_feature_t provided[] = {
        PLUGIN_CALLBACK(kernel_ipsec_register, convoy_kernel_create),
        PLUGIN_PROVIDE(CUSTOM, "kernel-ipsec"),
        PLUGIN_CALLBACK(socket_register, convoy_socket_create),
        PLUGIN_PROVIDE(CUSTOM, "socket"),
        PLUGIN_DEPENDS(CUSTOM, "kernel-ipsec"),
    };
    *features = provided;
    return countof(provided);
}

METHOD(plugin_t, destroy, void, convoy_plugin_t *this) {
    free(this);
}

const char *convoy_plugin_version = CONVOY_STRONGSWAN;

plugin_t *convoy_plugin_create(void) {
    convoy_plugin_t *this;

    if (!is_running(CONVOY_STRONGSWAN)) {
        /* charon would go on without the plugin, and hand its keys to the kernel. */
        DBG1(DBG_LIB, "convoy: this plugin was built for strongSwan %s, and this is another: build it again; charon stops now",
             CONVOY_STRONGSWAN);
        kill(getpid(), SIGTERM);
        return NULL;
    }
    INIT(this, .public = {.get_name = _get_name, .get_features = _get_features, .destroy = _destroy});
    return &this->public;
}
