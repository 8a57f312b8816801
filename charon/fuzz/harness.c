/* SPDX-License-Identifier: GPL-2.0-or-later
 * Any messages of the gateway's are taken as PROTOCOL.md has them, or refused. The plugin's own code runs here, over sockets that give what
 * the fuzzer made up and take anything; charon hears of what was understood, and what it hears has to be the same bytes when it
 * is written again.
 *
 * An input: a byte that says what is done, then messages, each with its length before it (u16, little-endian). */
#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <daemon.h>

static ssize_t give(void *buffer, size_t size, bool *is_cut);
static ssize_t fuzz_recvmsg(int fd, struct msghdr *header, int flags) {
    bool is_cut;
    ssize_t len = give(header->msg_iov[0].iov_base, header->msg_iov[0].iov_len, &is_cut);

    header->msg_flags = is_cut ? MSG_TRUNC : 0;
    return len;
}
static ssize_t fuzz_recv(int fd, void *buffer, size_t size, int flags) {
    bool is_cut;
    return give(buffer, size, &is_cut);
}

/* What the plugin calls of the system's; no descriptor is ever opened. */
#define socket(...) 3
#define setsockopt(...) 0
#define connect(...) 0
#define shutdown(...) 0
#define close(...) 0
#define poll(...) 1
#define usleep(...) 0
#define send(fd, bytes, len, flags) ((ssize_t)(len))
#define sendmsg(...) 0
#define recvmsg fuzz_recvmsg
#define recv fuzz_recv
#define convoy_link_start started_by_no_thread
#include "../convoy_session.c"
#include "../convoy_link.c"
#undef convoy_link_start
#undef socket
#undef connect
#undef send

#include "../convoy_events.h"
#include "../convoy_kernel.h"
#include "../convoy_plugin.h"
#include "../convoy_socket.h"

/* The input that is not read yet, and the message that was read last. */
static const uint8_t *rest;
static size_t rest_len;
static convoy_message_t last;
static u_int understood;

static ssize_t give(void *buffer, size_t size, bool *is_cut) {
    size_t len, taken;

    *is_cut = FALSE;
    if (rest_len < 2) {
        return 0;
    }
    len = rest[0] | rest[1] << 8;
    len = min(len, rest_len - 2);
    taken = min(len, size);
    memcpy(buffer, rest + 2, taken);
    last.len = min(len, sizeof(last.bytes));
    memcpy(last.bytes, rest + 2, last.len);
    rest += 2 + len;
    rest_len -= 2 + len;
    *is_cut = len > size;
    return *is_cut ? (ssize_t)size : (ssize_t)len;
}

/* What charon was sent has to be all that the message says. */
static void expect(const convoy_message_t *written) {
    if (written->bad || written->len != last.len || memcmp(written->bytes, last.bytes, last.len)) {
        fprintf(stderr, "charon received something else than the message says\n");
        abort();
    }
    understood++;
}

static void expire(kernel_interface_t *this, uint8_t protocol, uint32_t spi, host_t *destination, bool is_hard) {
    convoy_message_t written;

    convoy_begin(&written, CONVOY_EXPIRE);
    convoy_put_u32(&written, ntohl(spi));
    convoy_put_u8(&written, protocol);
    convoy_put_u8(&written, is_hard);
    convoy_put_zeros(&written, 2);
    convoy_put_host(&written, destination);
    expect(&written);
}

static void acquire(kernel_interface_t *this, uint32_t reqid, kernel_acquire_data_t *packet) {
    convoy_message_t written;

    convoy_begin(&written, CONVOY_ACQUIRE);
    convoy_put_u32(&written, reqid);
    convoy_put_selector(&written, packet->src);
    convoy_put_selector(&written, packet->dst);
    expect(&written);
}

static void mapping(kernel_interface_t *this, uint8_t protocol, uint32_t spi, host_t *destination, host_t *source) {
    convoy_message_t written;

    convoy_begin(&written, CONVOY_MAPPING);
    convoy_put_u32(&written, ntohl(spi));
    convoy_put_u8(&written, protocol);
    convoy_put_zeros(&written, 3);
    convoy_put_host(&written, destination);
    convoy_put_host(&written, source);
    expect(&written);
}

static void no_listener(bus_t *this, listener_t *listener) {
}

