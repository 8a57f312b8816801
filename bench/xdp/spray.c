// Sends 64-byte UDP packets to one host in each of several networks in turn (ADDRESS with its third
// byte counted up), 32 packets per call.
// usage: spray ADDRESS NETWORKS BYTES PACKETS_A_SECOND SECONDS    where 0 packets per second means
// as many as possible
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>

enum { BURST = 32, PORT = 9, NETWORKS = 256, LONGEST = 2048 };

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

int main(int count, char **words) {
    struct in_addr first;
    int networks = count == 6 ? atoi(words[2]) : 0, bytes = count == 6 ? atoi(words[3]) : 0;
    if (count != 6 || inet_pton(AF_INET, words[1], &first) != 1 || networks < 1 || networks > NETWORKS || bytes < 1 || bytes > LONGEST)
        return fprintf(stderr, "usage: spray ADDRESS NETWORKS BYTES PACKETS_A_SECOND SECONDS\n"), 2;
    double rate = atof(words[4]), seconds = atof(words[5]);
    static struct sockaddr_in addresses[NETWORKS];
    for (int at = 0; at < networks; at++) {
        addresses[at] = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons(PORT)};
        addresses[at].sin_addr.s_addr = htonl(ntohl(first.s_addr) + ((uint32_t)at << 8));
    }
    static char packet[LONGEST];
    struct iovec part = {packet, bytes};
    struct mmsghdr messages[BURST] = {0};
    int descriptor = socket(AF_INET, SOCK_DGRAM, 0);
    if (descriptor < 0) return perror("socket"), 1;
    long sent = 0;
    for (double begin = now(), at = begin; at < begin + seconds; at = now()) {
        if (rate > 0 && sent > (at - begin) * rate) {
            struct timespec pause = {0, 20000};
            nanosleep(&pause, NULL);
            continue;
        }
        for (int of = 0; of < BURST; of++) {
            messages[of].msg_hdr = (struct msghdr){.msg_iov = &part, .msg_iovlen = 1, .msg_name = &addresses[(sent + of) % networks],
                                                   .msg_namelen = sizeof addresses[0]};
        }
        int done = sendmmsg(descriptor, messages, BURST, 0);
        if (done < 0) return perror("sendmmsg"), 1;
        sent += done;
    }
    printf("%ld\n", sent);
    return 0;
}
