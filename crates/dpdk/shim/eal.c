/* EAL: started once. Its log is kept in memory, so that errors can quote it. */
#define _GNU_SOURCE
#include "shim.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <rte_alarm.h>
#include <rte_dev.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>
#include <rte_memory.h>
#include <rte_version.h>

/* DPDK's latest log output. The older half is dropped when it is full. */
static char said[8192];
static size_t said_len;
static pthread_mutex_t said_lock = PTHREAD_MUTEX_INITIALIZER;

static ssize_t note(void *unused, const char *text, size_t len) {
  (void)unused;
  const size_t all = len;
  if (len > sizeof said / 2) {
    text += len - sizeof said / 2;
    len = sizeof said / 2;
  }
  pthread_mutex_lock(&said_lock);
  if (said_len + len > sizeof said) {
    memmove(said, said + said_len / 2, said_len - said_len / 2);
    said_len -= said_len / 2;
  }
  if (said_len + len <= sizeof said) {
    memcpy(said + said_len, text, len);
    said_len += len;
  }
  pthread_mutex_unlock(&said_lock);
  return (ssize_t)all;
}

size_t convoy_dpdk_log(char *to, size_t room) {
  pthread_mutex_lock(&said_lock);
  size_t len = said_len < room ? said_len : room;
  memcpy(to, said + said_len - len, len);
  said_len = 0;
  pthread_mutex_unlock(&said_lock);
  return len;
}

int convoy_dpdk_start(int argc, char **argv) {
  cookie_io_functions_t functions = { .write = note };
  FILE *stream = fopencookie(NULL, "w", functions);
  if (stream == NULL) return ENOMEM;
  setvbuf(stream, NULL, _IOLBF, 0);
  rte_openlog_stream(stream);
  rte_log_set_global_level(RTE_LOG_WARNING);
  return rte_eal_init(argc, argv) < 0 ? (rte_errno ? rte_errno : EINVAL) : 0;
}

const char *convoy_dpdk_version(void) { return rte_version(); }

bool convoy_dpdk_iova_is_va(void) { return rte_eal_iova_mode() == RTE_IOVA_VA; }

int convoy_dpdk_register(void *base, size_t len, size_t page) {
  return rte_extmem_register(base, len, NULL, (unsigned)(len / page), page) ? rte_errno : 0;
}

int convoy_dpdk_probe(const char *arguments) {
  int error = rte_dev_probe(arguments);
  return error < 0 ? -error : 0;
}

int convoy_dpdk_in_interrupt_thread(void (*call)(void *), void *with) {
  int error = rte_eal_alarm_set(1, call, with);
  return error < 0 ? -error : 0;
}
