/* A plain loop on epoll(7), with a timerfd(2) for each timer. SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "events.h"

#include <stdint.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int set;
static int descriptors[HIGHEST];
static int timers;

static void epoll_open(void)
{
	set = (int)checked(epoll_create1(EPOLL_CLOEXEC), "epoll_create1");
}

static void epoll_add(int which, int fd)
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLRDHUP, .data.u32 = (uint32_t)which };

	descriptors[which] = fd;
	checked(epoll_ctl(set, EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
}

static void epoll_remove(int which, int fd)
{
	(void)which;
	checked(epoll_ctl(set, EPOLL_CTL_DEL, fd, NULL), "epoll_ctl");
}

static void epoll_timer(int which, long period_ns)
{
	struct timespec period = { period_ns / 1000000000, period_ns % 1000000000 };
	struct itimerspec both = { period, period };
	int fd = (int)checked(timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC), "timerfd_create");

	checked(timerfd_settime(fd, 0, &both, NULL), "timerfd_settime");
	epoll_add(which, fd);
	timers = 1;
}

static long expirations(int fd)
{
	uint64_t count = 0;

	checked(read(fd, &count, sizeof count), "read");
	return (long)count;
}

static int epoll_ready(struct event *events)
{
	struct epoll_event told[BATCH];
	int count = (int)checked(epoll_wait(set, told, BATCH, -1), "epoll_wait");

	for (int i = 0; i < count; i++) {
		int which = (int)told[i].data.u32, fd = descriptors[which];

		events[i] = (struct event){ which, timers ? expirations(fd) : bytes_at(fd) };
	}
	return count;
}

const struct system epoll_system = { "epoll", epoll_open, epoll_add, epoll_remove, epoll_timer, epoll_ready };
