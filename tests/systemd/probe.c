/* A plugin that does in charon what a fault there could, and says of each step what the system made
 * of it. PIDFILE has the number of the gateway's process. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <unistd.h>

#define PIDFILE "/etc/strongswan.d/gateway-pid"

static void report(const char *what, long result) {
    fprintf(stderr, "probe: %s: %s\n", what, result < 0 ? strerror(errno) : "possible");
}

static void opens(const char *path, int flags) {
    char what[128];
    snprintf(what, sizeof(what), "%s %s", flags == O_RDONLY ? "read" : "write", path);
    report(what, open(path, flags));
}

static void binds(int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    report("bind a port below 1024", bind(fd, (struct sockaddr *)&address, sizeof(address)));
}

void *probe_plugin_create(void) {
    char memory[64];
    FILE *file = fopen(PIDFILE, "r");
    int gateway = 0;

    if (!file || fscanf(file, "%d", &gateway) != 1) {
        fprintf(stderr, "probe: no number in %s\n", PIDFILE);
        return NULL;
    }
    report("raw socket", socket(AF_INET, SOCK_RAW, IPPROTO_ESP));
    report("packet socket", socket(AF_PACKET, SOCK_RAW, 0));
    binds(500);
    report("trace the gateway", ptrace(PTRACE_ATTACH, gateway, NULL, NULL));
    snprintf(memory, sizeof(memory), "/proc/%d/mem", gateway);
    report("read the gateway's memory", open(memory, O_RDONLY));
    opens("/etc/convoy/convoy.toml", O_RDONLY);
    opens("/var/lib/convoy/state", O_RDONLY);
    opens("/etc/shadow", O_RDONLY);
    opens("/etc/swanctl/swanctl.conf", O_WRONLY);
    opens("/usr/sbin/swanctl", O_WRONLY);
    opens("/run/convoy/control.sock", O_WRONLY);
    report("become root", setuid(0));
    report("user namespace", unshare(CLONE_NEWUSER));
    report("writable code", mmap(NULL, 4096, PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
    fprintf(stderr, "probe: done\n");
    return NULL;
}
