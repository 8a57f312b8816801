/* SPDX-License-Identifier: GPL-2.0-or-later
 * One life of the three connections to the gateway, and messages over them. */
#ifndef CONVOY_SESSION_H_
#define CONVOY_SESSION_H_

#include "convoy_wire.h"

/* How long the gateway may take. */
#define CONVOY_TIMEOUT_S 2

enum { CONVOY_CONTROL, CONVOY_EVENTS, CONVOY_IKE, CONVOY_ROLES };

/* One life of the three connections. Its sockets are shut down when it breaks, and closed when they are no longer used. */
typedef struct {
    refcount_t users;
    int fds[CONVOY_ROLES];
    bool is_broken;
} convoy_session_t;

/* One user more; one user less, the last of whom closes the sockets. */
convoy_session_t *convoy_session_hold(convoy_session_t *session);
void convoy_session_let_go(convoy_session_t *session);
/* All calls on its sockets end, now and later; the link's thread then begins again. */
void convoy_session_break_off(convoy_session_t *session);
bool convoy_session_is_broken(convoy_session_t *session);

/* A socket to the gateway that waits no longer than it may take, or -1 with errno. */
int convoy_session_open(const char *path);
/* A whole message, or FALSE with errno: it broke, took too long, or was too long. */
bool convoy_session_receive(int fd, convoy_message_t *message);
bool convoy_session_send(int fd, const convoy_message_t *message);

#endif