/* Formats what would be logged, and shows it nowhere. */
static void quiet(bus_t *this, debug_t group, level_t level, char *format, ...) {
    char line[1024];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(line, sizeof(line), format, arguments);
    va_end(arguments);
}

void convoy_link_start(convoy_link_t *this, convoy_listener_t listener) {
    this->listener = listener;
}

static bool connected(void *context, bool is_new) {
    return TRUE;
}

static void heard(void *context, convoy_message_t *message) {
    convoy_events_hear(message);
}

static convoy_link_t *fuzzed;
static kernel_ipsec_t *kernel;
static socket_t *ike;
static host_t *here, *there;
static traffic_selector_t *selector;
static bool must_understand;

int LLVMFuzzerInitialize(int *count, char ***arguments) {
    static kernel_interface_t kernel_interface = {.expire = expire, .acquire = acquire, .mapping = mapping};
    static bus_t bus = {.log = quiet, .add_listener = no_listener, .remove_listener = no_listener};
    static daemon_t daemon = {.kernel = &kernel_interface, .bus = &bus};

    if (!library_init(NULL, "convoy-fuzz")) {
        return 1;
    }
    charon = &daemon;
    here = host_create_from_string("192.0.2.1", 4500);
    there = host_create_from_string("2001:db8::2", 4500);
    selector = traffic_selector_create_dynamic(0, 0, 65535);
    fuzzed = convoy_plugin_hold_link();
    fuzzed->listener = (convoy_listener_t){.connected = connected, .event = heard};
    kernel = convoy_kernel_create();
    ike = convoy_socket_create();
    must_understand = getenv("CONVOY_MUST_UNDERSTAND") != NULL;
    return 0;
}

static void greeted(void) {
    uint64_t generation;
    convoy_session_t *session = connect_all(fuzzed, &generation);

    /* A refusal is understood, too. */
    understood += session || last.bytes[8];
    if (session) {
        convoy_session_let_go(session);
    }
}

static void asked(uint8_t what) {
    kernel_ipsec_sa_id_t sa = {.src = here, .dst = there, .proto = IPPROTO_ESP};
    kernel_ipsec_policy_id_t policy = {.src_ts = selector, .dst_ts = selector};
    kernel_ipsec_query_sa_t sa_query = {};
    kernel_ipsec_query_policy_t policy_query = {};
    uint64_t bytes, packets;
    uint32_t spi;
    time_t time;
    status_t status;

    switch (what) {
        case 2:
            status = kernel->get_spi(kernel, here, there, IPPROTO_ESP, &spi);
            break;
        case 3:
            status = kernel->query_sa(kernel, &sa, &sa_query, &bytes, &packets, &time);
            break;
        case 4:
            status = kernel->query_policy(kernel, &policy, &policy_query, &time);
            break;
        default:
            status = kernel->flush_sas(kernel);
            break;
    }
    understood += status == SUCCESS || last.bytes[8];
}

static void received(void) {
    packet_t *packet = NULL;
    convoy_message_t head;
    chunk_t payload;

    if (ike->receive(ike, &packet) != SUCCESS) {
        return;
    }
    convoy_begin(&head, CONVOY_DATAGRAM);
    convoy_put_host(&head, packet->get_source(packet));
    convoy_put_host(&head, packet->get_destination(packet));
    payload = packet->get_data(packet);
    last.len = min(last.len, head.len);
    expect(&head);
    /* Reads all of it. */
    chunk_hash(payload);
    packet->destroy(packet);
}

int LLVMFuzzerTestOneInput(const uint8_t *input, size_t len) {
    convoy_session_t *session;
    uint8_t what = len ? input[0] % 7 : 0;

    if (!len) {
        return 0;
    }
    rest = input + 1;
    rest_len = len - 1;
    understood = 0;
    last.len = 0;
    fuzzed->last_id = 0;
    INIT(session, .users = 1, .fds = {3, 3, 3});
    fuzzed->session = session;
    switch (what) {
        case 0:
            greeted();
            break;
        case 1:
            listen_to(fuzzed, session);
            break;
        case 6:
            received();
            break;
        default:
            asked(what);
            break;
    }
    fuzzed->session = NULL;
    convoy_session_let_go(session);
    if (must_understand && !understood) {
        fprintf(stderr, "a message of the gateway's is not understood\n");
        abort();
    }
    return 0;
}
