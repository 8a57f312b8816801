// Returns what comes by UDP and TCP to a port, over IPv4 and IPv6, until it is killed.
// usage: reflect PORT
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <unistd.h>

static char buffer[65536];

static int open_port(int type, uint16_t port) {
  struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
  int fd = socket(AF_INET6, type, 0), zero = 0, one = 1;
  if (fd < 0 || setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero) ||
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) ||
      bind(fd, (struct sockaddr *)&any, sizeof any) || (type == SOCK_STREAM && listen(fd, 64))) {
    perror("reflect");
    exit(1);
  }
  return fd;
}

// The control message goes back with the datagram, so that the answer comes from the address that
// the datagram was sent to.
static void datagrams(int fd) {
  int one = 1;
  setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &one, sizeof one);
  setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &one, sizeof one);
  for (;;) {
    struct sockaddr_in6 from;
    char control[256];
    struct iovec bytes = {buffer, sizeof buffer};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = &bytes, .msg_iovlen = 1,
                             .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(fd, &message, 0);
    if (got < 0) continue;
    bytes.iov_len = got;
    message.msg_flags = 0;
    if (sendmsg(fd, &message, 0) < 0) perror("reflect");
  }
}

static void stream(int fd) {
  ssize_t got;
  while ((got = read(fd, buffer, sizeof buffer)) > 0)
    for (ssize_t at = 0, put; at < got; at += put)
      if ((put = write(fd, buffer + at, got - at)) <= 0) return;
}

int main(int count, char **words) {
  if (count != 2) return fprintf(stderr, "usage: reflect PORT\n"), 2;
  int udp = open_port(SOCK_DGRAM, atoi(words[1])), tcp = open_port(SOCK_STREAM, atoi(words[1]));
  signal(SIGCHLD, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  if (!fork()) datagrams(udp);
  for (;;) {
    int fd = accept(tcp, 0, 0);
    if (fd < 0) continue;
    if (!fork()) return stream(fd), 0;
    close(fd);
  }
}
