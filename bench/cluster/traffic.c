// Traffic between a host and peers behind the other end of a tunnel, and when none came.
// usage: traffic udp LOCAL REMOTE FLOWS STRIDE PACKETS_A_SECOND
//    or: traffic tcp send LOCAL REMOTE BITS_A_SECOND | traffic tcp receive LOCAL
// Runs until SIGINT or SIGTERM, and then prints JSON; times are of CLOCK_REALTIME in seconds.
// udp: sends numbered packets, of FLOWS in turn, and counts those that the same program sends from
// the other side. Flow I has port 20000 + I at both ends; of LOCAL and REMOTE, the one in 10.2/16
// has I * STRIDE added. Prints for all flows together and for each what was sent and received, how
// many came twice, and each silence of SILENCE_MS or more, as its beginning and its end.
// tcp: one connection on port 7000; its receiver prints its bytes and its silences.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    MOST_FLOWS = 4096,
    MOST_SILENCES = 4096,
    BURST = 64,
    BYTES = 64,
    MOST_PACKETS = 1 << 23,
    SILENCE_MS = 20,
    LINGER_MS = 700,
    UDP_PORT = 20000,
    TCP_PORT = 7000,
    SEGMENT = 1200,
};

// When packets came, and when none did.
struct arrivals {
    double last;
    long silence_count;
    double silences[MOST_SILENCES][2];
};

struct flow {
    int descriptor;
    long sent, received, twice;
    uint8_t *seen; // a bit for each number
    struct arrivals arrivals;
};

static struct flow *flows;
static int flow_count;
static struct arrivals all;
static volatile sig_atomic_t is_over;

