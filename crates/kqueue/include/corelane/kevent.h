/*
 * kevent of 2007 for Linux: event queues whose events are taken from a ring in shared memory, without a call.
 *
 * Link with -lcorelane_kqueue. What differs from the original is listed in kevent_init(2)'s section DIFFERENCES.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#ifndef CORELANE_KEVENT_H
#define CORELANE_KEVENT_H

#include <stdint.h>
#include <time.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the ring's indices are laid out for machines whose lower half comes first"
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Unions without a name are C11's, and arrays without a length are not C++'s: every compiler of Linux has both. */
#ifdef __GNUC__
#define KEVENT_EXTENSION __extension__
#else
#define KEVENT_EXTENSION
#endif

struct timespec; /* <time.h> has it, but not in strict C99 */

/* type: what `id` names. */
#define KEVENT_SOCKET 0 /* a descriptor of a socket */
#define KEVENT_INODE 1  /* a descriptor of a directory */
#define KEVENT_TIMER 2  /* raw[0] seconds and raw[1] nanoseconds, again and again */
#define KEVENT_POLL 3   /* a descriptor of anything that can be polled */
#define KEVENT_NAIO 4   /* of the original; all operations are told as KEVENT_AIO */
#define KEVENT_AIO 5    /* an operation of corelane/aio.h, on this queue: ret_data[0] bytes or descriptor, ret_data[1] errno */
#define KEVENT_PIPE 6   /* a descriptor of a pipe */
#define KEVENT_SIGNAL 7 /* a signal number */

/* event: what is asked for; in a record that is told, what has come. For KEVENT_POLL the bits of poll(2). */
#define KEVENT_TIMER_FIRED 0x1
#define KEVENT_SOCKET_RECV 0x1 /* of pipes, too */
#define KEVENT_SOCKET_ACCEPT 0x2
#define KEVENT_SOCKET_SEND 0x4 /* of pipes, too */
#define KEVENT_INODE_CREATE 0x1
#define KEVENT_INODE_REMOVE 0x2
#define KEVENT_SIGNAL_DELIVERED 0x1
#define KEVENT_AIO_COMPLETE 0x1
#define KEVENT_AIO_LIST_COMPLETE 0x2

/* In raw_u64 of a signal: it is not delivered in the usual way as well. It never is. */
#define KEVENT_SIGNAL_NOMASK 0x8000000000000000ULL

/* req_flags. */
#define KEVENT_REQ_ONESHOT 0x1       /* told once, then removed */
#define KEVENT_REQ_WAKEUP_ALL 0x2    /* every queue that waits for the origin is woken, and not one */
#define KEVENT_REQ_ET 0x4            /* told once for each activity; else as long as it is so */
#define KEVENT_REQ_LAST_CHECK 0x8    /* asked again when it is handed out, and told only if it is still so */
#define KEVENT_REQ_ALWAYS_QUEUE 0x10 /* queued also where it is ready when it is added */

/* ret_flags. */
#define KEVENT_RET_BROKEN 0x1      /* the origin has ended, or the request was refused: errno in ret_data[1] */
#define KEVENT_RET_DONE 0x2        /* processed */
#define KEVENT_RET_COPY_FAILED 0x4 /* of the original; never told */

/* Commands of kevent_ctl(). */
#define KEVENT_CTL_ADD 0
#define KEVENT_CTL_REMOVE 1
#define KEVENT_CTL_MODIFY 2
#define KEVENT_CTL_READY 3

/* Flags of kevent_get_events() and kevent_wait(): the timeout is an instant of the wall clock. */
#define KEVENT_FLAGS_ABSTIME 0x1

/* The most records of one call of kevent_ctl(), and the most events in a ring. */
#define KEVENT_MAX_RECORDS 65536
#define KEVENT_MAX_RING 1048576

KEVENT_EXTENSION struct kevent_id {
	KEVENT_EXTENSION union {
		uint32_t raw[2];
		uint64_t raw_u64;
	};
};

struct ukevent {
	struct kevent_id id;
	uint32_t type;
	uint32_t event;
	uint32_t req_flags;
	uint32_t ret_flags;
	uint32_t ret_data[2];
	KEVENT_EXTENSION union {
		uint32_t user[2];
		void *ptr;
		uint64_t user_u64;
	};
};

/*
 * Each position is an index, less than the ring's size, and how often it has gone round. What lies from uidx to kidx can be read. The rest is the
 * library's.
 */
struct kevent_ring {
	KEVENT_EXTENSION union {
		KEVENT_EXTENSION struct {
			uint32_t ring_kidx;  /* where the next event goes */
			uint32_t ring_kover; /* how often that has gone round */
		};
		uint64_t ring_produced;
	};
	uint64_t ring_library[15];
	KEVENT_EXTENSION union {
		KEVENT_EXTENSION struct {
			uint32_t ring_uidx; /* how far events were committed */
			uint32_t ring_over; /* how often that has gone round */
		};
		uint64_t ring_consumed;
	};
	uint64_t ring_library_too[15];
	KEVENT_EXTENSION struct ukevent event[];
};

/* How events were told: by kevent_get_events(), by kevent_wait(), as they were added, and in all. */
struct kevent_stats {
	uint64_t get_events;
	uint64_t wait;
	uint64_t at_once;
	uint64_t total;
};

/* How many events can be read from `position` on, a copy of ring_consumed or further, in a ring of `size`. No call to the system. */
static inline uint32_t kevent_ring_count(const struct kevent_ring *ring, uint64_t position, uint32_t size)
{
	uint64_t produced = __atomic_load_n(&ring->ring_produced, __ATOMIC_ACQUIRE);
	uint32_t rounds = (uint32_t)(produced >> 32) - (uint32_t)(position >> 32);

	return rounds * size + (uint32_t)produced - (uint32_t)position;
}

struct kevent_ring *kevent_ring_map(unsigned int size);
int kevent_ring_unmap(struct kevent_ring *ring);

int kevent_init(struct kevent_ring *ring, unsigned int ring_size, unsigned int flags);
int kevent_ctl(int fd, unsigned int cmd, unsigned int num, struct ukevent *arg);
int kevent_get_events(int fd, unsigned int min_nr, unsigned int max_nr, struct timespec timeout, struct ukevent *buf,
    unsigned int flags);
int kevent_wait(int fd, unsigned int num, unsigned int old_uidx, struct timespec timeout, unsigned int flags);
int kevent_commit(int fd, unsigned int new_uidx, unsigned int over);
int kevent_put(int fd, const struct ukevent *event);
int kevent_get_stats(int fd, struct kevent_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
