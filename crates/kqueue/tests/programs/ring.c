/* Rounds of a byte on each of 400 sockets, whose events are read in the ring of kevent, or by epoll: `ring ROUNDS [epoll]`. */
#include <corelane/kevent.h>

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKETS 400
#define EVENTS 1000

static int ends[SOCKETS][2];
static struct kevent_ring *ring;
static struct epoll_event reports[SOCKETS];

static int open_kevent(void)
{
	int queue;

	ring = kevent_ring_map(EVENTS);
	queue = kevent_init(ring, EVENTS, 0);
	for (int i = 0; i < SOCKETS; i++) {
		struct ukevent one = { .id = { .raw_u64 = (uint64_t)ends[i][0] }, .event = KEVENT_SOCKET_RECV };

		if (kevent_ctl(queue, KEVENT_CTL_ADD, 1, &one) != 0)
			exit(2);
	}
	return queue;
}

static int open_epoll(void)
{
	int set = epoll_create1(EPOLL_CLOEXEC);

	for (int i = 0; i < SOCKETS; i++) {
		struct epoll_event one = { .events = EPOLLIN, .data = { .fd = ends[i][0] } };

		if (epoll_ctl(set, EPOLL_CTL_ADD, ends[i][0], &one) != 0)
			exit(3);
	}
	return set;
}

static int take(int fd)
{
	char byte;

	return read(fd, &byte, 1) == 1;
}

static int by_kevent(int queue)
{
	const struct timespec never = { .tv_sec = -1 };
	uint32_t index = ring->ring_uidx, over = ring->ring_over;
	int count = kevent_wait(queue, EVENTS, index, never, 0), taken = 0;

	for (int i = 0; i < count; i++) {
		taken += take((int)ring->event[index].id.raw_u64);
		if (++index == EVENTS) {
			index = 0;
			over++;
		}
	}
	return kevent_commit(queue, index, over) == count ? taken : -1;
}

static int by_epoll(int set)
{
	int count = epoll_wait(set, reports, SOCKETS, -1), taken = 0;

	for (int i = 0; i < count; i++)
		taken += take(reports[i].data.fd);
	return taken;
}

int main(int argc, char **argv)
{
	int queue, by_ring = argc == 2;

	for (int i = 0; i < SOCKETS; i++)
		if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]) != 0)
			return 4;
	queue = by_ring ? open_kevent() : open_epoll();
	for (int rounds = atoi(argv[1]); rounds > 0; rounds--) {
		for (int i = 0; i < SOCKETS; i++)
			if (write(ends[i][1], "x", 1) != 1)
				return 5;
		if ((by_ring ? by_kevent(queue) : by_epoll(queue)) != SOCKETS)
			return 6;
	}
	return 0;
}