static void end(int signal_number) {
    (void)signal_number;
    is_over = 1;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static void pause_s(double seconds) {
    if (seconds <= 0) return;
    struct timespec time = {seconds, (seconds - (long)seconds) * 1e9};
    nanosleep(&time, NULL);
}

static void arrived(struct arrivals *at, double time) {
    if (at->last && time - at->last >= SILENCE_MS / 1e3 && at->silence_count < MOST_SILENCES) {
        at->silences[at->silence_count][0] = at->last;
        at->silences[at->silence_count++][1] = time;
    }
    at->last = time;
}

static void print_arrivals(const struct arrivals *at) {
    printf("\"last\": %.6f, \"silences\": [", at->last);
    for (long i = 0; i < at->silence_count; i++)
        printf("%s[%.6f, %.6f]", i ? ", " : "", at->silences[i][0], at->silences[i][1]);
    printf("]");
}

static struct sockaddr_in address_of(const char *text, int flow, int stride, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    if (inet_pton(AF_INET, text, &address.sin_addr) != 1) {
        fprintf(stderr, "%s is not an IPv4 address\n", text);
        exit(2);
    }
    uint32_t host = ntohl(address.sin_addr.s_addr);
    if (host >> 16 == (10 << 8 | 2)) address.sin_addr.s_addr = htonl(host + flow * stride);
    return address;
}

static int must(int result, const char *what) {
    if (result < 0) {
        perror(what);
        exit(1);
    }
    return result;
}

static void open_flow(struct flow *flow, const char *local, const char *remote, int number, int stride) {
    struct sockaddr_in from = address_of(local, number, stride, UDP_PORT + number);
    struct sockaddr_in to = address_of(remote, number, stride, UDP_PORT + number);
    int size = 1 << 22;
    flow->descriptor = must(socket(AF_INET, SOCK_DGRAM, 0), "socket");
    setsockopt(flow->descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    must(bind(flow->descriptor, (struct sockaddr *)&from, sizeof from), local);
    must(connect(flow->descriptor, (struct sockaddr *)&to, sizeof to), remote);
    flow->seen = calloc(MOST_PACKETS / flow_count / 8 + 1, 1);
}

static void count(struct flow *flow, uint64_t number, double time) {
    if (number >= (uint64_t)(MOST_PACKETS / flow_count)) return;
    uint8_t bit = 1 << (number & 7);
    if (flow->seen[number >> 3] & bit)
        flow->twice++;
    else
        flow->received++;
    flow->seen[number >> 3] |= bit;
    arrived(&flow->arrivals, time);
    arrived(&all, time);
}

static void *receive(void *unused) {
    static uint64_t buffers[BURST][BYTES / 8];
    struct mmsghdr messages[BURST];
    struct iovec vectors[BURST];
    struct epoll_event events[BURST];
    int queue = must(epoll_create1(0), "epoll");
    for (int i = 0; i < flow_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &flows[i]};
        must(epoll_ctl(queue, EPOLL_CTL_ADD, flows[i].descriptor, &event), "epoll");
    }
    for (int i = 0; i < BURST; i++) {
        vectors[i] = (struct iovec){buffers[i], BYTES};
        messages[i] = (struct mmsghdr){.msg_hdr = {.msg_iov = &vectors[i], .msg_iovlen = 1}};
    }
    for (double until = 0; !until || now() < until;) {
        if (is_over && !until) until = now() + LINGER_MS / 1e3;
        int ready = epoll_wait(queue, events, BURST, 50);
        for (int i = 0; i < ready; i++) {
            struct flow *flow = events[i].data.ptr;
            int got = recvmmsg(flow->descriptor, messages, BURST, MSG_DONTWAIT, NULL);
            double time = now();
            for (int m = 0; m < got; m++) count(flow, buffers[m][0], time);
        }
    }
    return unused;
}

static void udp(char **words) {
    flow_count = atoi(words[2]);
    int stride = atoi(words[3]);
    double rate = atof(words[4]);
    if (flow_count < 1 || flow_count > MOST_FLOWS || rate <= 0) exit(2);
    flows = calloc(flow_count, sizeof *flows);
    for (int i = 0; i < flow_count; i++) open_flow(&flows[i], words[0], words[1], i, stride);
    pthread_t receiver;
    must(-pthread_create(&receiver, NULL, receive, NULL), "thread");
    double begin = now();
    long sent = 0;
    while (!is_over) {
        long due = (now() - begin) * rate;
        // A sender that was delayed does not make up for it in one burst.
        if (due > sent + BURST) {
            begin += (due - sent - BURST) / rate;
            due = sent + BURST;
        }
        for (; sent < due; sent++) {
            struct flow *flow = &flows[sent % flow_count];
            uint64_t payload[BYTES / 8] = {flow->sent};
            if (send(flow->descriptor, payload, BYTES, MSG_DONTWAIT) == BYTES) flow->sent++;
        }
        pause_s(0.0005);
    }
    pthread_join(receiver, NULL);
    long received = 0, twice = 0, of_all = 0;
    for (int i = 0; i < flow_count; i++) {
        of_all += flows[i].sent;
        received += flows[i].received;
        twice += flows[i].twice;
    }
    printf("{\"sent\": %ld, \"received\": %ld, \"twice\": %ld, ", of_all, received, twice);
    print_arrivals(&all);
    printf(", \"flows\": [");
    for (int i = 0; i < flow_count; i++) {
        printf("%s{\"sent\": %ld, \"received\": %ld, ", i ? ", " : "", flows[i].sent, flows[i].received);
        print_arrivals(&flows[i].arrivals);
        printf("}");
    }
    printf("]}\n");
}

static void tcp_send(char **words) {
    static char bytes[SEGMENT];
    double rate = atof(words[2]) / 8 / SEGMENT;
    int one = 1, descriptor = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
    struct sockaddr_in from = address_of(words[0], 0, 0, 0), to = address_of(words[1], 0, 0, TCP_PORT);
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    must(bind(descriptor, (struct sockaddr *)&from, sizeof from), words[0]);
    must(connect(descriptor, (struct sockaddr *)&to, sizeof to), words[1]);
    double begin = now();
    for (long sent = 0; !is_over;) {
        // What could not be sent in time is left out.
        if ((now() - begin) * rate > sent + BURST) sent = (now() - begin) * rate;
        for (; !is_over && sent < (long)((now() - begin) * rate); sent++)
            if (send(descriptor, bytes, SEGMENT, MSG_NOSIGNAL) < 0) return;
        pause_s(0.001);
    }
}

static void tcp_receive(char **words) {
    static char bytes[1 << 16];
    int one = 1, listener = must(socket(AF_INET, SOCK_STREAM, 0), "socket");
    struct sockaddr_in at = address_of(words[0], 0, 0, TCP_PORT);
    setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    must(bind(listener, (struct sockaddr *)&at, sizeof at), words[0]);
    must(listen(listener, 1), "listen");
    int descriptor = accept(listener, NULL, NULL);
    long received = 0, got = 1;
    while (descriptor >= 0 && !is_over && got > 0) {
        struct pollfd wait = {descriptor, POLLIN, 0};
        if (poll(&wait, 1, 50) < 1) continue;
        got = recv(descriptor, bytes, sizeof bytes, 0);
        if (got > 0) {
            received += got;
            arrived(&all, now());
        }
    }
    printf("{\"bytes\": %ld, ", received);
    print_arrivals(&all);
    printf("}\n");
}

int main(int count, char **words) {
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    if (count == 7 && !strcmp(words[1], "udp"))
        udp(words + 2);
    else if (count == 6 && !strcmp(words[1], "tcp") && !strcmp(words[2], "send"))
        tcp_send(words + 3);
    else if (count == 4 && !strcmp(words[1], "tcp") && !strcmp(words[2], "receive"))
        tcp_receive(words + 3);
    else
        return fprintf(stderr, "see the head of traffic.c for the usage\n"), 2;
    return 0;
}
