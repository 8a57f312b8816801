// Adds an ESP SA and its policies by netlink, as iproute2 cannot say the mode IP-TFS and its
// options.
// usage: sa SOURCE DESTINATION SPI in|out alg NAME key HEX [WORD VALUE ...]
//   alg aes-gcm | aes-cbc-sha1 | aes-cbc-sha256 | chacha20-poly1305; the key is the cipher's, with
//                its salt, and then the integrity algorithm's
//   mode iptfs (default) | tunnel
//   reqid N      (default: the SPI)
//   if-id N      of an xfrm interface
//   esn          64 bit sequence numbers; stands alone
//   window N     replay window of an inbound SA in packets, of 64 by default
//   encap SOURCE_PORT DESTINATION_PORT    in UDP
//   sel SOURCE/BITS DESTINATION/BITS      a policy for this inner traffic, of an inbound SA also
//                for what is forwarded; as often as is needed, for IPv4 and for IPv6
// IP-TFS, inbound:  drop-time MICROSECONDS, reorder PACKETS
// IP-TFS, outbound: init-delay MICROSECONDS, queue BYTES, size BYTES, dont-frag (stands alone)
#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/xfrm.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

// Of <linux/xfrm.h> since Linux 6.14; older ones do not have them.
enum {
  MODE_IPTFS = 5,
  ATTR_SA_DIR = 33,
  ATTR_DROP_TIME = 36,
  ATTR_REORDER_WINDOW = 37,
  ATTR_DONT_FRAG = 38,
  ATTR_INIT_DELAY = 39,
  ATTR_MAX_QSIZE = 40,
  ATTR_PKT_SIZE = 41,
  DIR_IN = 1,
  DIR_OUT = 2,
};
// <linux/netlink.h>
enum { EXT_ACK = 11, SOL_NL = 270, ATTR_ERROR_TEXT = 1 };
enum { MOST_SELECTORS = 8, MOST_KEY_BYTES = 128, ESP = 50, ESPINUDP = 2 };

struct end {
  int family, bits;
  xfrm_address_t address;
};

struct request {
  struct nlmsghdr header;
  char body[4096];
};

static int netlink;

static void fail(const char *what, const char *word) {
  fprintf(stderr, "sa: %s: %s\n", what, word);
  exit(1);
}

static uint32_t number(const char *text) {
  char *end;
  errno = 0;
  unsigned long value = strtoul(text, &end, 0);
  if (*end || end == text || errno || value > UINT32_MAX) fail("not a number", text);
  return value;
}

// ADDRESS or ADDRESS/BITS.
static struct end parse_end(const char *text) {
  struct end end = {.family = strchr(text, ':') ? AF_INET6 : AF_INET};
  char address[INET6_ADDRSTRLEN] = "";
  const char *slash = strchr(text, '/');
  size_t len = slash ? (size_t)(slash - text) : strlen(text);
  if (len >= sizeof address) fail("not an address", text);
  memcpy(address, text, len);
  end.bits = slash ? (int)number(slash + 1) : end.family == AF_INET ? 32 : 128;
  if (inet_pton(end.family, address, &end.address) != 1) fail("not an address", text);
  return end;
}

static void put(struct request *request, int type, const void *bytes, size_t len) {
  struct nlattr *attribute = (struct nlattr *)((char *)request + NLMSG_ALIGN(request->header.nlmsg_len));
  attribute->nla_type = type;
  attribute->nla_len = NLA_HDRLEN + len;
  if (len) memcpy((char *)attribute + NLA_HDRLEN, bytes, len);
  request->header.nlmsg_len = NLMSG_ALIGN(request->header.nlmsg_len) + NLA_ALIGN(attribute->nla_len);
}

static void put_u32(struct request *request, int type, uint32_t value) { put(request, type, &value, sizeof value); }

// What the kernel says of a refusal beside the error's number.
static const char *reason(const struct nlmsghdr *answer) {
  const struct nlmsgerr *error = NLMSG_DATA(answer);
  // The request is left out of the answer (NETLINK_CAP_ACK).
  const char *at = (const char *)(error + 1), *end = (const char *)answer + answer->nlmsg_len;
  while (at + NLA_HDRLEN < end) {
    const struct nlattr *attribute = (const struct nlattr *)at;
    if (attribute->nla_len < NLA_HDRLEN) break;
    if ((attribute->nla_type & NLA_TYPE_MASK) == ATTR_ERROR_TEXT) return at + NLA_HDRLEN;
    at += NLA_ALIGN(attribute->nla_len);
  }
  return strerror(-error->error);
}

