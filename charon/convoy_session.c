/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_session.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

convoy_session_t *convoy_session_hold(convoy_session_t *session) {
    ref_get(&session->users);
    return session;
}

void convoy_session_let_go(convoy_session_t *session) {
    int role;

    if (ref_put(&session->users)) {
        for (role = 0; role < CONVOY_ROLES; role++) {
            if (session->fds[role] >= 0) {
                close(session->fds[role]);
            }
        }
        free(session);
    }
}

void convoy_session_break_off(convoy_session_t *session) {
    int role;

    __atomic_store_n(&session->is_broken, TRUE, __ATOMIC_RELEASE);
    for (role = 0; role < CONVOY_ROLES; role++) {
        if (session->fds[role] >= 0) {
            shutdown(session->fds[role], SHUT_RDWR);
        }
    }
}

bool convoy_session_is_broken(convoy_session_t *session) {
    return __atomic_load_n(&session->is_broken, __ATOMIC_ACQUIRE);
}

bool convoy_session_receive(int fd, convoy_message_t *message) {
    struct iovec part = {.iov_base = message->bytes, .iov_len = sizeof(message->bytes)};
    struct msghdr header = {.msg_iov = &part, .msg_iovlen = 1};
    ssize_t len;

    do {
        len = recvmsg(fd, &header, 0);
    } while (len < 0 && errno == EINTR);
    if (len == 0) {
        errno = ECONNRESET;
    }
    if (len <= 0 || header.msg_flags & MSG_TRUNC) {
        return FALSE;
    }
    message->len = len;
    message->at = 0;
    message->bad = FALSE;
    return TRUE;
}

bool convoy_session_send(int fd, const convoy_message_t *message) {
    ssize_t len;

    do {
        len = send(fd, message->bytes, message->len, MSG_NOSIGNAL);
    } while (len < 0 && errno == EINTR);
    return len == (ssize_t)message->len;
}

int convoy_session_open(const char *path) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval timeout = {.tv_sec = CONVOY_TIMEOUT_S};
    int fd;

    if (strlen(path) >= sizeof(address.sun_path)) {
        errno = ENAMETOOLONG;
        return -1;
    }
    strcpy(address.sun_path, path);
    fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        return -1;
    }
    if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) ||
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout)) ||
        connect(fd, (struct sockaddr *)&address, sizeof(address))) {
        int error = errno;
        close(fd);
        errno = error;
        return -1;
    }
    return fd;
}
