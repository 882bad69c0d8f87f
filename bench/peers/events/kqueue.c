/* kqueue(2): bytes and expirations come with the event. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "events.h"

#include <stdint.h>
#include <sys/types.h>
#include <sys/event.h>
#include <sys/time.h>

static int queue;

static void change(uintptr_t ident, short filter, unsigned short flags, unsigned int notes, long data, int which)
{
	struct kevent one;

	EV_SET(&one, ident, filter, flags, notes, data, (void *)(intptr_t)which);
	checked(kevent(queue, &one, 1, NULL, 0, NULL), "kevent");
}

static void kqueue_open(void)
{
	queue = (int)checked(kqueue(), "kqueue");
}

static void kqueue_add(int which, int fd)
{
	change((uintptr_t)fd, EVFILT_READ, EV_ADD, 0, 0, which);
}

static void kqueue_remove(int which, int fd)
{
	change((uintptr_t)fd, EVFILT_READ, EV_DELETE, 0, 0, which);
}

static void kqueue_timer(int which, long period_ns)
{
	change((uintptr_t)which, EVFILT_TIMER, EV_ADD, NOTE_NSECONDS, period_ns, which);
}

static int kqueue_wait(struct event *events)
{
	struct kevent told[BATCH];
	int count = (int)checked(kevent(queue, NULL, 0, told, BATCH, NULL), "kevent");

	for (int i = 0; i < count; i++)
		events[i] = (struct event){ (int)(intptr_t)told[i].udata, (long)told[i].data };
	return count;
}

const struct system kqueue_system = { "kqueue", kqueue_open, kqueue_add, kqueue_remove, kqueue_timer, kqueue_wait };