static void ask(struct request *request, const char *what) {
  struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
  union {
    struct nlmsghdr header;
    char bytes[8192];
  } answer;
  request->header.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
  if (sendto(netlink, request, request->header.nlmsg_len, 0, (struct sockaddr *)&kernel, sizeof kernel) < 0 ||
      recv(netlink, &answer, sizeof answer, 0) < 0)
    fail(what, strerror(errno));
  if (((struct nlmsgerr *)NLMSG_DATA(&answer.header))->error) fail(what, reason(&answer.header));
}

static size_t parse_key(const char *text, unsigned char *key) {
  size_t len = strlen(text) / 2;
  if (strlen(text) % 2 || len > MOST_KEY_BYTES) fail("not a key", text);
  for (size_t i = 0; i < len; i++)
    if (sscanf(text + 2 * i, "%2hhx", key + i) != 1) fail("not a key", text);
  return len;
}

static void put_aead(struct request *request, const char *name, const unsigned char *key, size_t len) {
  struct {
    struct xfrm_algo_aead head;
    unsigned char key[MOST_KEY_BYTES];
  } aead = {.head = {.alg_key_len = 8 * len, .alg_icv_len = 128}};
  strcpy(aead.head.alg_name, name);
  memcpy(aead.head.alg_key, key, len);
  put(request, XFRMA_ALG_AEAD, &aead, sizeof aead.head + len);
}

static void put_pair(struct request *request, const char *integrity, size_t integrity_len, int icv_bits,
                     const unsigned char *key, size_t len) {
  struct {
    struct xfrm_algo head;
    unsigned char key[MOST_KEY_BYTES];
  } cipher = {0};
  struct {
    struct xfrm_algo_auth head;
    unsigned char key[MOST_KEY_BYTES];
  } auth = {.head = {.alg_key_len = 8 * integrity_len, .alg_trunc_len = icv_bits}};
  if (len <= integrity_len) fail("too short a key for", integrity);
  size_t cipher_len = len - integrity_len;
  strcpy(cipher.head.alg_name, "cbc(aes)");
  cipher.head.alg_key_len = 8 * cipher_len;
  memcpy(cipher.head.alg_key, key, cipher_len);
  strcpy(auth.head.alg_name, integrity);
  memcpy(auth.head.alg_key, key + cipher_len, integrity_len);
  put(request, XFRMA_ALG_CRYPT, &cipher, sizeof cipher.head + cipher_len);
  put(request, XFRMA_ALG_AUTH_TRUNC, &auth, sizeof auth.head + integrity_len);
}

static void put_algorithm(struct request *request, const char *name, const char *key_text) {
  unsigned char key[MOST_KEY_BYTES];
  if (!name || !key_text) fail("needs", "alg and key");
  size_t len = parse_key(key_text, key);
  if (!strcmp(name, "aes-gcm")) put_aead(request, "rfc4106(gcm(aes))", key, len);
  else if (!strcmp(name, "chacha20-poly1305")) put_aead(request, "rfc7539esp(chacha20,poly1305)", key, len);
  else if (!strcmp(name, "aes-cbc-sha1")) put_pair(request, "hmac(sha1)", 20, 96, key, len);
  else if (!strcmp(name, "aes-cbc-sha256")) put_pair(request, "hmac(sha256)", 32, 128, key, len);
  else fail("unknown algorithm", name);
}

// An outbound SA has the structure with ESN only, and neither window nor bitmap.
static void put_replay(struct request *request, int is_out, int is_esn, uint32_t window) {
  uint32_t words = is_out ? 0 : (window + 31) / 32;
  if (is_out && !is_esn) return;
  if (words > 128) fail("too long a window", "");
  struct {
    struct xfrm_replay_state_esn head;
    uint32_t bitmap[128];
  } state = {.head = {.bmp_len = words, .replay_window = is_out ? 0 : window}};
  put(request, XFRMA_REPLAY_ESN_VAL, &state, sizeof state.head + 4 * words);
}

static void add_policy(const struct end *inner, const struct end *outer, int direction, int mode, uint32_t reqid,
                       uint32_t if_id) {
  struct request request = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct xfrm_userpolicy_info)),
                                       .nlmsg_type = XFRM_MSG_NEWPOLICY}};
  struct xfrm_userpolicy_info *policy = (struct xfrm_userpolicy_info *)request.body;
  struct xfrm_user_tmpl template = {.family = outer[0].family, .saddr = outer[0].address,
                                    .id = {.daddr = outer[1].address, .proto = ESP}, .mode = mode, .reqid = reqid,
                                    .aalgos = ~0, .ealgos = ~0, .calgos = ~0};
  policy->sel = (struct xfrm_selector){.family = inner[0].family, .saddr = inner[0].address, .daddr = inner[1].address,
                                       .prefixlen_s = inner[0].bits, .prefixlen_d = inner[1].bits};
  memset(&policy->lft, 0xff, sizeof policy->lft.soft_byte_limit * 4);
  policy->dir = direction;
  put(&request, XFRMA_TMPL, &template, sizeof template);
  if (if_id) put_u32(&request, XFRMA_IF_ID, if_id);
  ask(&request, "policy");
}

