/* Managers, the library's state for one thread. */

#include "shim.h"

#include <stdlib.h>

/* Whether a second manager is needed that hashes with SHA instructions, one packet at a time: for few packets this is faster
 * than lanes that are mostly empty. The AVX-512 code only hashes in lanes. The AVX2 code does so too on processors that lack
 * another extension it requires for SHA instructions (GFNI, which AMD's Zen 3 does not have). On all other processors, and
 * on those without SHA instructions, `best` is enough. */
static int wants_sha_manager(const IMB_MGR *best)
{
        if (!(best->features & IMB_FEATURE_SHANI))
                return 0;
        if (best->used_arch == IMB_ARCH_AVX512)
                return 1;
        if (best->used_arch != IMB_ARCH_AVX2)
                return 0;
#ifdef IMB_CPUFLAGS_AVX2_T2
        return (best->features & IMB_CPUFLAGS_AVX2_T2) != IMB_CPUFLAGS_AVX2_T2;
#else
        return 1;
#endif
}

static int is_ready(IMB_MGR *mgr, const char **why)
{
        if (imb_get_errno(mgr) != 0)
                *why = imb_get_strerror(imb_get_errno(mgr));
        else if (!(mgr->features & IMB_FEATURE_SELF_TEST_PASS))
                *why = "its self-test failed";
        else
                return 1;
        return 0;
}

/* A new manager that works on this processor, or NULL with the reason in `why`. */
static IMB_MGR *made(void (*init)(IMB_MGR *), const char **why)
{
        IMB_MGR *mgr = alloc_mb_mgr(0);
        *why = "no memory";
        if (mgr == NULL)
                return NULL;
        init(mgr);
        if (is_ready(mgr, why))
                return mgr;
        free_mb_mgr(mgr);
        return NULL;
}

static void init_best(IMB_MGR *mgr) { init_mb_mgr_auto(mgr, NULL); }

static void init_sha(IMB_MGR *mgr) { init_mb_mgr_sse(mgr); }

static void release(IMB_MGR *mgr)
{
        if (mgr != NULL)
                free_mb_mgr(mgr);
}

void convoy_mb_free(struct convoy_mb *mb)
{
        release(mb->best);
        release(mb->chacha);
        release(mb->sha);
        free(mb);
}

/* NULL, with the reason in `why`, if the library does not work on this processor. */
struct convoy_mb *convoy_mb_new(const char **why)
{
        struct convoy_mb *mb = calloc(1, sizeof *mb);
        *why = "no memory";
        if (mb == NULL)
                return NULL;
        mb->best = made(init_best, why);
        mb->chacha = mb->best == NULL ? NULL : made(init_best, why);
        int is_made = mb->chacha != NULL;
        if (is_made && wants_sha_manager(mb->best)) {
                mb->sha = made(init_sha, why);
                is_made = mb->sha != NULL;
        }
        if (is_made)
                return mb;
        convoy_mb_free(mb);
        return NULL;
}

const char *convoy_mb_built_version(void) { return IMB_VERSION_STR; }

const char *convoy_mb_version(void) { return imb_get_version_str(); }

/* A name, since the library's numbers differ between versions. */
const char *convoy_mb_arch(const struct convoy_mb *mb)
{
        switch (mb->best->used_arch) {
        case IMB_ARCH_SSE: return "SSE";
        case IMB_ARCH_AVX2: return mb->sha != NULL ? "AVX2, SHA by SHA-NI" : "AVX2";
        case IMB_ARCH_AVX512: return mb->sha != NULL ? "AVX-512, few by SHA-NI" : "AVX-512";
        default: return "of another kind";
        }
}

/* DES and 3DES have vector code for AVX-512 only. The generic C code processes one block at a time, and on an AMD EPYC takes
 * 20 times as long as RustCrypto. */
int convoy_mb_has_vector_des(const struct convoy_mb *mb) { return mb->best->used_arch == IMB_ARCH_AVX512; }
