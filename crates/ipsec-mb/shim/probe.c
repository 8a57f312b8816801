/* Links only if header and library are installed and new enough: 1.3 added the self-test. */

#include <intel-ipsec-mb.h>

#if IMB_VERSION_NUM < 0x10300
#error "ipsec-mb 1.3 or later is needed"
#endif

int main(void) { return imb_get_version() == 0; }