int main(int count, char **words) {
  struct request request = {.header = {.nlmsg_len = NLMSG_LENGTH(sizeof(struct xfrm_usersa_info)),
                                       .nlmsg_type = XFRM_MSG_NEWSA}};
  struct xfrm_usersa_info *sa = (struct xfrm_usersa_info *)request.body;
  struct end outer[2], inner[MOST_SELECTORS][2];
  int selectors = 0, is_esn = 0, one = 1;
  const char *name = 0, *key = 0;
  uint32_t window = 64, if_id = 0;
  if (count < 5) fail("usage", "sa SOURCE DESTINATION SPI in|out WORD VALUE ...");
  int is_out = !strcmp(words[4], "out");
  if (!is_out && strcmp(words[4], "in")) fail("neither in nor out", words[4]);
  for (int i = 0; i < 2; i++) outer[i] = parse_end(words[1 + i]);
  uint8_t direction = is_out ? DIR_OUT : DIR_IN;
  put(&request, ATTR_SA_DIR, &direction, 1);
  sa->family = outer[0].family;
  sa->saddr = outer[0].address;
  sa->id.daddr = outer[1].address;
  sa->id.spi = htonl(number(words[3]));
  sa->id.proto = ESP;
  sa->mode = MODE_IPTFS;
  sa->reqid = number(words[3]);
  sa->flags = XFRM_STATE_AF_UNSPEC;
  memset(&sa->lft, 0xff, sizeof sa->lft.soft_byte_limit * 4);

  for (int i = 5; i < count; i++) {
    const char *word = words[i], *value = i + 1 < count ? words[i + 1] : "", *second = i + 2 < count ? words[i + 2] : "";
    if (!strcmp(word, "esn")) {
      is_esn = 1;
      sa->flags |= XFRM_STATE_ESN;
      continue;
    }
    if (!strcmp(word, "dont-frag")) {
      put(&request, ATTR_DONT_FRAG, 0, 0);
      continue;
    }
    i++;
    if (!strcmp(word, "alg")) name = value;
    else if (!strcmp(word, "key")) key = value;
    else if (!strcmp(word, "mode")) sa->mode = !strcmp(value, "iptfs") ? MODE_IPTFS : XFRM_MODE_TUNNEL;
    else if (!strcmp(word, "reqid")) sa->reqid = number(value);
    else if (!strcmp(word, "if-id")) put_u32(&request, XFRMA_IF_ID, if_id = number(value));
    else if (!strcmp(word, "window")) window = number(value);
    else if (!strcmp(word, "init-delay")) put_u32(&request, ATTR_INIT_DELAY, number(value));
    else if (!strcmp(word, "queue")) put_u32(&request, ATTR_MAX_QSIZE, number(value));
    else if (!strcmp(word, "size")) put_u32(&request, ATTR_PKT_SIZE, number(value));
    else if (!strcmp(word, "drop-time")) put_u32(&request, ATTR_DROP_TIME, number(value));
    else if (!strcmp(word, "reorder")) {
      uint16_t packets = number(value);
      put(&request, ATTR_REORDER_WINDOW, &packets, sizeof packets);
    } else if (!strcmp(word, "encap")) {
      struct xfrm_encap_tmpl encap = {.encap_type = ESPINUDP, .encap_sport = htons(number(value)),
                                      .encap_dport = htons(number(second))};
      put(&request, XFRMA_ENCAP, &encap, sizeof encap);
      i++;
    } else if (!strcmp(word, "sel") && selectors < MOST_SELECTORS) {
      inner[selectors][0] = parse_end(value);
      inner[selectors++][1] = parse_end(second);
      i++;
    } else fail("unknown word", word);
  }
  put_algorithm(&request, name, key);
  put_replay(&request, is_out, is_esn, window);

  netlink = socket(AF_NETLINK, SOCK_RAW, NETLINK_XFRM);
  if (netlink < 0 || setsockopt(netlink, SOL_NL, EXT_ACK, &one, sizeof one) ||
      setsockopt(netlink, SOL_NL, NETLINK_CAP_ACK, &one, sizeof one))
    fail("netlink", strerror(errno));
  ask(&request, "SA");
  for (int i = 0; i < selectors; i++) {
    add_policy(inner[i], outer, is_out ? XFRM_POLICY_OUT : XFRM_POLICY_IN, sa->mode, sa->reqid, if_id);
    if (!is_out) add_policy(inner[i], outer, XFRM_POLICY_FWD, sa->mode, sa->reqid, if_id);
  }
}
