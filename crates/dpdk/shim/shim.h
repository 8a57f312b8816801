/* The interface to the Rust code of this crate. src/bound/ffi.rs mirrors the structures. */
#pragma once
#include <stddef.h>
#include <stdint.h>
#include <stdbool.h>

/* Room for a nonce, for additional data and for the longest ICV, in bytes. */
#define CONVOY_NONCE 16
#define CONVOY_AAD 16
#define CONVOY_DIGEST 32

/* The numbers are those in src/algorithm.rs. */
enum convoy_cipher { CIPHER_NULL, CIPHER_GCM, CIPHER_GMAC, CIPHER_CHACHA, CIPHER_CBC, CIPHER_CTR, CIPHER_3DES, CIPHER_DES };
enum convoy_hash { HASH_NONE, HASH_MD5, HASH_SHA1, HASH_SHA256, HASH_SHA384, HASH_SHA512 };

struct convoy_range { uint16_t min, max, step; };

struct convoy_capability {
  uint8_t is_hash; /* `algorithm` is a convoy_hash, else a convoy_cipher */
  uint8_t algorithm;
  struct convoy_range key, nonce, digest, aad;
};

struct convoy_info {
  const char *name, *driver;
  uint64_t features;
  uint32_t max_queue_pairs, max_sessions, id;
};

struct convoy_session_config {
  uint32_t cipher, hash;
  const uint8_t *key, *hash_key;
  uint32_t key_len, hash_key_len, digest_len, nonce_len, aad_len, seal;
};

struct convoy_job {
  uint8_t *packet;
  void *session;
  uint64_t cookie;
  uint32_t packet_len, cipher_start, cipher_len, auth_start, auth_len;
  uint32_t digest_at; /* offset in the packet; DIGEST_ASIDE: in the operation */
  uint8_t kind;       /* enum convoy_kind */
  uint8_t nonce[CONVOY_NONCE], aad[CONVOY_AAD], digest[CONVOY_DIGEST];
};
#define DIGEST_ASIDE UINT32_MAX
enum convoy_kind { KIND_AEAD, KIND_CHAINED };

struct convoy_done {
  uint64_t cookie;
  const uint8_t *digest; /* in the operation; valid until the next call */
  uint8_t ended;         /* enum convoy_ended */
};
enum convoy_ended { ENDED_REFUSED, ENDED_DONE, ENDED_MISMATCH };

struct convoy_device;
struct convoy_queue;

int convoy_dpdk_start(int argc, char **argv);
size_t convoy_dpdk_log(char *to, size_t room);
const char *convoy_dpdk_version(void);
bool convoy_dpdk_iova_is_va(void);
int convoy_dpdk_register(void *base, size_t len, size_t page);
int convoy_dpdk_probe(const char *arguments);
int convoy_dpdk_in_interrupt_thread(void (*call)(void *), void *with);

int convoy_dpdk_find(const char *name);
bool convoy_dpdk_keeps_order(int id);
int convoy_dpdk_map(int id, void *base, size_t len);
bool convoy_dpdk_info(int id, struct convoy_info *to);
bool convoy_dpdk_capability(int id, uint32_t at, struct convoy_capability *to);
struct convoy_device *convoy_dpdk_open(int id, uint32_t queues, uint32_t depth, uint32_t sessions, int *error);
void convoy_dpdk_stop(struct convoy_device *device);
void *convoy_dpdk_session(struct convoy_device *device, const struct convoy_session_config *config);
void convoy_dpdk_session_free(struct convoy_device *device, void *session);

struct convoy_queue *convoy_dpdk_queue(struct convoy_device *device, uint16_t at);
uint32_t convoy_dpdk_enqueue(struct convoy_queue *queue, const struct convoy_job *jobs, uint32_t count);
uint32_t convoy_dpdk_dequeue(struct convoy_queue *queue, struct convoy_done *done, uint32_t room);

struct convoy_eth_info {
  const char *name, *driver; /* `name` is valid until the thread's next call */
  uint32_t receive_queues, send_queues, least_mtu, most_mtu;
  uint8_t mac[6];
};

struct convoy_eth_config {
  uint32_t queues, receive_descriptors, send_descriptors, mtu;
  uint8_t has_mac, mac[6], all_groups;
};

struct convoy_eth_frame {
  const uint8_t *bytes; /* valid until convoy_eth_received */
  uint32_t len;         /* 0: the frame cannot be read */
};

struct convoy_eth_packet {
  const uint8_t *bytes;
  uint32_t len;
  uint8_t header[14];
};

struct convoy_eth_counters { uint64_t missed, receive_errors, send_errors, no_buffer; };

struct convoy_eth_queue;

int convoy_eth_most(void);
int convoy_eth_find(const char *name);
bool convoy_eth_info(int id, struct convoy_eth_info *to);
int convoy_eth_open(int id, const struct convoy_eth_config *config, struct convoy_eth_queue **queues, const char **step);
uint32_t convoy_eth_receive(struct convoy_eth_queue *queue, struct convoy_eth_frame *to, uint32_t room);
void convoy_eth_received(struct convoy_eth_queue *queue);
uint32_t convoy_eth_send(struct convoy_eth_queue *queue, const struct convoy_eth_packet *packets, uint32_t count);
bool convoy_eth_counters(int id, struct convoy_eth_counters *to);
