/* Ethernet devices: opened with a queue pair for each thread. Bursts of frames are copied out of and into DPDK's buffers.
 *
 * They are copied because a buffer that is handed to a device belongs to DPDK until the device, or another user of it,
 * frees it on any thread; and because a device behind an IOMMU can access DPDK's memory without further mappings. */
#define _GNU_SOURCE
#include "shim.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define BURST 64
#define VLAN_BYTES 4

struct convoy_eth_queue {
  uint16_t device, id;
  struct rte_mempool *buffers;
  struct rte_mbuf *received[BURST];
  uint32_t received_count;
};

int convoy_eth_find(const char *name) {
  uint16_t id;
  return rte_eth_dev_get_port_by_name(name, &id) == 0 ? (int)id : -1;
}

bool convoy_eth_info(int id, struct convoy_eth_info *to) {
  struct rte_eth_dev_info info = { 0 };
  struct rte_ether_addr mac = { 0 };
  static _Thread_local char name[RTE_ETH_NAME_MAX_LEN];
  if (id < 0 || id >= RTE_MAX_ETHPORTS || !rte_eth_dev_is_valid_port((uint16_t)id)) return false;
  if (rte_eth_dev_info_get((uint16_t)id, &info) != 0 || rte_eth_dev_get_name_by_port((uint16_t)id, name) != 0) return false;
  (void)rte_eth_macaddr_get((uint16_t)id, &mac);
  *to = (struct convoy_eth_info){
    .name = name, .driver = info.driver_name, .receive_queues = info.max_rx_queues, .send_queues = info.max_tx_queues,
    .least_mtu = info.min_mtu, .most_mtu = info.max_mtu,
  };
  memcpy(to->mac, mac.addr_bytes, sizeof to->mac);
  return true;
}

int convoy_eth_most(void) { return RTE_MAX_ETHPORTS; }

static struct rte_mempool *make_buffers(uint16_t id, uint16_t queue, const struct convoy_eth_config *c, int node) {
  char name[RTE_MEMPOOL_NAMESIZE];
  snprintf(name, sizeof name, "convoy_e%u_%u", id, queue);
  uint32_t bytes = RTE_PKTMBUF_HEADROOM + RTE_ETHER_HDR_LEN + VLAN_BYTES + c->mtu + RTE_ETHER_CRC_LEN;
  bytes = RTE_ALIGN_CEIL(RTE_MAX(bytes, (uint32_t)RTE_MBUF_DEFAULT_BUF_SIZE), (uint32_t)RTE_CACHE_LINE_SIZE);
  /* Enough for two full rings and a burst in each direction. Without caches, which only EAL's own threads use. */
  uint32_t count = c->receive_descriptors + c->send_descriptors + 2 * BURST;
  return rte_pktmbuf_pool_create(name, count, 0, 0, (uint16_t)bytes, node);
}

/* A device whose address cannot be set is made promiscuous instead; the caller filters by address. */
static int set_mac(uint16_t id, const uint8_t *mac) {
  struct rte_ether_addr address;
  memcpy(address.addr_bytes, mac, sizeof address.addr_bytes);
  int error = rte_eth_dev_default_mac_addr_set(id, &address);
  if (error == -ENOTSUP) error = rte_eth_promiscuous_enable(id);
  return error;
}

