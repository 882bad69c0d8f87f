/*
 * The least that kqueue(2) needs in user space to serve evserver: a change becomes an epoll_ctl(2), an event is asked for its bytes (FIONREAD) and becomes a record of
 * kevent(2), and a close is looked at. It does for one thread and nothing but sockets, checks nothing, and takes one file for another where a number is used again. What
 * evserver costs on it no library that does more can undercut. SPDX-License-Identifier: MIT OR Apache-2.0
 */
#define _GNU_SOURCE
#include <sys/event.h>

#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { HIGHEST = 65536, BATCH = 256 };

static unsigned char watched[HIGHEST];
static void *cookies[HIGHEST];

int kqueue(void)
{
	return epoll_create1(EPOLL_CLOEXEC);
}

static void change(int queue, const struct kevent *asked)
{
	struct epoll_event event = { .events = asked->filter == EVFILT_READ ? EPOLLIN | EPOLLRDHUP : EPOLLOUT, .data.u64 = asked->ident };
	int fd = (int)asked->ident, removes = asked->flags & EV_DELETE;

	watched[fd] = !removes;
	cookies[fd] = asked->udata;
	epoll_ctl(queue, removes ? EPOLL_CTL_DEL : EPOLL_CTL_ADD, fd, &event);
}

static struct kevent told(const struct epoll_event *report)
{
	int fd = (int)report->data.u64, bytes = 0;
	unsigned short flags = report->events & EPOLLRDHUP ? EV_EOF : 0;

	ioctl(fd, FIONREAD, &bytes);
	return (struct kevent){ .ident = report->data.u64, .filter = EVFILT_READ, .flags = flags, .data = bytes, .udata = cookies[fd] };
}

int kevent(int queue, const struct kevent *changes, int count, struct kevent *events, int room, const struct timespec *timeout)
{
	struct epoll_event reports[BATCH];
	int ready;

	(void)timeout;
	for (int i = 0; i < count; i++)
		change(queue, &changes[i]);
	if (room == 0)
		return 0;
	ready = epoll_wait(queue, reports, room < BATCH ? room : BATCH, -1);
	for (int i = 0; i < ready; i++)
		events[i] = told(&reports[i]);
	return ready;
}

int close(int fd)
{
	if ((unsigned)fd < HIGHEST && watched[fd])
		watched[fd] = 0;
	return (int)syscall(SYS_close, fd);
}
