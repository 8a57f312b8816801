// What the kernel takes to send one message by a UDP socket: CPU time, the least of some turns.
// usage: message ADDRESS PORT CONNECTED UNCHECKED SEGMENTS BYTES MESSAGES
// CONNECTED, UNCHECKED: 1 for a connected socket, and for no checksum (SO_NO_CHECK); BYTES of each
// segment (UDP_SEGMENT).
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

enum { TURNS = 15, LONGEST = 65507 };

static double cpu_ns(void) {
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return time.tv_sec * 1e9 + time.tv_nsec;
}

int main(int count, char **words) {
    if (count != 8) return fprintf(stderr, "usage: message ADDRESS PORT CONNECTED UNCHECKED SEGMENTS BYTES MESSAGES\n"), 2;
    int connected = atoi(words[3]), unchecked = atoi(words[4]), segments = atoi(words[5]), bytes = atoi(words[6]);
    long messages = atol(words[7]);
    static char payload[LONGEST];
    char control[CMSG_SPACE(sizeof(unsigned short))] = {0};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(words[2]))};
    struct iovec part = {payload, (size_t)segments * bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    int descriptor = socket(AF_INET, SOCK_DGRAM, 0);
    if (part.iov_len > LONGEST || messages < 1 || inet_pton(AF_INET, words[1], &to.sin_addr) != 1 || descriptor < 0 ||
        (unchecked && setsockopt(descriptor, SOL_SOCKET, SO_NO_CHECK, &unchecked, sizeof unchecked)) ||
        (connected && connect(descriptor, (struct sockaddr *)&to, sizeof to)))
        return perror("cannot send so"), 1;
    if (!connected) {
        message.msg_name = &to;
        message.msg_namelen = sizeof to;
    }
    if (segments > 1) {
        message.msg_control = control;
        message.msg_controllen = sizeof control;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        *header = (struct cmsghdr){.cmsg_level = SOL_UDP, .cmsg_type = UDP_SEGMENT, .cmsg_len = CMSG_LEN(sizeof(unsigned short))};
        *(unsigned short *)CMSG_DATA(header) = bytes;
    }
    printf("%s, %s, %d x %d bytes: ", connected ? "connected" : "not connected", unchecked ? "no checksum" : "checksum", segments, bytes);
    double least = 1e18;
    for (int turn = 0; turn < TURNS; turn++) {
        double before = cpu_ns();
        for (long at = 0; at < messages; at++)
            if (sendmsg(descriptor, &message, 0) < 0) return printf("%s\n", strerror(errno)), 0;
        double spent = (cpu_ns() - before) / messages;
        if (spent < least) least = spent;
    }
    printf("%.0f ns a message, %.0f ns a packet\n", least, least / segments);
    return 0;
}
