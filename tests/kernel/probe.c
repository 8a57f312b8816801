// Runs every case of a list from the guest's side in one process, because starting processes is
// slow there. A line of the list: case, source, destination, comma-separated bytes of each ping,
// with FIRST-LAST for all sizes between. A line of the output: RESULT case what.
// usage: probe LIST FILE    where FILE is the expected content of the TCP transfer
#include <arpa/inet.h>
#include <errno.h>
#include <linux/icmp.h>
#include <netinet/icmp6.h>
#include <netinet/ip.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { MOST = 1 << 20, WAIT_SECONDS = 5 };
static unsigned char expected[MOST], buffer[MOST];
static size_t expected_len;

static uint16_t checksum(const unsigned char *bytes, size_t len) {
  uint32_t sum = 0;
  for (size_t i = 0; i < len; i++) sum += i % 2 ? bytes[i] : bytes[i] << 8;
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  return htons(~sum & 0xffff);
}

static socklen_t address(struct sockaddr_storage *storage, const char *text, uint16_t port) {
  struct sockaddr_in *v4 = (struct sockaddr_in *)storage;
  struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)storage;
  memset(storage, 0, sizeof *storage);
  if (inet_pton(AF_INET6, text, &v6->sin6_addr) == 1) {
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return sizeof *v6;
  }
  v4->sin_family = AF_INET;
  v4->sin_port = htons(port);
  inet_pton(AF_INET, text, &v4->sin_addr);
  return sizeof *v4;
}

// A socket from one address to another; -1 on failure.
static int open_pair(int type, int protocol, const char *from, const char *to, uint16_t port) {
  struct sockaddr_storage source, destination;
  struct timeval wait = {.tv_sec = WAIT_SECONDS};
  socklen_t len = address(&source, from, 0);
  address(&destination, to, port);
  int fd = socket(source.ss_family, type, protocol);
  if (fd < 0) return -1;
  if (setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait) ||
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait) || bind(fd, (struct sockaddr *)&source, len) ||
      connect(fd, (struct sockaddr *)&destination, len)) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

// Has the kernel filter everything but replies from a raw socket. Otherwise the other side's
// requests would fill its buffer, and the reply would find no room. Requests that arrived earlier
// are drained.
static int only_answers(int fd, int is_v6) {
  struct icmp6_filter v6;
  uint32_t all_but_answers = ~(UINT32_C(1) << ICMP_ECHOREPLY);
  ICMP6_FILTER_SETBLOCKALL(&v6);
  ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &v6);
  int is_bad = is_v6 ? setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &v6, sizeof v6)
                     : setsockopt(fd, SOL_RAW, ICMP_FILTER, &all_but_answers, sizeof all_but_answers);
  while (!is_bad && recv(fd, buffer, sizeof buffer, MSG_DONTWAIT) >= 0) {
  }
  return is_bad;
}

// Sends an echo request and compares the reply byte for byte; 0 if it arrived.
static int ping(const char *from, const char *to, size_t size) {
  static uint16_t sequence;
  int is_v6 = strchr(to, ':') != 0;
  int fd = open_pair(SOCK_RAW, is_v6 ? IPPROTO_ICMPV6 : IPPROTO_ICMP, from, to, 0);
  unsigned char request[8 + size];
  if (fd < 0) return -1;
  if (only_answers(fd, is_v6)) return close(fd), -1;
  for (size_t i = 0; i < size; i++) request[8 + i] = expected[(sequence * 97 + i) % expected_len];
  memset(request, 0, 8);
  request[0] = is_v6 ? ICMP6_ECHO_REQUEST : ICMP_ECHO;
  memcpy(request + 4, "cv", 2);
  sequence++;
  memcpy(request + 6, &sequence, 2);
  uint16_t sum = checksum(request, sizeof request);
  if (!is_v6) memcpy(request + 2, &sum, 2);
  ssize_t got = send(fd, request, sizeof request, 0);
  while (got >= 0 && (got = recv(fd, buffer, sizeof buffer, 0)) >= 0) {
    size_t header = is_v6 ? 0 : (buffer[0] & 15) * 4;
    unsigned char *answer = buffer + header;
    if ((size_t)got != header + sizeof request) continue;
    if (answer[0] != (is_v6 ? ICMP6_ECHO_REPLY : ICMP_ECHOREPLY)) continue;
    if (!memcmp(answer + 4, request + 4, sizeof request - 4)) break;
  }
  int error = errno;
  close(fd);
  errno = error;
  return got < 0 ? -1 : 0;
}

static const char *transfer(const char *from, const char *to) {
  int fd = open_pair(SOCK_STREAM, 0, from, to, 9000);
  size_t len = 0;
  ssize_t got = fd;
  while (got >= 0 && len < sizeof buffer && (got = recv(fd, buffer + len, sizeof buffer - len, 0)) > 0) len += got;
  if (got < 0) return strerror(errno);
  close(fd);
  return len == expected_len && !memcmp(buffer, expected, len) ? "good" : "the file differs";
}

// Sends a ping of each size in `sizes`; returns -1 if all were answered, else the first size that
// was not.
static long pings(const char *from, const char *to, char *sizes) {
  for (char *part = strtok(sizes, ","); part; part = strtok(0, ",")) {
    char *end;
    size_t size = strtoul(part, &end, 10), last = *end == '-' ? strtoul(end + 1, 0, 10) : size;
    for (; size <= last; size++)
      if (ping(from, to, size)) return size;
  }
  return -1;
}

int main(int count, char **words) {
  char number[16], from[64], to[64], sizes[128];
  FILE *list = count == 3 ? fopen(words[1], "r") : 0, *file = list ? fopen(words[2], "r") : 0;
  if (!file || !(expected_len = fread(expected, 1, sizeof expected, file))) return perror("probe"), 1;
  while (fscanf(list, "%15s %63s %63s %127s", number, from, to, sizes) == 4) {
    long size = pings(from, to, sizes);
    if (size >= 0) printf("RESULT %s no answer to a ping of %ld bytes: %s\n", number, size, strerror(errno));
    else printf("RESULT %s %s\n", number, transfer(from, to));
    fflush(stdout);
  }
}
