/* A queue pair: jobs in, results out. The caller keeps each frame until its job is back. */
#include "internal.h"
#include <stdlib.h>
#include <string.h>

#define BURST 64

struct convoy_queue {
  uint8_t device;
  uint16_t id;
  uint32_t depth, free_count;
  struct rte_crypto_op **operations;
  struct rte_mbuf **heads;
  uint32_t *free;
  struct rte_mbuf_ext_shared_info shared;
};

/* Called when DPDK frees an mbuf: the frame stays with its owner. */
static void keep(void *address, void *opaque) { (void)address; (void)opaque; }

static struct convoy_private *private_of(struct rte_crypto_op *op) {
  return rte_crypto_op_ctod_offset(op, struct convoy_private *, PRIVATE_AT);
}

struct convoy_queue *convoy_dpdk_queue(struct convoy_device *device, uint16_t at) {
  if (device->made[at] != NULL) return device->made[at];
  struct convoy_queue *queue = calloc(1, sizeof *queue);
  if (queue == NULL) return NULL;
  uint32_t depth = device->depth;
  *queue = (struct convoy_queue){ .device = device->id, .id = at, .depth = depth, .free_count = depth };
  queue->operations = calloc(depth, sizeof *queue->operations);
  queue->heads = calloc(depth, sizeof *queue->heads);
  queue->free = calloc(depth, sizeof *queue->free);
  queue->shared.free_cb = keep;
  rte_mbuf_ext_refcnt_set(&queue->shared, 1);
  if (!queue->operations || !queue->heads || !queue->free || rte_pktmbuf_alloc_bulk(device->heads, queue->heads, depth) ||
      rte_crypto_op_bulk_alloc(device->operations, RTE_CRYPTO_OP_TYPE_SYMMETRIC, queue->operations, (uint16_t)depth) != depth)
    return NULL; /* the pools hold enough for all queues, so the system is out of memory */
  for (uint32_t slot = 0; slot < depth; slot++) {
    struct rte_crypto_op *op = queue->operations[slot];
    struct rte_mbuf *head = queue->heads[slot];
    memset(private_of(op), 0, sizeof(struct convoy_private));
    private_of(op)->slot = slot;
    queue->free[slot] = depth - 1 - slot;
    op->sess_type = RTE_CRYPTO_OP_WITH_SESSION;
    op->sym->m_src = head;
    op->sym->m_dst = NULL;
    head->shinfo = &queue->shared;
    head->ol_flags |= RTE_MBUF_F_EXTERNAL;
    head->data_off = 0;
  }
  device->made[at] = queue;
  return queue;
}

static void lay(struct convoy_queue *queue, struct rte_crypto_op *op, const struct convoy_job *job) {
  struct rte_mbuf *head = op->sym->m_src;
  struct convoy_private *own = private_of(op);
  struct rte_crypto_sym_op *sym = op->sym;
  (void)queue;
  head->buf_addr = job->packet;
  rte_mbuf_iova_set(head, (rte_iova_t)(uintptr_t)job->packet);
  head->buf_len = head->data_len = (uint16_t)job->packet_len;
  head->pkt_len = job->packet_len;
  op->status = RTE_CRYPTO_OP_STATUS_NOT_PROCESSED;
  sym->session = job->session;
  memcpy(own->nonce, job->nonce, CONVOY_NONCE);
  own->cookie = job->cookie;
  own->is_out = 1;
  uint8_t *digest = job->packet + job->digest_at;
  rte_iova_t digest_iova = (rte_iova_t)(uintptr_t)digest;
  if (job->digest_at == DIGEST_ASIDE) {
    memcpy(own->digest, job->digest, CONVOY_DIGEST);
    digest = own->digest;
    digest_iova = rte_crypto_op_ctophys_offset(op, PRIVATE_AT + offsetof(struct convoy_private, digest));
  }
  if (job->kind == KIND_AEAD) {
    memcpy(own->aad, job->aad, CONVOY_AAD);
    sym->aead.data.offset = job->cipher_start;
    sym->aead.data.length = job->cipher_len;
    sym->aead.digest.data = digest;
    sym->aead.digest.phys_addr = digest_iova;
    sym->aead.aad.data = own->aad;
    sym->aead.aad.phys_addr = rte_crypto_op_ctophys_offset(op, PRIVATE_AT + offsetof(struct convoy_private, aad));
  } else {
    sym->cipher.data.offset = job->cipher_start;
    sym->cipher.data.length = job->cipher_len;
    sym->auth.data.offset = job->auth_start;
    sym->auth.data.length = job->auth_len;
    sym->auth.digest.data = digest;
    sym->auth.digest.phys_addr = digest_iova;
  }
}

uint32_t convoy_dpdk_enqueue(struct convoy_queue *queue, const struct convoy_job *jobs, uint32_t count) {
  uint32_t taken = 0;
  while (taken < count && queue->free_count > 0) {
    struct rte_crypto_op *burst[BURST];
    uint32_t laid = 0, most = RTE_MIN(RTE_MIN(count - taken, queue->free_count), (uint32_t)BURST);
    for (; laid < most; laid++) {
      burst[laid] = queue->operations[queue->free[queue->free_count - 1 - laid]];
      lay(queue, burst[laid], &jobs[taken + laid]);
    }
    uint32_t sent = rte_cryptodev_enqueue_burst(queue->device, queue->id, burst, (uint16_t)laid);
    for (uint32_t at = sent; at < laid; at++) private_of(burst[at])->is_out = 0;
    /* The slots that were sent are at the end of the list. */
    queue->free_count -= sent;
    taken += sent;
    if (sent < laid) break;
  }
  return taken;
}

uint32_t convoy_dpdk_dequeue(struct convoy_queue *queue, struct convoy_done *done, uint32_t room) {
  struct rte_crypto_op *burst[BURST];
  uint32_t back = rte_cryptodev_dequeue_burst(queue->device, queue->id, burst, (uint16_t)RTE_MIN(room, (uint32_t)BURST));
  uint32_t count = 0;
  for (uint32_t at = 0; at < back; at++) {
    struct convoy_private *own = private_of(burst[at]);
    /* A device may erroneously return an operation twice. */
    if (!own->is_out) continue;
    own->is_out = 0;
    queue->free[queue->free_count++] = own->slot;
    enum convoy_ended ended = ENDED_REFUSED;
    if (burst[at]->status == RTE_CRYPTO_OP_STATUS_SUCCESS) ended = ENDED_DONE;
    else if (burst[at]->status == RTE_CRYPTO_OP_STATUS_AUTH_FAILED) ended = ENDED_MISMATCH;
    done[count++] = (struct convoy_done){ .cookie = own->cookie, .digest = own->digest, .ended = (uint8_t)ended };
  }
  return count;
}
