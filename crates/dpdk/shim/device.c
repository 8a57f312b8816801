/* Crypto devices: capabilities and sessions. */
#define _GNU_SOURCE
#include "internal.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_lcore.h>
#include <rte_bus.h>

/* A session of DPDK's scheduler contains a session for each of its worker devices, from the same pool. */
#define WORKERS_OF_SCHEDULER 8

int convoy_dpdk_find(const char *name) { return rte_cryptodev_get_dev_id(name); }

bool convoy_dpdk_info(int id, struct convoy_info *to) {
  if (id < 0 || id >= RTE_CRYPTO_MAX_DEVS || !rte_cryptodev_is_valid_dev((uint8_t)id)) return false;
  struct rte_cryptodev_info info = { 0 };
  rte_cryptodev_info_get((uint8_t)id, &info);
  *to = (struct convoy_info){
    .name = rte_cryptodev_name_get((uint8_t)id), .driver = info.driver_name, .features = info.feature_flags,
    .max_queue_pairs = info.max_nb_queue_pairs, .max_sessions = info.sym.max_nb_sessions, .id = (uint32_t)id,
  };
  return true;
}

/* A function of the scheduler driver. Weak and declared here, since not every DPDK has the driver and its header. */
int rte_cryptodev_scheduler_ordering_get(uint8_t) __attribute__((weak));
bool convoy_dpdk_keeps_order(int id) {
  return rte_cryptodev_scheduler_ordering_get != NULL && rte_cryptodev_scheduler_ordering_get((uint8_t)id) == 1;
}

/* Maps registered memory for a device's DMA: a device behind VFIO can only access memory that is mapped for it. A virtual
 * device accesses memory as the process does, so it is no error if its bus cannot map. */
int convoy_dpdk_map(int id, void *base, size_t len) {
  struct rte_cryptodev_info info = { 0 };
  rte_cryptodev_info_get((uint8_t)id, &info);
  if (info.device == NULL) return 0;
  rte_errno = 0;
  if (rte_dev_dma_map(info.device, base, (uint64_t)(uintptr_t)base, len) >= 0) return 0;
  int error = rte_errno ? rte_errno : EIO; /* VFIO writes the cause of a failure to the log only */
  bool is_virtual = strcmp(rte_bus_name(rte_dev_bus(info.device)), "vdev") == 0;
  return error == ENOTSUP && is_virtual ? 0 : error;
}

static const uint8_t CIPHERS[] = {
  [CIPHER_CBC] = RTE_CRYPTO_CIPHER_AES_CBC, [CIPHER_CTR] = RTE_CRYPTO_CIPHER_AES_CTR,
  [CIPHER_3DES] = RTE_CRYPTO_CIPHER_3DES_CBC, [CIPHER_DES] = RTE_CRYPTO_CIPHER_DES_CBC,
};
static const uint8_t HASHES[] = {
  [HASH_MD5] = RTE_CRYPTO_AUTH_MD5_HMAC, [HASH_SHA1] = RTE_CRYPTO_AUTH_SHA1_HMAC, [HASH_SHA256] = RTE_CRYPTO_AUTH_SHA256_HMAC,
  [HASH_SHA384] = RTE_CRYPTO_AUTH_SHA384_HMAC, [HASH_SHA512] = RTE_CRYPTO_AUTH_SHA512_HMAC,
};

static struct convoy_range range(struct rte_crypto_param_range r) {
  return (struct convoy_range){ r.min, r.max, r.increment };
}

static bool translate(const struct rte_cryptodev_symmetric_capability *has, struct convoy_capability *to) {
  switch (has->xform_type) {
  case RTE_CRYPTO_SYM_XFORM_AEAD:
    if (has->aead.algo == RTE_CRYPTO_AEAD_AES_GCM) to->algorithm = CIPHER_GCM;
    else if (has->aead.algo == RTE_CRYPTO_AEAD_CHACHA20_POLY1305) to->algorithm = CIPHER_CHACHA;
    else return false;
    to->key = range(has->aead.key_size); to->nonce = range(has->aead.iv_size);
    to->digest = range(has->aead.digest_size); to->aad = range(has->aead.aad_size);
    return true;
  case RTE_CRYPTO_SYM_XFORM_CIPHER:
    to->key = range(has->cipher.key_size); to->nonce = range(has->cipher.iv_size);
    if (has->cipher.algo == RTE_CRYPTO_CIPHER_NULL) { to->algorithm = CIPHER_NULL; return true; }
    for (uint8_t at = CIPHER_CBC; at < RTE_DIM(CIPHERS); at++)
      if (CIPHERS[at] == has->cipher.algo) { to->algorithm = at; return true; }
    return false;
  case RTE_CRYPTO_SYM_XFORM_AUTH:
    to->key = range(has->auth.key_size); to->digest = range(has->auth.digest_size); to->nonce = range(has->auth.iv_size);
    if (has->auth.algo == RTE_CRYPTO_AUTH_AES_GMAC) { to->algorithm = CIPHER_GMAC; return true; }
    to->is_hash = 1;
    for (uint8_t at = HASH_MD5; at < RTE_DIM(HASHES); at++)
      if (HASHES[at] == has->auth.algo) { to->algorithm = at; return true; }
    return false;
  default:
    return false;
  }
}

