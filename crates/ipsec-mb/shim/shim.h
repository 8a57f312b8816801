/* A flat interface over ipsec-mb, so that the layout of its structures comes from its own header.
 *
 * AEADs process one packet at a time: AES-GCM and AES-GMAC with the direct functions, which on one core are faster than jobs;
 * ChaCha20-Poly1305 with jobs, which are faster there. A burst of ciphers with a hash is one call, with a key for each packet:
 * its jobs fill the lanes of the multi-buffer code, and the lanes are flushed once, at the end. The library's burst interface
 * takes 5 % less time at 64 bytes and no less from 512 bytes on, but one bad job makes it refuse the whole burst, and since
 * 1.4 it needs a session for each job. */

#ifndef CONVOY_MB_SHIM_H
#define CONVOY_MB_SHIM_H

#include <intel-ipsec-mb.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum cipher { C_NULL, C_GCM, C_GMAC, C_CHACHA, C_CBC, C_CTR, C_3DES, C_DES };
enum hash { H_NONE, H_MD5, H_SHA1, H_SHA256, H_SHA384, H_SHA512 };

/* Mirrors Descriptor in lib.rs. */
struct convoy_mb_job {
        uint8_t *packet;
        const struct convoy_mb_key *key;
        const uint8_t *nonce; /* 16 bytes can be read */
        const uint8_t *aad;   /* 12 bytes can be read */
        uint8_t *tag;         /* AEADs: in the packet, written or compared; else output */
        uint32_t cipher_start, cipher_len;
        uint32_t auth_start, auth_len;
        uint8_t nonce_len, aad_len, state, seal;
        uint8_t cipher, key_len, tag_len, unused; /* copied from `key` */
};

enum state { S_REFUSED, S_DONE, S_MISMATCH };

/* Working memory of AEADs. It holds keystream, so it is wiped after each burst. */
union context {
        struct gcm_context_data gcm;
        struct chacha20_poly1305_context_data chacha;
};

/* A union keeps keys small: with many SAs they are often not in the cache. */
struct convoy_mb_key {
        union {
                struct gcm_key_data gcm; /* AES-GCM and AES-GMAC */
                struct {
                        DECLARE_ALIGNED(uint8_t ipad[64], 16);
                        DECLARE_ALIGNED(uint8_t opad[64], 16);
                        union {
                                struct { /* AES-CBC and AES-CTR */
                                        DECLARE_ALIGNED(uint8_t enc[16 * 15], 16);
                                        DECLARE_ALIGNED(uint8_t dec[16 * 15], 16);
                                };
                                DECLARE_ALIGNED(uint64_t des[3][IMB_DES_KEY_SCHED_SIZE / 8], 16); /* DES and 3DES */
                        };
                };
        };
        uint8_t raw[32]; /* ChaCha20-Poly1305 */
        const void *des_pointers[3];
        uint32_t cipher, hash, key_len, tag_len;
};

struct convoy_mb {
        IMB_MGR *best;   /* the library's choice for this processor */
        IMB_MGR *chacha; /* as `best`, for ChaCha20-Poly1305 only, so that each job completes on submission */
        IMB_MGR *sha;    /* hashes with SHA instructions if `best` does not; else NULL */
        union context context;
};

static inline int is_aead(uint32_t cipher)
{
        return cipher == C_GCM || cipher == C_GMAC || cipher == C_CHACHA;
}

#endif
