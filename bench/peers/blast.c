// Sends or receives small datagrams at a rate, and counts them.
// usage: blast send ADDRESS PORT BYTES[,BYTES...] PACKETS_A_SECOND SECONDS [FLOWS NETWORKS]
//    or: blast receive PORT SECONDS
// The packets are of FLOWS (1) in turn, each from a port of its own, to the same host of NETWORKS
// (1) /24 networks from ADDRESS on. Each packet is a separate system call, as in applications.
// Prints the number of packets.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { MESSAGES = 64, LONGEST = 2048, SIZES = 64, MOST_FLOWS = 1024 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

static int open_socket(void) {
    int size = 8 << 20, descriptor = socket(AF_INET, SOCK_DGRAM, 0);
    if (descriptor < 0) {
        perror("socket");
        exit(1);
    }
    setsockopt(descriptor, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    return descriptor;
}

static int flow_to(struct in_addr host, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr = host};
    int descriptor = open_socket();
    if (connect(descriptor, (struct sockaddr *)&address, sizeof address) < 0) {
        perror(inet_ntoa(host));
        exit(1);
    }
    return descriptor;
}

// The sizes are sent in turn, in bytes.
static long send_packets(int *flows, int flow_count, char *sizes, double rate, double seconds) {
    static char packet[LONGEST];
    int bytes[SIZES], count = 0;
    for (char *word = strtok(sizes, ","); word; word = strtok(NULL, ",")) {
        if (count == SIZES || atoi(word) < 1 || atoi(word) > LONGEST) {
            fprintf(stderr, "%s: up to %d sizes of 1 to %d bytes\n", word, SIZES, LONGEST);
            exit(1);
        }
        bytes[count++] = atoi(word);
    }
    if (count == 0) exit(1);
    long sent = 0, due = 0;
    double begin = now(), at = begin;
    while ((at = now()) < begin + seconds) {
        due = (at - begin) * rate;
        // Packets that the sender could not send in time are skipped, not sent in one burst later.
        if (due > sent + MESSAGES) {
            begin += (due - sent - MESSAGES) / rate;
            seconds -= (due - sent - MESSAGES) / rate;
            due = sent + MESSAGES;
        }
        if (due == sent) {
            // Sleeps in longer gaps, which leaves the core to others.
            double gap = begin + (sent + 1) / rate - at;
            struct timespec pause = {0, gap * 1e9};
            if (gap > 0) nanosleep(&pause, NULL);
        }
        for (; sent < due; sent++) send(flows[sent % flow_count], packet, bytes[sent % count], 0);
    }
    return sent;
}

static long receive_packets(int port, double seconds) {
    static char packets[MESSAGES][LONGEST];
    struct mmsghdr messages[MESSAGES] = {0};
    struct iovec parts[MESSAGES];
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int descriptor = open_socket();
    if (bind(descriptor, (struct sockaddr *)&address, sizeof address) < 0) {
        perror("bind");
        exit(1);
    }
    for (int at = 0; at < MESSAGES; at++) {
        parts[at] = (struct iovec){packets[at], LONGEST};
        messages[at].msg_hdr.msg_iov = &parts[at];
        messages[at].msg_hdr.msg_iovlen = 1;
    }
    printf("ready\n");
    fflush(stdout);
    long received = 0;
    for (double end = now() + seconds; now() < end;) {
        struct pollfd wait = {descriptor, POLLIN, 0};
        if (poll(&wait, 1, 100) < 1) continue;
        int count = recvmmsg(descriptor, messages, MESSAGES, MSG_DONTWAIT, NULL);
        if (count > 0) received += count;
    }
    return received;
}

int main(int count, char **words) {
    if ((count == 7 || count == 9) && strcmp(words[1], "send") == 0) {
        static int flows[MOST_FLOWS];
        int flow_count = count == 9 ? atoi(words[7]) : 1, networks = count == 9 ? atoi(words[8]) : 1;
        struct in_addr first, host;
        if (inet_pton(AF_INET, words[2], &first) != 1 || flow_count < 1 || flow_count > MOST_FLOWS || networks < 1) {
            fprintf(stderr, "an IPv4 address, 1 to %d flows, and networks are expected\n", MOST_FLOWS);
            return 2;
        }
        for (int at = 0; at < flow_count; at++) {
            host.s_addr = htonl(ntohl(first.s_addr) + (at % networks << 8));
            flows[at] = flow_to(host, atoi(words[3]));
        }
        printf("%ld\n", send_packets(flows, flow_count, words[4], atof(words[5]), atof(words[6])));
    } else if (count == 4 && strcmp(words[1], "receive") == 0)
        printf("%ld\n", receive_packets(atoi(words[2]), atof(words[3])));
    else
        return fprintf(stderr, "usage: blast send ADDRESS PORT BYTES[,BYTES...] PACKETS_A_SECOND SECONDS [FLOWS NETWORKS] | blast receive PORT SECONDS\n"), 2;
    return 0;
}