bool convoy_dpdk_capability(int id, uint32_t at, struct convoy_capability *to) {
  struct rte_cryptodev_info info = { 0 };
  rte_cryptodev_info_get((uint8_t)id, &info);
  const struct rte_cryptodev_capabilities *has = info.capabilities;
  for (; has != NULL && has->op != RTE_CRYPTO_OP_TYPE_UNDEFINED; has++) {
    memset(to, 0, sizeof *to);
    if (has->op == RTE_CRYPTO_OP_TYPE_SYMMETRIC && translate(&has->sym, to) && at-- == 0) return true;
  }
  return false;
}

static bool make_pools(struct convoy_device *device, uint32_t sessions) {
  char name[RTE_MEMPOOL_NAMESIZE];
  uint32_t size = 0;
  /* A scheduler's session contains sessions of its worker devices, so the size is the largest of all devices. */
  for (uint8_t id = 0; id < RTE_CRYPTO_MAX_DEVS; id++)
    if (rte_cryptodev_is_valid_dev(id)) size = RTE_MAX(size, rte_cryptodev_sym_get_private_session_size(id));
  struct rte_cryptodev_info info = { 0 };
  rte_cryptodev_info_get(device->id, &info);
  if (strcmp(info.driver_name, "crypto_scheduler") == 0) sessions *= 1 + WORKERS_OF_SCHEDULER;
  uint32_t operations = device->queues * device->depth;
  snprintf(name, sizeof name, "convoy_s%u", device->id);
  device->sessions = rte_cryptodev_sym_session_pool_create(name, sessions, size, 0, 0, SOCKET_ID_ANY);
  snprintf(name, sizeof name, "convoy_o%u", device->id);
  device->operations = rte_crypto_op_pool_create(name, RTE_CRYPTO_OP_TYPE_SYMMETRIC, operations, 0,
                                                 sizeof(struct convoy_private), SOCKET_ID_ANY);
  /* Mbufs without data room: they refer to the bytes of convoy's frames. */
  snprintf(name, sizeof name, "convoy_m%u", device->id);
  device->heads = rte_pktmbuf_pool_create(name, operations, 0, 0, 0, SOCKET_ID_ANY);
  return device->sessions && device->operations && device->heads;
}

static int start(struct convoy_device *device) {
  int node = rte_cryptodev_socket_id(device->id);
  if (node < 0) node = 0;
  struct rte_cryptodev_config config = {
    .socket_id = node, .nb_queue_pairs = (uint16_t)device->queues,
    .ff_disable = RTE_CRYPTODEV_FF_SECURITY | RTE_CRYPTODEV_FF_ASYMMETRIC_CRYPTO,
  };
  int error = rte_cryptodev_configure(device->id, &config);
  struct rte_cryptodev_qp_conf pair = { .nb_descriptors = device->depth, .mp_session = device->sessions };
  for (uint16_t at = 0; at < device->queues && error == 0; at++)
    error = rte_cryptodev_queue_pair_setup(device->id, at, &pair, node);
  return error ? error : rte_cryptodev_start(device->id);
}

struct convoy_device *convoy_dpdk_open(int id, uint32_t queues, uint32_t depth, uint32_t sessions, int *error) {
  struct convoy_device *device = calloc(1, sizeof *device);
  if (device == NULL) { *error = ENOMEM; return NULL; }
  *device = (struct convoy_device){ .id = (uint8_t)id, .queues = queues, .depth = depth };
  device->made = calloc(queues, sizeof *device->made);
  if (device->made == NULL || !make_pools(device, sessions)) *error = rte_errno ? rte_errno : ENOMEM;
  else *error = -start(device);
  if (*error == 0) return device;
  rte_mempool_free(device->sessions);
  rte_mempool_free(device->operations);
  rte_mempool_free(device->heads);
  free(device->made);
  free(device);
  return NULL;
}

