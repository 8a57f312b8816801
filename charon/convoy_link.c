/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "convoy_link.h"
#include "convoy_held.h"
#include "convoy_session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include <daemon.h>
#include <collections/linked_list.h>
#include <threading/condvar.h>
#include <threading/mutex.h>
#include <threading/thread.h>

#define DEFAULT_PATH "/run/convoy/charon.sock"
/* Between two tries to connect: while the gateway does not listen, which costs few system calls, and after a try
 * that ended otherwise, which both sides log. */
#define ABSENT_MS 50
#define RETRY_MS 250
/* The status of a gateway that stands by while another one of its cluster leads. */
#define STANDS_BY 4
/* How long the receiver waits for a datagram, or for the gateway. */
#define RECEIVE_MS 1000
/* Deletions that wait for the gateway at most; after those, its SAs go when they expire. */
#define OWED 65536

struct convoy_link_t {
    convoy_listener_t listener;
    thread_t *thread;
    /* Drawn once: tells the gateway whether it is still the same charon. */
    uint64_t identity;
    /* Of the gateway that was sent all, 0 before the first; the link's thread's own. */
    uint64_t generation;
    /* Until the next try to connect; the link's thread's own. */
    u_int wait_ms;
    /* Whether another gateway leads, and charon was ordered to end; the link's thread's own. */
    bool stands_by;
    bool has_ended;
    /* Guards what follows. */
    mutex_t *mutex;
    condvar_t *changed;
    convoy_session_t *session;
    bool has_tried;
    bool is_stopping;
    uint16_t ports[2];
    /* Deletions, as chunk_t*, that the gateway has not heard of. */
    linked_list_t *owed;
    /* IKE messages for when there is a gateway. */
    convoy_held_t *held;
    /* One request at a time. */
    mutex_t *asking;
    uint32_t last_id;
    /* What was logged last, so that it is not logged each time. */
    char trouble[320];
};

/* The living session, held, or NULL. The caller has locked the mutex. */
static convoy_session_t *current_locked(convoy_link_t *this) {
    return this->session && !convoy_session_is_broken(this->session) ? convoy_session_hold(this->session) : NULL;
}

static convoy_session_t *current(convoy_link_t *this) {
    convoy_session_t *session;

    this->mutex->lock(this->mutex);
    session = current_locked(this);
    this->mutex->unlock(this->mutex);
    return session;
}

bool convoy_link_is_up(convoy_link_t *this) {
    convoy_session_t *session = current(this);

    if (session) {
        convoy_session_let_go(session);
    }
    return session != NULL;
}

/* Says what is wrong, once. */
static void trouble(convoy_link_t *this, const char *text) {
    if (!streq(this->trouble, text)) {
        DBG1(DBG_KNL, "convoy: %s; trying again", text);
        snprintf(this->trouble, sizeof(this->trouble), "%s", text);
    }
}

/* Says hello for one role and hears the welcome. */
static bool greet(convoy_link_t *this, int fd, int role, uint64_t *generation) {
    convoy_message_t message;
    char text[257] = "", line[320];
    uint16_t status, version;
    uint32_t id;

    convoy_begin(&message, CONVOY_HELLO);
    convoy_put_u32(&message, CONVOY_MAGIC);
    convoy_put_u16(&message, CONVOY_VERSION);
    convoy_put_u8(&message, role + 1);
    convoy_put_u8(&message, 0);
    convoy_put_u64(&message, this->identity);
    convoy_put_name(&message, CONVOY_STRONGSWAN);
    if (!convoy_session_send(fd, &message) || !convoy_session_receive(fd, &message)) {
        snprintf(line, sizeof(line), "the gateway does not answer: %s", strerror(errno));
        trouble(this, line);
        return FALSE;
    }
    if (convoy_open(&message, &id) != CONVOY_WELCOME || id) {
        trouble(this, "who listens there is no gateway");
        return FALSE;
    }
    status = convoy_get_u16(&message);
    version = convoy_get_u16(&message);
    if (version == CONVOY_VERSION) {
        *generation = convoy_get_u64(&message);
        this->ports[0] = convoy_get_u16(&message);
        this->ports[1] = convoy_get_u16(&message);
        convoy_get_text(&message, text, sizeof(text));
    } else {
        snprintf(text, sizeof(text), "it speaks protocol version %u, this plugin %u", version, CONVOY_VERSION);
    }
    this->stands_by = version == CONVOY_VERSION && status == STANDS_BY;
    if (status != 0 || version != CONVOY_VERSION || !convoy_is_whole(&message)) {
        snprintf(line, sizeof(line), "the gateway refuses: %s", text);
        trouble(this, line);
        return FALSE;
    }
    return TRUE;
}

