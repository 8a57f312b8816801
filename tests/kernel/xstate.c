/* For user-mode-linux on processors with AMX, loaded before it (LD_PRELOAD).
 *
 * User-mode-linux keeps a process's vector registers in a buffer for AVX-512. Where the processor has more state than that, its
 * kernel takes the state only whole (PTRACE_SETREGSET with NT_X86_XSTATE), and user-mode-linux crashes as it starts its first
 * process. What is missing is therefore filled in with what the process has. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

typedef long ptrace_call(int request, pid_t pid, void *address, void *data);

/* Not on the stack, which is small there. User-mode-linux makes this call from one thread. */
static _Alignas(64) char whole[1 << 16];

long ptrace(enum __ptrace_request request, ...)
{
	static ptrace_call *next;
	va_list arguments;
	va_start(arguments, request);
	pid_t pid = va_arg(arguments, pid_t);
	void *address = va_arg(arguments, void *);
	void *data = va_arg(arguments, void *);
	va_end(arguments);
	if (!next)
		next = (ptrace_call *)dlsym(RTLD_NEXT, "ptrace");
	if (request == PTRACE_SETREGSET && (unsigned long)address == NT_X86_XSTATE) {
		const struct iovec *given = data;
		struct iovec all = { .iov_base = whole, .iov_len = sizeof whole };
		if (next(PTRACE_GETREGSET, pid, address, &all) == 0 && all.iov_len > given->iov_len) {
			memcpy(whole, given->iov_base, given->iov_len);
			return next(PTRACE_SETREGSET, pid, address, &all);
		}
	}
	return next(request, pid, address, data);
}