void convoy_dpdk_stop(struct convoy_device *device) { rte_cryptodev_stop(device->id); }

void *convoy_dpdk_session(struct convoy_device *device, const struct convoy_session_config *c) {
  struct rte_crypto_sym_xform cipher = { .type = RTE_CRYPTO_SYM_XFORM_CIPHER }, auth = { .type = RTE_CRYPTO_SYM_XFORM_AUTH };
  struct rte_crypto_sym_xform *first = NULL;
  if (c->cipher == CIPHER_GCM || c->cipher == CIPHER_CHACHA) {
    cipher.type = RTE_CRYPTO_SYM_XFORM_AEAD;
    cipher.aead.op = c->seal ? RTE_CRYPTO_AEAD_OP_ENCRYPT : RTE_CRYPTO_AEAD_OP_DECRYPT;
    cipher.aead.algo = c->cipher == CIPHER_GCM ? RTE_CRYPTO_AEAD_AES_GCM : RTE_CRYPTO_AEAD_CHACHA20_POLY1305;
    cipher.aead.key.data = c->key; cipher.aead.key.length = (uint16_t)c->key_len;
    cipher.aead.iv.offset = PRIVATE_AT; cipher.aead.iv.length = (uint16_t)c->nonce_len;
    cipher.aead.digest_length = (uint16_t)c->digest_len; cipher.aead.aad_length = (uint16_t)c->aad_len;
    first = &cipher;
    return rte_cryptodev_sym_session_create(device->id, first, device->sessions);
  }
  auth.auth.op = c->seal ? RTE_CRYPTO_AUTH_OP_GENERATE : RTE_CRYPTO_AUTH_OP_VERIFY;
  auth.auth.digest_length = (uint16_t)c->digest_len;
  if (c->cipher == CIPHER_GMAC) {
    auth.auth.algo = RTE_CRYPTO_AUTH_AES_GMAC;
    auth.auth.key.data = c->key; auth.auth.key.length = (uint16_t)c->key_len;
    auth.auth.iv.offset = PRIVATE_AT; auth.auth.iv.length = (uint16_t)c->nonce_len;
    return rte_cryptodev_sym_session_create(device->id, &auth, device->sessions);
  }
  bool has_hash = c->hash != HASH_NONE;
  auth.auth.algo = has_hash ? (enum rte_crypto_auth_algorithm)HASHES[c->hash] : RTE_CRYPTO_AUTH_NULL;
  auth.auth.key.data = c->hash_key; auth.auth.key.length = (uint16_t)c->hash_key_len;
  cipher.cipher.op = c->seal ? RTE_CRYPTO_CIPHER_OP_ENCRYPT : RTE_CRYPTO_CIPHER_OP_DECRYPT;
  bool has_cipher = c->cipher != CIPHER_NULL || !has_hash;
  cipher.cipher.algo = c->cipher == CIPHER_NULL ? RTE_CRYPTO_CIPHER_NULL : (enum rte_crypto_cipher_algorithm)CIPHERS[c->cipher];
  cipher.cipher.key.data = c->key; cipher.cipher.key.length = (uint16_t)c->key_len;
  cipher.cipher.iv.offset = PRIVATE_AT; cipher.cipher.iv.length = (uint16_t)c->nonce_len;
  /* Outbound: encrypt, then hash. Inbound: verify, then decrypt. */
  if (!has_hash) first = &cipher;
  else if (!has_cipher) first = &auth;
  else if (c->seal) { first = &cipher; cipher.next = &auth; }
  else { first = &auth; auth.next = &cipher; }
  return rte_cryptodev_sym_session_create(device->id, first, device->sessions);
}

void convoy_dpdk_session_free(struct convoy_device *device, void *session) {
  /* Not every driver wipes a session. The caller's lock keeps others from taking this element before it is wiped. The
     sessions of a scheduler's worker devices are not wiped until their memory is used again. */
  if (rte_cryptodev_sym_session_free(device->id, session) == 0) explicit_bzero(session, device->sessions->elt_size);
}
