/* Rounds of a byte on each of 400 sockets, whose events are read in the ring of kevent, which has room for EVENTS, at most BATCH by a call: `ring ROUNDS EVENTS BATCH`. */
#include <corelane/kevent.h>

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define SOCKETS 400

static int ends[SOCKETS][2];
static struct kevent_ring *ring;
static unsigned size;

static int open_kevent(void)
{
	int queue;

	ring = kevent_ring_map(size);
	queue = kevent_init(ring, size, 0);
	for (int i = 0; i < SOCKETS; i++) {
		struct ukevent one = { .id = { .raw_u64 = (uint64_t)ends[i][0] }, .event = KEVENT_SOCKET_RECV };

		if (kevent_ctl(queue, KEVENT_CTL_ADD, 1, &one) != 0)
			exit(2);
	}
	return queue;
}

static int take(int fd)
{
	char byte;

	return read(fd, &byte, 1) == 1;
}

/* How many were told by one call, and taken. */
static int take_batch(int queue, unsigned batch)
{
	const struct timespec never = { .tv_sec = -1 };
	uint32_t index = ring->ring_uidx, over = ring->ring_over;
	int count = kevent_wait(queue, batch, index, never, 0), taken = 0;

	for (int i = 0; i < count; i++) {
		taken += take((int)ring->event[index].id.raw_u64);
		if (++index == size) {
			index = 0;
			over++;
		}
	}
	return kevent_commit(queue, index, over) == count ? taken : -1;
}

int main(int argc, char **argv)
{
	int queue;

	for (int i = 0; i < SOCKETS; i++)
		if (argc != 4 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends[i]) != 0)
			return 4;
	size = (unsigned)atoi(argv[2]);
	queue = open_kevent();
	for (int rounds = atoi(argv[1]); rounds > 0; rounds--) {
		for (int i = 0; i < SOCKETS; i++)
			if (write(ends[i][1], "x", 1) != 1)
				return 5;
		for (int left = SOCKETS, taken; left > 0; left -= taken) {
			taken = take_batch(queue, (unsigned)atoi(argv[3]));
			if (taken <= 0)
				return 6;
		}
	}
	return 0;
}
