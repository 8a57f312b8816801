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

/* How every daemon of strongSwan names its version in its first line of log, which stands in its program. */
#define BEFORE_VERSION "(strongSwan "

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

/* Reads the version of the running daemon out of its program; "" if it is not there. */
static void running_version(char *version, size_t size) {
    struct stat found;
    const char *start;
    size_t at, len;
    char *program;
    int fd = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);

    version[0] = '\0';
    if (fd < 0) {
        return;
    }
    if (fstat(fd, &found) == 0 && found.st_size > 0) {
        program = mmap(NULL, found.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (program != MAP_FAILED) {
            start = memmem(program, found.st_size, BEFORE_VERSION, strlen(BEFORE_VERSION));
            if (start) {
                at = start - program + strlen(BEFORE_VERSION);
                for (len = 0; at + len < (size_t)found.st_size && len + 1 < size; len++) {
                    if (!strchr("0123456789.", program[at + len]) || !program[at + len]) {
                        break;
                    }
                    version[len] = program[at + len];
                }
                version[len] = '\0';
            }
            munmap(program, found.st_size);
        }
    }
    close(fd);
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

plugin_t *convoy_plugin_create(void) {
    convoy_plugin_t *this;
    char version[32];

    running_version(version, sizeof(version));
    if (!streq(version, CONVOY_STRONGSWAN)) {
        /* charon would go on without the plugin, and hand its keys to the kernel. */
        DBG1(DBG_LIB, "convoy: this plugin was built for strongSwan %s, and this is %s: build it again; charon stops now",
             CONVOY_STRONGSWAN, version[0] ? version : "not known");
        kill(getpid(), SIGTERM);
        return NULL;
    }
    INIT(this, .public = {.get_name = _get_name, .get_features = _get_features, .destroy = _destroy});
    return &this->public;
}
