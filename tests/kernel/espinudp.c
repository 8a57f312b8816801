// Opens UDP port 4500 over IPv4 and IPv6 and has the kernel decapsulate ESP in UDP (RFC 3948), as a
// key daemon does. No IPsec policy applies to these sockets: in transport mode the kernel would
// otherwise require the UDP datagrams around ESP to be protected themselves.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <linux/udp.h>
#include <linux/xfrm.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static int open_port(int family, struct sockaddr *address, socklen_t len) {
  int one = 1, type = UDP_ENCAP_ESPINUDP, fd = socket(family, SOCK_DGRAM, 0);
  int level = family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
  int option = family == AF_INET6 ? IPV6_XFRM_POLICY : IP_XFRM_POLICY;
  struct xfrm_userpolicy_info pass = {.sel.family = family, .dir = XFRM_POLICY_IN, .action = XFRM_POLICY_ALLOW};
  if (fd < 0) return -1;
  if (family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &one, sizeof one)) return -1;
  if (bind(fd, address, len)) return -1;
  if (setsockopt(fd, level, option, &pass, sizeof pass)) return -1;
  return setsockopt(fd, IPPROTO_UDP, UDP_ENCAP, &type, sizeof type);
}

int main(void) {
  struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = htons(4500)};
  struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = htons(4500)};
  if (open_port(AF_INET, (struct sockaddr *)&v4, sizeof v4)) perror("UDP_ENCAP over IPv4");
  if (open_port(AF_INET6, (struct sockaddr *)&v6, sizeof v6)) perror("UDP_ENCAP over IPv6");
  for (;;) pause();
}