static bool is_absent(int error) {
    return error == ENOENT || error == ECONNREFUSED;
}

static convoy_session_t *connect_all(convoy_link_t *this, uint64_t *generation) {
    char *path = lib->settings->get_str(lib->settings, "%s.plugins.convoy.socket", DEFAULT_PATH, lib->ns);
    struct timeval forever = {};
    convoy_session_t *session;
    char line[320];
    int role;

    INIT(session, .users = 1, .fds = {-1, -1, -1});
    for (role = 0; role < CONVOY_ROLES; role++) {
        session->fds[role] = convoy_session_open(path);
        if (session->fds[role] < 0) {
            this->wait_ms = is_absent(errno) ? ABSENT_MS : RETRY_MS;
            snprintf(line, sizeof(line), "no gateway at %s: %s", path, strerror(errno));
            trouble(this, line);
            convoy_session_let_go(session);
            return NULL;
        }
        if (!greet(this, session->fds[role], role, generation)) {
            convoy_session_let_go(session);
            return NULL;
        }
    }
    /* Events come when they come. */
    setsockopt(session->fds[CONVOY_EVENTS], SOL_SOCKET, SO_RCVTIMEO, &forever, sizeof(forever));
    return session;
}

/* One request and its reply. Anything unexpected breaks the session off. */
static status_t exchange(convoy_link_t *this, convoy_session_t *session, convoy_message_t *request, convoy_message_t *reply) {
    convoy_kind_t kind = request->bytes[0] | request->bytes[1] << 8;
    char text[257];
    uint16_t status;
    uint32_t id, answered;

    if (request->bad) {
        DBG1(DBG_KNL, "convoy: a request of kind %d has no room in a message", kind);
        return FAILED;
    }
    this->asking->lock(this->asking);
    id = ++this->last_id;
    convoy_set_id(request, id);
    if (!convoy_session_send(session->fds[CONVOY_CONTROL], request) || !convoy_session_receive(session->fds[CONVOY_CONTROL], reply)) {
        DBG1(DBG_KNL, "convoy: the gateway does not answer a request of kind %d: %s", kind, strerror(errno));
        convoy_session_break_off(session);
        this->asking->unlock(this->asking);
        return FAILED;
    }
    this->asking->unlock(this->asking);
    if (convoy_open(reply, &answered) != (kind | CONVOY_REPLY) || answered != id) {
        DBG1(DBG_KNL, "convoy: the gateway answers what was not asked");
        convoy_session_break_off(session);
        return FAILED;
    }
    status = convoy_get_u16(reply);
    convoy_get_text(reply, text, sizeof(text));
    switch (status) {
        case 0:
            return SUCCESS;
        case 2:
            DBG2(DBG_KNL, "convoy: %s", text);
            return NOT_FOUND;
        case 3:
            DBG1(DBG_KNL, "convoy: the gateway cannot: %s", text);
            return NOT_SUPPORTED;
        default:
            DBG1(DBG_KNL, "convoy: the gateway refuses: %s", text);
            return FAILED;
    }
}

status_t convoy_link_ask(convoy_link_t *this, convoy_message_t *request, convoy_message_t *reply) {
    convoy_session_t *session = current(this);
    status_t status;

    if (!session) {
        DBG1(DBG_KNL, "convoy: the gateway is away");
        return INVALID_STATE;
    }
    status = exchange(this, session, request, reply);
    convoy_session_let_go(session);
    return status;
}

status_t convoy_link_delete(convoy_link_t *this, convoy_message_t *request) {
    convoy_message_t reply;
    convoy_session_t *session = current(this);
    status_t status = FAILED;
    chunk_t *owed;

    if (session) {
        status = exchange(this, session, request, &reply);
        convoy_session_let_go(session);
    }
    if (status == FAILED && !request->bad) {
        this->mutex->lock(this->mutex);
        if (this->owed->get_count(this->owed) < OWED) {
            INIT(owed);
            *owed = chunk_clone(chunk_create(request->bytes, request->len));
            this->owed->insert_last(this->owed, owed);
        }
        this->mutex->unlock(this->mutex);
    }
    return status;
}

static void destroy_chunk(chunk_t *chunk) {
    chunk_free(chunk);
    free(chunk);
}

