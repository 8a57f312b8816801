/* Shared by device.c and queue.c. */
#pragma once
#include "shim.h"
#include <rte_cryptodev.h>
#include <rte_mbuf.h>

struct convoy_device {
  uint8_t id;
  uint32_t queues, depth;
  struct rte_mempool *sessions, *operations, *heads;
  struct convoy_queue **made;
};

/* Follows each operation, in memory that devices can access. */
struct convoy_private {
  uint8_t nonce[CONVOY_NONCE]; /* first, as the offset in every session says */
  uint8_t aad[CONVOY_AAD];
  uint8_t digest[64]; /* room for an untruncated hash, which some drivers write */
  uint64_t cookie;
  uint32_t slot;
  uint32_t is_out;
};
#define PRIVATE_AT (sizeof(struct rte_crypto_op) + sizeof(struct rte_crypto_sym_op))