static int begin(uint16_t id, struct convoy_eth_config *c, struct convoy_eth_queue **queues, const char **step) {
  struct rte_eth_dev_info info = { 0 };
  struct rte_eth_conf config = { 0 };
  *step = "ask it for its limits";
  int error = rte_eth_dev_info_get(id, &info);
  if (error != 0) return error;
  if (c->queues > 1) {
    config.rx_adv_conf.rss_conf.rss_hf = info.flow_type_rss_offloads & (RTE_ETH_RSS_IP | RTE_ETH_RSS_TCP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_ESP);
    if (config.rx_adv_conf.rss_conf.rss_hf != 0) config.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
  }
  config.rxmode.mtu = c->mtu;
  *step = "configure it for this MTU and so many queues";
  error = rte_eth_dev_configure(id, c->queues, c->queues, &config);
  if (error != 0) return error;
  uint16_t receive = (uint16_t)c->receive_descriptors, send = (uint16_t)c->send_descriptors;
  *step = "set the lengths of its queues";
  error = rte_eth_dev_adjust_nb_rx_tx_desc(id, &receive, &send);
  if (error != 0) return error;
  c->receive_descriptors = receive; c->send_descriptors = send;
  int node = rte_eth_dev_socket_id(id);
  for (uint16_t at = 0; at < c->queues; at++) {
    queues[at] = calloc(1, sizeof *queues[at]);
    *step = "make buffers for it; give DPDK more memory (-m or --socket-mem in [dpdk] arguments), or set descriptors lower";
    if (queues[at] == NULL) return -ENOMEM;
    struct rte_mempool *buffers = make_buffers(id, at, c, node < 0 ? SOCKET_ID_ANY : node);
    if (buffers == NULL) return rte_errno ? -rte_errno : -ENOMEM;
    *queues[at] = (struct convoy_eth_queue){ .device = id, .id = at, .buffers = buffers };
    *step = "set up its queues";
    error = rte_eth_rx_queue_setup(id, at, receive, (unsigned)(node < 0 ? 0 : node), NULL, buffers);
    if (error == 0) error = rte_eth_tx_queue_setup(id, at, send, (unsigned)(node < 0 ? 0 : node), NULL);
    if (error != 0) return error;
  }
  *step = "start it";
  error = rte_eth_dev_start(id);
  if (error != 0) return error;
  *step = "set its MAC address";
  error = c->has_mac ? set_mac(id, c->mac) : 0;
  if (error != 0 || !c->all_groups) return error;
  *step = "have it receive frames to groups";
  error = rte_eth_allmulticast_enable(id);
  /* A device without this does not tell groups apart. */
  return error == -ENOTSUP ? 0 : error;
}

int convoy_eth_open(int id, const struct convoy_eth_config *wanted, struct convoy_eth_queue **queues, const char **step) {
  struct convoy_eth_config config = *wanted;
  memset(queues, 0, config.queues * sizeof *queues);
  int error = begin((uint16_t)id, &config, queues, step);
  if (error == 0) return 0;
  /* A queue frees its buffers only when the device is closed. */
  if (queues[0] != NULL) {
    (void)rte_eth_dev_stop((uint16_t)id);
    (void)rte_eth_dev_close((uint16_t)id);
  }
  for (uint16_t at = 0; at < config.queues; at++) {
    if (queues[at] != NULL) rte_mempool_free(queues[at]->buffers);
    free(queues[at]);
  }
  return -error;
}

uint32_t convoy_eth_receive(struct convoy_eth_queue *queue, struct convoy_eth_frame *to, uint32_t room) {
  uint16_t count = rte_eth_rx_burst(queue->device, queue->id, queue->received, (uint16_t)RTE_MIN(room, (uint32_t)BURST));
  for (uint16_t at = 0; at < count; at++) {
    const struct rte_mbuf *mbuf = queue->received[at];
    /* A frame whose VLAN tag the device has stripped is not untagged, and a frame in several segments exceeds the MTU. */
    bool is_plain = mbuf->nb_segs == 1 && !(mbuf->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED);
    to[at] = (struct convoy_eth_frame){ .bytes = rte_pktmbuf_mtod(mbuf, const uint8_t *), .len = is_plain ? mbuf->data_len : 0 };
  }
  queue->received_count = count;
  return count;
}

void convoy_eth_received(struct convoy_eth_queue *queue) {
  rte_pktmbuf_free_bulk(queue->received, queue->received_count);
  queue->received_count = 0;
}

uint32_t convoy_eth_send(struct convoy_eth_queue *queue, const struct convoy_eth_packet *packets, uint32_t count) {
  struct rte_mbuf *burst[BURST];
  count = RTE_MIN(count, (uint32_t)BURST);
  if (count == 0 || rte_pktmbuf_alloc_bulk(queue->buffers, burst, count) != 0) return 0;
  for (uint32_t at = 0; at < count; at++) {
    /* The caller has checked the MTU, by which the buffers are sized. */
    char *to = rte_pktmbuf_append(burst[at], (uint16_t)(sizeof packets[at].header + packets[at].len));
    if (to == NULL) continue;
    memcpy(to, packets[at].header, sizeof packets[at].header);
    memcpy(to + sizeof packets[at].header, packets[at].bytes, packets[at].len);
  }
  uint32_t sent = rte_eth_tx_burst(queue->device, queue->id, burst, (uint16_t)count);
  rte_pktmbuf_free_bulk(burst + sent, count - sent);
  return sent;
}

bool convoy_eth_counters(int id, struct convoy_eth_counters *to) {
  struct rte_eth_stats stats;
  if (rte_eth_stats_get((uint16_t)id, &stats) != 0) return false;
  *to = (struct convoy_eth_counters){
    .missed = stats.imissed, .receive_errors = stats.ierrors, .send_errors = stats.oerrors, .no_buffer = stats.rx_nombuf,
  };
  return true;
}
