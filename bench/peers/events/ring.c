/* kevent of 2007: events are read in a ring of shared memory; how many bytes wait is asked of the descriptor. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "events.h"

#ifdef HAVE_KEVENT
#include <corelane/kevent.h>

enum { SIZE = 4096 };

static struct kevent_ring *ring;
static int queue, timers;
static int descriptors[HIGHEST];

static void ring_open(void)
{
	ring = kevent_ring_map(SIZE);
	queue = ring ? kevent_init(ring, SIZE, 0) : -1;
	checked(queue, "kevent_init");
}

static struct ukevent record(int which, uint32_t type, uint32_t first, uint32_t second, uint32_t event)
{
	return (struct ukevent){ .id = { .raw = { first, second } }, .type = type, .event = event, .user_u64 = (uint64_t)which };
}

static struct ukevent socket_record(int which, int fd)
{
	return record(which, KEVENT_SOCKET, (uint32_t)fd, 0, KEVENT_SOCKET_RECV);
}

static void ring_add(int which, int fd)
{
	struct ukevent one = socket_record(which, fd);

	descriptors[which] = fd;
	checked(kevent_ctl(queue, KEVENT_CTL_ADD, 1, &one), "kevent_ctl");
}

static void ring_remove(int which, int fd)
{
	struct ukevent one = socket_record(which, fd);

	checked(kevent_ctl(queue, KEVENT_CTL_REMOVE, 1, &one), "kevent_ctl");
}

static void ring_timer(int which, long period_ns)
{
	/* A timer is known by its period: no two have the same. */
	struct ukevent one = record(which, KEVENT_TIMER, 0, (uint32_t)(period_ns + which), KEVENT_TIMER_FIRED);

	checked(kevent_ctl(queue, KEVENT_CTL_ADD, 1, &one), "kevent_ctl");
	timers = 1;
}

static int ring_wait(struct event *events)
{
	uint32_t index = ring->ring_uidx, over = ring->ring_over;
	int count = (int)checked(kevent_wait(queue, BATCH, index, (struct timespec){ .tv_sec = -1 }, 0), "kevent_wait");

	for (int i = 0; i < count; i++) {
		struct ukevent *told = &ring->event[index];
		int which = (int)told->user_u64;

		events[i] = (struct event){ which, timers ? (long)told->ret_data[1] : bytes_at(descriptors[which]) };
		if (++index == SIZE) {
			index = 0;
			over++;
		}
	}
	checked(kevent_commit(queue, index, over) == count ? 0 : -1, "kevent_commit");
	return count;
}

const struct system ring_system = { "ring", ring_open, ring_add, ring_remove, ring_timer, ring_wait };
#endif
