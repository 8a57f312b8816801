// Sends echo requests one right after the other, so that IP-TFS has something to aggregate, and
// counts the answers, each compared byte for byte. Exits with 0 if all came, each once and none
// changed.
// usage: burst FROM TO COUNT SIZES [WAIT_MS [GAP_US]]
// SIZES: bytes of payload, FIRST-LAST or with commas between, taken in turn; WAIT_MS: how long to
// wait after the last answer (2000); GAP_US: between requests (0).
#include <arpa/inet.h>
#include <errno.h>
#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MOST = 65536, MOST_COUNT = 65536, BUFFER = 16 << 20 };
static unsigned char packet[MOST], answer[MOST], came[MOST_COUNT];
static uint32_t sizes[MOST], size_count;
static unsigned answered, again, late, changed;

static void fail(const char *what) {
  perror(what);
  exit(2);
}

static uint16_t checksum(const unsigned char *bytes, size_t len) {
  uint32_t sum = 0;
  for (size_t i = 0; i < len; i++) sum += i % 2 ? bytes[i] : bytes[i] << 8;
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return htons(~sum & 0xffff);
}

static void parse_sizes(char *text) {
  for (char *part = strtok(text, ","); part; part = strtok(0, ",")) {
    char *end;
    uint32_t first = strtoul(part, &end, 10), last = *end == '-' ? strtoul(end + 1, 0, 10) : first;
    for (; first <= last && size_count < MOST; first++) sizes[size_count++] = first;
  }
}

static socklen_t address(struct sockaddr_storage *storage, const char *text) {
  struct sockaddr_in *v4 = (struct sockaddr_in *)storage;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)storage;
  memset(storage, 0, sizeof *storage);
  if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    return sizeof *v6;
  }
  v4->sin_family = AF_INET;
  if (inet_pton(AF_INET, text, &v4->sin_addr) != 1) fail(text);
  return sizeof *v4;
}

static size_t fill(uint16_t sequence, uint16_t id, int is_v6) {
  size_t size = sizes[sequence % size_count];
  for (size_t i = 0; i < size; i++) packet[8 + i] = sequence * 31 + i * 7 + (i >> 8);
  memset(packet, 0, 8);
  packet[0] = is_v6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
  memcpy(packet + 4, &id, 2);
  packet[6] = sequence >> 8;
  packet[7] = sequence;
  uint16_t sum = is_v6 ? 0 : checksum(packet, 8 + size);
  memcpy(packet + 2, &sum, 2);
  return 8 + size;
}

// Takes what has come; -1 if nothing has in `wait` milliseconds.
static int take(int fd, int wait, uint16_t id, int is_v6) {
  static int highest = -1;
  struct pollfd ready = {.fd = fd, .events = POLLIN};
  if (poll(&ready, 1, wait) <= 0) return -1;
  ssize_t got;
  while ((got = recv(fd, answer, sizeof answer, MSG_DONTWAIT)) >= 8) {
    size_t header = is_v6 ? 0 : (answer[0] & 15) * 4;
    unsigned char *echo = answer + header;
    if (echo[0] != (is_v6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY) || memcmp(echo + 4, &id, 2)) continue;
    uint16_t sequence = echo[6] << 8 | echo[7];
    size_t len = fill(sequence, id, is_v6);
    if (got - header != len || memcmp(echo + 4, packet + 4, len - 4)) changed++;
    else if (came[sequence]) again++;
    else {
      came[sequence] = 1;
      answered++;
      if (sequence < highest) late++;
      else highest = sequence;
    }
  }
  return 0;
}

int main(int count, char **words) {
  struct sockaddr_storage from, to;
  if (count < 5) return fprintf(stderr, "usage: burst FROM TO COUNT SIZES [WAIT_MS [GAP_US]]\n"), 2;
  unsigned requests = strtoul(words[3], 0, 10);
  parse_sizes(words[4]);
  int wait = count > 5 ? atoi(words[5]) : 2000, gap = count > 6 ? atoi(words[6]) : 0, size = BUFFER;
  if (!size_count || requests > MOST_COUNT || sizes[size_count - 1] > MOST - 8) return errno = EINVAL, fail("burst"), 2;
  socklen_t len = address(&from, words[1]);
  address(&to, words[2]);
  int is_v6 = to.ss_family == AF_INET6;
  int fd = socket(to.ss_family, SOCK_RAW, is_v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP);
  if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size) ||
      setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof size))
    fail("socket");
  if (bind(fd, (struct sockaddr *)&from, len) || connect(fd, (struct sockaddr *)&to, len)) fail("address");
  // Answers alone: requests of the other side would fill the buffer.
  struct icmp6_filter v6;
  ICMP6_FILTER_SETBLOCKALL(&v6);
  ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &v6);
  uint32_t v4 = ~(UINT32_C(1) << ICMP_ECHOREPLY);
  if (is_v6 ? setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &v6, sizeof v6) : setsockopt(fd, SOL_RAW, ICMP_FILTER, &v4, sizeof v4))
    fail("filter");

  uint16_t id = getpid();
  for (unsigned i = 0; i < requests; i++) {
    // A first packet to a neighbour or an SA may meet a queue that is full: it is sent again.
    size_t request_len = fill(i, id, is_v6);
    while (send(fd, packet, request_len, 0) < 0) {
      if (errno != ENOBUFS && errno != EAGAIN) fail("send");
      usleep(1000);
    }
    if (gap) usleep(gap);
  }
  while (answered < requests && !take(fd, wait, id, is_v6)) {
  }
  printf("sent %u answered %u again %u late %u changed %u\n", requests, answered, again, late, changed);
  return answered != requests || again || changed;
}
