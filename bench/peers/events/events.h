/* What the systems of events have in common, for the program that measures them. SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef EVENTS_H
#define EVENTS_H

#include <stdio.h>
#include <stdlib.h>

enum { HIGHEST = 10000, BATCH = 256 };

/* What a system tells: which of the registered, and how many bytes it has or how often it has expired. */
struct event {
	int which;
	long count;
};

/* A system of events. Each registration is a call of its own, and each wait tells at most BATCH. */
struct system {
	const char *name;
	void (*open)(void);
	void (*add)(int which, int fd);
	void (*remove)(int which, int fd);
	void (*timer)(int which, long period_ns);
	int (*wait)(struct event *events);
};

/* Bytes that wait at a descriptor: what kqueue tells of itself the others have to ask for. */
long bytes_at(int fd);

extern const struct system epoll_system, uring_system;
#ifdef WITH_KQUEUE
extern const struct system kqueue_system;
#if __has_include(<corelane/kevent.h>)
#define HAVE_KEVENT
extern const struct system ring_system;
#endif
#endif

/* Ends the program where a call of the system's has failed. */
static inline long checked(long answer, const char *what)
{
	if (answer < 0) {
		perror(what);
		exit(1);
	}
	return answer;
}

#endif