/* Tells the gateway what was deleted while it was away; a new one has forgotten that anyway. */
static void send_owed(convoy_link_t *this, convoy_session_t *session, bool is_new) {
    convoy_message_t request, reply;
    chunk_t *owed;

    while (TRUE) {
        this->mutex->lock(this->mutex);
        if (this->owed->remove_first(this->owed, (void **)&owed) != SUCCESS) {
            owed = NULL;
        }
        this->mutex->unlock(this->mutex);
        if (!owed) {
            return;
        }
        if (!is_new) {
            request.len = owed->len;
            request.bad = FALSE;
            memcpy(request.bytes, owed->ptr, owed->len);
            exchange(this, session, &request, &reply);
        }
        destroy_chunk(owed);
    }
}

/* One IKE message, from two parts. Whether the gateway has it; else errno says why not. */
static bool send_datagram(convoy_session_t *session, chunk_t head, chunk_t payload) {
    struct iovec parts[] = {{.iov_base = head.ptr, .iov_len = head.len},
                            {.iov_base = payload.ptr, .iov_len = payload.len}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = countof(parts)};
    ssize_t len = sendmsg(session->fds[CONVOY_IKE], &message, MSG_NOSIGNAL);

    return len >= 0;
}

/* Sends what charon wanted to send while there was no gateway. */
static void send_held(convoy_link_t *this, convoy_session_t *session) {
    linked_list_t *messages;
    chunk_t *message;

    this->mutex->lock(this->mutex);
    messages = convoy_held_take(this->held);
    this->mutex->unlock(this->mutex);
    if (messages->get_count(messages)) {
        DBG1(DBG_NET, "convoy: sending %u IKE messages that waited for the gateway", messages->get_count(messages));
    }
    while (messages->remove_first(messages, (void **)&message) == SUCCESS) {
        if (!convoy_session_is_broken(session) && !send_datagram(session, *message, chunk_empty)) {
            DBG1(DBG_NET, "convoy: the gateway takes no datagram: %s", strerror(errno));
        }
        destroy_chunk(message);
    }
    messages->destroy(messages);
}

/* Hears events until the session breaks. */
static void listen_to(convoy_link_t *this, convoy_session_t *session) {
    convoy_message_t message;

    while (convoy_session_receive(session->fds[CONVOY_EVENTS], &message)) {
        this->listener.event(this->listener.context, &message);
    }
}

/* From a good welcome until the session breaks. */
static void serve(convoy_link_t *this, convoy_session_t *session, uint64_t generation) {
    bool is_new = this->generation && this->generation != generation;

    this->trouble[0] = '\0';
    DBG1(DBG_KNL, "convoy: connected to the gateway, generation %.16llx", (unsigned long long)generation);
    this->mutex->lock(this->mutex);
    this->session = convoy_session_hold(session);
    this->has_tried = TRUE;
    this->changed->broadcast(this->changed);
    this->mutex->unlock(this->mutex);
    send_owed(this, session, is_new);
    if (this->listener.connected(this->listener.context, is_new)) {
        this->generation = generation;
        /* Now that it has the policies, for which answers to these may bring SAs. */
        send_held(this, session);
    } else {
        /* The next session tells it all again. */
        convoy_session_break_off(session);
    }
    listen_to(this, session);
    this->mutex->lock(this->mutex);
    this->session = NULL;
    this->mutex->unlock(this->mutex);
    convoy_session_break_off(session);
    convoy_session_let_go(session);
    DBG1(DBG_KNL, "convoy: the gateway has gone");
}

/* When another gateway leads, its charon negotiates with the peers, and the IKE_SAs of this one are
 * of no use. A charon that has not served a gateway yet waits for its own to lead. */
static void end_if_succeeded(convoy_link_t *this) {
    if (this->stands_by && this->generation && !this->has_ended) {
        DBG1(DBG_KNL, "convoy: another gateway of the cluster leads now; charon stops, to start again when this one leads");
        this->has_ended = TRUE;
        kill(getpid(), SIGTERM);
    }
}

static void *run(void *context) {
    convoy_link_t *this = context;
    convoy_session_t *session;
    uint64_t generation = 0;
    bool is_stopping = FALSE;

    while (!is_stopping) {
        this->wait_ms = RETRY_MS;
        session = connect_all(this, &generation);
        if (session) {
            serve(this, session, generation);
            convoy_session_let_go(session);
            this->wait_ms = this->generation == generation ? ABSENT_MS : RETRY_MS;
        } else {
            end_if_succeeded(this);
        }
        this->mutex->lock(this->mutex);
        this->has_tried = TRUE;
        this->changed->broadcast(this->changed);
        if (!this->is_stopping) {
            this->changed->timed_wait(this->changed, this->mutex, this->wait_ms);
        }
        is_stopping = this->is_stopping;
        this->mutex->unlock(this->mutex);
    }
    return NULL;
}

