// Sends numbered UDP packets at a rate, and counts those that arrive from the other side, which
// runs the same program.
// usage: flood OWN_ADDRESS PEER_ADDRESS PACKETS_A_SECOND SECONDS
// Prints: sent, received, duplicates, out of order, the longest silence in milliseconds, and the
// number of sends that the system refused.
#define _GNU_SOURCE
#include <errno.h>
#include <netdb.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#define PORT "7777"
enum { BYTES = 64, BURST = 64, LINGER_MS = 4000 };

static int sock;
static double begin, send_until;
static uint8_t *seen;
static uint64_t most, received, duplicates, reordered;
static double longest;

static double now(void)
{
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec / 1e9;
}

static void count(uint64_t number)
{
  static uint64_t next;
  if (number >= most)
    return;
  if (seen[number]++)
    duplicates++;
  else
    received++;
  if (number < next)
    reordered++;
  else
    next = number + 1;
}

static void *receive(void *unused)
{
  static uint64_t buffers[BURST][BYTES / 8];
  struct mmsghdr messages[BURST];
  struct iovec vectors[BURST];
  double last = begin;
  for (int i = 0; i < BURST; i++) {
    vectors[i] = (struct iovec){ buffers[i], BYTES };
    messages[i] = (struct mmsghdr){ .msg_hdr = { .msg_iov = &vectors[i], .msg_iovlen = 1 } };
  }
  while (now() < send_until + LINGER_MS / 1e3) {
    int got = recvmmsg(sock, messages, BURST, MSG_WAITFORONE, NULL);
    double time = now();
    for (int i = 0; i < got; i++)
      count(buffers[i][0]);
    // The silence after the end does not count.
    if (got > 0 || time < send_until) {
      if (time - last > longest && last < send_until)
        longest = time - last;
      if (got > 0)
        last = time;
    }
  }
  return unused;
}

static struct addrinfo *of(const char *address)
{
  struct addrinfo *found, hints = { .ai_socktype = SOCK_DGRAM, .ai_flags = AI_NUMERICHOST | AI_NUMERICSERV };
  if (getaddrinfo(address, PORT, &hints, &found)) {
    fprintf(stderr, "no address: %s\n", address);
    exit(2);
  }
  return found;
}

int main(int argc, char **argv)
{
  if (argc != 5)
    return 2;
  double rate = atof(argv[3]), seconds = atof(argv[4]);
  struct addrinfo *own = of(argv[1]), *peer = of(argv[2]);
  sock = socket(own->ai_family, SOCK_DGRAM, 0);
  int bytes = 1 << 26;
  setsockopt(sock, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
  struct timeval timeout = { .tv_usec = 1000 };
  setsockopt(sock, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
  if (bind(sock, own->ai_addr, own->ai_addrlen)) {
    perror(argv[1]);
    return 1;
  }
  // The other side sends the same number, except for what it began earlier.
  most = (uint64_t)(rate * seconds) + 1;
  seen = calloc(most, 1);

  // Both sides must listen before either one sends.
  struct timespec step = { .tv_sec = 2 };
  begin = now() + 2;
  send_until = begin + seconds;
  pthread_t receiver;
  pthread_create(&receiver, NULL, receive, NULL);
  nanosleep(&step, NULL);
  step = (struct timespec){ .tv_nsec = 500000 };
  uint64_t number = 0, refused = 0, skipped = 0;
  for (double time; (time = now()) < send_until; nanosleep(&step, NULL)) {
    uint64_t due = (uint64_t)((time - begin) * rate);
    // A sender that was delayed does not make up for it in one burst.
    if (due - skipped > number + BURST)
      skipped = due - number - BURST;
    while (number < due - skipped) {
      uint64_t payload[BYTES / 8] = { number };
      if (sendto(sock, payload, BYTES, 0, peer->ai_addr, peer->ai_addrlen) == BYTES) {
        number++;
      } else {
        refused++;
        skipped++;
      }
    }
  }
  pthread_join(receiver, NULL);
  printf("%lu %lu %lu %lu %.0f %lu\n", number, received, duplicates, reordered, longest * 1e3, refused);
  return 0;
}
