// Sends UDP packets in bursts from one network namespace to another, waits for all of a burst
// before the next, and prints how long that kept the only processor busy. In a guest of qemu whose
// virtual time is instructions (-icount shift=0), a nanosecond is an instruction. usage: rounds
// loop INSTRUCTIONS: a loop of so many, to check the yardstick or: rounds FROM TO ADDRESS PORT
// BYTES BURST BURSTS: namespaces, the receiver's address and port, bytes of an IPv4 packet Prints
// nanoseconds in all, and those for which nothing but this program's own idler ran.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { HEADERS = 28, LONGEST = 1500, MOST = 256, WARM_UP = 50, PATIENCE_S = 5 };

static void die(const char *what) {
    perror(what);
    exit(1);
}

static long long now(clockid_t clock) {
    struct timespec time;
    if (clock_gettime(clock, &time) < 0) die("clock_gettime");
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

// A process that runs when nothing else does: its time is what the processor would have slept.
static pid_t start_idler(void) {
    pid_t idler = fork();
    if (idler < 0) die("fork");
    if (idler > 0) return idler;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct sched_param none = {0};
    if (sched_setscheduler(0, SCHED_IDLE, &none) < 0) die("SCHED_IDLE");
    for (volatile long turns = 0;; turns++) continue;
}

static int socket_in(const char *name) {
    char path[128];
    snprintf(path, sizeof path, "/var/run/netns/%s", name);
    int space = open(path, O_RDONLY | O_CLOEXEC);
    if (space < 0 || setns(space, CLONE_NEWNET) < 0) die(path);
    int made = socket(AF_INET, SOCK_DGRAM, 0), room = 8 << 20;
    if (made < 0) die("socket");
    setsockopt(made, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof room);
    struct timeval patience = {.tv_sec = PATIENCE_S};
    setsockopt(made, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    return made;
}

static void burst(int sender, int receiver, struct mmsghdr *packets, int count) {
    static char heard[LONGEST];
    for (int sent = 0; sent < count;) {
        int done = sendmmsg(sender, packets + sent, count - sent, 0);
        if (done <= 0) die("sendmmsg");
        sent += done;
    }
    for (int came = 0; came < count; came++)
        if (recv(receiver, heard, sizeof heard, 0) < 0) {
            fprintf(stderr, "%d of %d packets of a burst came within %d s\n", came, count, PATIENCE_S);
            exit(1);
        }
}

static int loop(long instructions) {
    long turns = instructions / 2;
    long long begin = now(CLOCK_MONOTONIC);
    __asm__ volatile("1: dec %0\n\tjnz 1b" : "+r"(turns) : : "cc");
    printf("%lld 0\n", now(CLOCK_MONOTONIC) - begin);
    return 0;
}

int main(int count, char **words) {
    if (count == 3 && strcmp(words[1], "loop") == 0) return loop(atol(words[2]));
    if (count != 8) {
        fprintf(stderr, "usage: rounds loop INSTRUCTIONS | rounds FROM TO ADDRESS PORT BYTES BURST BURSTS\n");
        return 2;
    }
    int bytes = atoi(words[5]), together = atoi(words[6]), bursts = atoi(words[7]);
    if (bytes < HEADERS || bytes > LONGEST || together < 1 || together > MOST) {
        fprintf(stderr, "packets of %d to %d bytes, 1 to %d in a burst\n", HEADERS, LONGEST, MOST);
        return 2;
    }
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(words[4]))};
    if (inet_pton(AF_INET, words[3], &to.sin_addr) != 1) die(words[3]);
    int receiver = socket_in(words[2]), sender = socket_in(words[1]);
    if (bind(receiver, (struct sockaddr *)&to, sizeof to) < 0) die("bind");
    if (connect(sender, (struct sockaddr *)&to, sizeof to) < 0) die("connect");

    static char payload[LONGEST];
    struct iovec piece = {payload, bytes - HEADERS};
    struct mmsghdr packets[MOST] = {0};
    for (int index = 0; index < together; index++) {
        packets[index].msg_hdr.msg_iov = &piece;
        packets[index].msg_hdr.msg_iovlen = 1;
    }
    pid_t idler = start_idler();
    clockid_t idle;
    if (clock_getcpuclockid(idler, &idle) != 0) die("clock_getcpuclockid");
    for (int round = 0; round < WARM_UP; round++) burst(sender, receiver, packets, together);
    long long begin = now(CLOCK_MONOTONIC), idle_begin = now(idle);
    for (int round = 0; round < bursts; round++) burst(sender, receiver, packets, together);
    long long idle_end = now(idle), end = now(CLOCK_MONOTONIC);
    kill(idler, SIGKILL);
    waitpid(idler, NULL, 0);
    printf("%lld %lld\n", end - begin, idle_end - idle_begin);
    return 0;
}