ssize_t convoy_link_receive(convoy_link_t *this, uint8_t *buffer, size_t size) {
    struct pollfd wait = {.events = POLLIN};
    convoy_session_t *session;
    ssize_t len = -1;
    bool was_cancelable;
    int ready;

    this->mutex->lock(this->mutex);
    if (!this->session && !this->is_stopping) {
        this->changed->timed_wait(this->changed, this->mutex, RECEIVE_MS);
    }
    session = this->session ? convoy_session_hold(this->session) : NULL;
    this->mutex->unlock(this->mutex);
    if (!session) {
        return -1;
    }
    wait.fd = session->fds[CONVOY_IKE];
    thread_cleanup_push((thread_cleanup_t)convoy_session_let_go, session);
    was_cancelable = thread_cancelability(TRUE);
    ready = poll(&wait, 1, RECEIVE_MS);
    thread_cancelability(was_cancelable);
    if (ready > 0) {
        len = recv(wait.fd, buffer, size, MSG_DONTWAIT | MSG_TRUNC);
        if (len == 0 || (len < 0 && errno != EAGAIN && errno != EINTR)) {
            convoy_session_break_off(session);
            /* Until the link's thread has noticed, there is nothing to wait for. */
            usleep(RETRY_MS * 1000 / 10);
        }
    }
    thread_cleanup_pop(TRUE);
    return len > 0 && (size_t)len <= size ? len : -1;
}

/* The living session, held; or NULL, and the message waits for the next. Both under the mutex, so
 * that none is left waiting. */
static convoy_session_t *current_or_keep(convoy_link_t *this, chunk_t head, chunk_t payload) {
    convoy_session_t *session;
    chunk_t message;

    this->mutex->lock(this->mutex);
    session = current_locked(this);
    if (!session) {
        message = chunk_cat("cc", head, payload);
        convoy_held_keep(this->held, message);
        chunk_free(&message);
    }
    this->mutex->unlock(this->mutex);
    return session;
}

status_t convoy_link_send(convoy_link_t *this, convoy_message_t *head, chunk_t payload) {
    chunk_t header = chunk_create(head->bytes, head->len);
    convoy_session_t *session;
    bool is_sent, has_gone;

    while ((session = current_or_keep(this, header, payload))) {
        is_sent = send_datagram(session, header, payload);
        has_gone = !is_sent && (errno == EPIPE || errno == ECONNRESET);
        if (has_gone) {
            convoy_session_break_off(session);
        } else if (!is_sent) {
            DBG1(DBG_NET, "convoy: the gateway takes no datagram: %s", strerror(errno));
        }
        convoy_session_let_go(session);
        if (!has_gone) {
            return is_sent ? SUCCESS : FAILED;
        }
    }
    DBG1(DBG_NET, "convoy: the gateway is away, an IKE message waits for it");
    return SUCCESS;
}

uint16_t convoy_link_port(convoy_link_t *this, bool nat) {
    return this->ports[nat ? 1 : 0];
}

convoy_link_t *convoy_link_create(void) {
    convoy_link_t *this;

    INIT(this, .mutex = mutex_create(MUTEX_TYPE_DEFAULT), .changed = condvar_create(CONDVAR_TYPE_DEFAULT),
         .asking = mutex_create(MUTEX_TYPE_DEFAULT), .owed = linked_list_create(), .held = convoy_held_create(),
         .ports = {IKEV2_UDP_PORT, IKEV2_NATT_PORT});
    while (getrandom(&this->identity, sizeof(this->identity), 0) != sizeof(this->identity)) {
        continue;
    }
    return this;
}

void convoy_link_start(convoy_link_t *this, convoy_listener_t listener) {
    this->listener = listener;
    this->thread = thread_create(run, this);
    if (!this->thread) {
        DBG1(DBG_KNL, "convoy: no thread for the gateway's connections");
        return;
    }
    this->mutex->lock(this->mutex);
    while (!this->has_tried) {
        if (this->changed->timed_wait(this->changed, this->mutex, CONVOY_TIMEOUT_S * 1000)) {
            break;
        }
    }
    this->mutex->unlock(this->mutex);
}

void convoy_link_destroy(convoy_link_t *this) {
    this->mutex->lock(this->mutex);
    this->is_stopping = TRUE;
    if (this->session) {
        convoy_session_break_off(this->session);
    }
    this->changed->broadcast(this->changed);
    this->mutex->unlock(this->mutex);
    if (this->thread) {
        this->thread->join(this->thread);
    }
    this->owed->destroy_function(this->owed, (void *)destroy_chunk);
    convoy_held_destroy(this->held);
    this->asking->destroy(this->asking);
    this->changed->destroy(this->changed);
    this->mutex->destroy(this->mutex);
    free(this);
}
