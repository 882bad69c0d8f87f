/*
 * kevent of 2007 as C programs have it: the record's layout, what the calls refuse, the ring, a child, a close. Ends with 0 where all holds, else with the
 * number of the line modulo 251.
 */
#include <corelane/kevent.h>

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define EXPECT(what) \
	do { \
		if (!(what)) \
			return __LINE__ % 251; \
	} while (0)
#define FAILS(what, number) EXPECT((errno = 0, (what)) == -1 && errno == (number))

#define SIZE 5

static const struct timespec at_once = { 0, 0 }, never = { -1, 0 };
static struct kevent_ring *ring;
static int queue;

static struct ukevent record(uint32_t type, uint64_t id, uint32_t event, uint32_t flags)
{
	struct ukevent one;

	memset(&one, 0, sizeof one);
	one.id.raw_u64 = id;
	one.type = type;
	one.event = event;
	one.req_flags = flags;
	one.user_u64 = id + 1;
	return one;
}

/* K-03: 40 bytes; K-15: the ring's indices. */
static int layout(void)
{
	EXPECT(sizeof(struct ukevent) == 40 && offsetof(struct ukevent, type) == 8 && offsetof(struct ukevent, ret_data) == 24);
	EXPECT(offsetof(struct ukevent, ptr) == 32 && offsetof(struct kevent_ring, ring_uidx) == 128);
	EXPECT(offsetof(struct kevent_ring, event) == 256);
	return 0;
}

/* K-08: a ring with its size, or neither; no size of 1, no flags, no other memory. */
static int init(void)
{
	static char foreign[4096];

	EXPECT((errno = 0, kevent_ring_map(1)) == NULL && errno == EINVAL);
	EXPECT((errno = 0, kevent_ring_map(KEVENT_MAX_RING + 1)) == NULL && errno == EINVAL);
	ring = kevent_ring_map(SIZE);
	EXPECT(ring != NULL);
	FAILS(kevent_init(ring, 0, 0), EINVAL);
	FAILS(kevent_init(NULL, SIZE, 0), EINVAL);
	FAILS(kevent_init(ring, 1, 0), EINVAL);
	FAILS(kevent_init(ring, SIZE + 1, 0), EINVAL);
	FAILS(kevent_init(ring, SIZE, 1), EINVAL);
	FAILS(kevent_init((struct kevent_ring *)(void *)foreign, SIZE, 0), EFAULT);
	FAILS(kevent_ring_unmap((struct kevent_ring *)(void *)foreign), EFAULT);
	queue = kevent_init(ring, SIZE, 0);
	EXPECT(queue >= 0);
	return 0;
}

/* Pointers to nothing, numbers of nothing, counts that are too large. */
static int refused(void)
{
	struct ukevent one = record(KEVENT_TIMER, 1000, KEVENT_TIMER_FIRED, 0);
	const struct timespec wrong = { 0, 1000000000 };
	long page = sysconf(_SC_PAGESIZE);
	char *gone = (char *)mmap(NULL, 3 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int plain = kevent_init(NULL, 0, 0), other = dup(0);
	struct ukevent *across, *locked;

	EXPECT(gone != MAP_FAILED && plain >= 0 && other >= 0);
	EXPECT(munmap(gone + page, (size_t)page) == 0 && mprotect(gone + 2 * page, (size_t)page, PROT_READ) == 0);
	across = (struct ukevent *)(void *)(gone + page - 40);
	locked = (struct ukevent *)(void *)(gone + 2 * page);
	FAILS(kevent_ctl(queue, KEVENT_CTL_ADD, 1, NULL), EFAULT);
	FAILS(kevent_ctl(queue, KEVENT_CTL_ADD, 2, across), EFAULT);
	FAILS(kevent_ctl(queue, KEVENT_CTL_ADD, 1, locked), EFAULT);
	FAILS(kevent_ctl(queue, KEVENT_CTL_ADD, 1, (struct ukevent *)UINTPTR_MAX), EFAULT);
	FAILS(kevent_get_events(queue, 1, 1, at_once, NULL, 0), EFAULT);
	FAILS(kevent_get_events(queue, 1, 2, at_once, across, 0), EFAULT);
	FAILS(kevent_get_events(queue, 1, 1, at_once, locked, 0), EFAULT);
	FAILS(kevent_put(queue, NULL), EFAULT);
	FAILS(kevent_get_stats(queue, NULL), EFAULT);
	for (int fd = -1; fd <= other; fd += other + 1) {
		FAILS(kevent_ctl(fd, KEVENT_CTL_ADD, 1, &one), EBADF);
		FAILS(kevent_get_events(fd, 0, 1, at_once, &one, 0), EBADF);
		FAILS(kevent_wait(fd, 1, 0, at_once, 0), EBADF);
		FAILS(kevent_commit(fd, 0, 0), EBADF);
	}
	FAILS(kevent_ctl(queue, 4, 1, &one), EINVAL);
	FAILS(kevent_ctl(queue, KEVENT_CTL_ADD, KEVENT_MAX_RECORDS + 1, &one), EINVAL);
	FAILS(kevent_ctl(queue, KEVENT_CTL_REMOVE, 1, &one), EINVAL);
	FAILS(kevent_get_events(queue, 0, 1, wrong, &one, 0), EINVAL);
	FAILS(kevent_get_events(queue, 0, 1, at_once, &one, 2), EINVAL);
	FAILS(kevent_wait(queue, 1, 0, wrong, 0), EINVAL);
	FAILS(kevent_wait(plain, 1, 0, at_once, 0), EINVAL);
	FAILS(kevent_commit(plain, 0, 0), EINVAL);
	EXPECT(close(plain) == 0 && close(other) == 0);
	return 0;
}

/* K-09, K-10: what is ready or refused comes to the front; marks; the end of a registration. */
static int control(void)
{
	struct ukevent some[3];
	int ends[2];

	EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
	some[0] = record(KEVENT_TIMER, 1000, KEVENT_TIMER_FIRED, 0);
	some[1] = record(KEVENT_SOCKET, 123456, KEVENT_SOCKET_RECV, 0);
	some[2] = record(KEVENT_SOCKET, (uint64_t)ends[0], KEVENT_SOCKET_SEND, KEVENT_REQ_ONESHOT);
	EXPECT(kevent_ctl(queue, KEVENT_CTL_ADD, 3, some) == 2);
	EXPECT(some[0].ret_flags & KEVENT_RET_BROKEN && some[0].ret_data[1] == EBADF);
	EXPECT(some[1].ret_flags == KEVENT_RET_DONE && some[1].event == KEVENT_SOCKET_SEND && some[1].user_u64 == (uint64_t)ends[0] + 1);
	some[0] = record(KEVENT_TIMER, 1000, KEVENT_TIMER_FIRED, 0);
	EXPECT(kevent_ctl(queue, KEVENT_CTL_READY, 1, some) == 1 && kevent_ctl(queue, KEVENT_CTL_READY, 0, NULL) == 0);
	EXPECT(kevent_ctl(queue, KEVENT_CTL_REMOVE, 1, some) == 1 && some[0].ret_flags == KEVENT_RET_DONE);
	EXPECT(kevent_get_events(queue, 0, 3, at_once, some, 0) == 0);
	return close(ends[0]) | close(ends[1]);
}

/* K-12: a minimum, and a descriptor that does not block. */
static int get_events(void)
{
	struct ukevent some[3] = { record(KEVENT_TIMER, 1000, KEVENT_TIMER_FIRED, 0) };
	struct timespec past = { 1, 0 };

	EXPECT(kevent_ctl(queue, KEVENT_CTL_ADD, 1, some) == 0 && kevent_ctl(queue, KEVENT_CTL_READY, 1, some) == 1);
	EXPECT(kevent_get_events(queue, 2, 3, past, some, KEVENT_FLAGS_ABSTIME) == 1);
	EXPECT(fcntl(queue, F_SETFL, O_NONBLOCK) == 0);
	EXPECT(kevent_get_events(queue, 2, 3, never, some, 0) == 0 && kevent_wait(queue, 1, ring->ring_uidx + 1, never, 0) == 0);
	EXPECT(fcntl(queue, F_SETFL, 0) == 0);
	EXPECT(kevent_commit(queue, ring->ring_kidx, ring->ring_kover) == 1);
	EXPECT(kevent_ctl(queue, KEVENT_CTL_REMOVE, 1, some) == 1);
	return 0;
}

/* K-13 to K-15: events are moved to the ring, read there, and committed; with each round over counts on. */
static int rounds(void)
{
	struct ukevent one = record(KEVENT_TIMER, 1000, KEVENT_TIMER_FIRED, KEVENT_REQ_ALWAYS_QUEUE);
	struct kevent_stats stats;

	EXPECT(kevent_ctl(queue, KEVENT_CTL_ADD, 1, &one) == 0);
	for (int i = 0; i < 3 * SIZE; i++) {
		uint64_t position = ring->ring_consumed;
		uint32_t index = ring->ring_uidx, next = (index + 1) % SIZE, over = ring->ring_over + (next == 0);

		EXPECT(kevent_ring_count(ring, position, SIZE) == 0 && kevent_ctl(queue, KEVENT_CTL_READY, 1, &one) == 1);
		EXPECT(kevent_wait(queue, SIZE, index, never, 0) == 1 && kevent_ring_count(ring, position, SIZE) == 1);
		EXPECT(ring->event[index].id.raw_u64 == 1000 && ring->event[index].user_u64 == 1001);
		FAILS(kevent_commit(queue, SIZE, ring->ring_over), EINVAL);
		FAILS(kevent_commit(queue, index, ring->ring_over + 1), EINVAL);
		EXPECT(kevent_commit(queue, next, over) == 1 && kevent_commit(queue, next, over) == 0);
		if (next == 0)
			FAILS(kevent_commit(queue, SIZE - 1, over - 1), EOVERFLOW);
	}
	EXPECT(kevent_get_stats(queue, &stats) == 0 && stats.wait >= 3 * SIZE);
	EXPECT(stats.total == stats.wait + stats.get_events + stats.at_once);
	EXPECT(kevent_ctl(queue, KEVENT_CTL_REMOVE, 1, &one) == 1);
	return 0;
}

static int in_child(void)
{
	struct ukevent one = record(KEVENT_TIMER, 7, KEVENT_TIMER_FIRED, 0);
	int own;

	FAILS(kevent_ctl(queue, KEVENT_CTL_ADD, 1, &one), EBADF);
	FAILS(kevent_get_events(queue, 0, 1, at_once, &one, 0), EBADF);
	EXPECT(kevent_put(queue, &one) == 0);
	EXPECT(kevent_wait(queue, 1, ring->ring_uidx, never, 0) == 0 && ring->ring_kidx != ring->ring_uidx);
	own = kevent_init(NULL, 0, 0);
	EXPECT(own >= 0 && kevent_ctl(own, KEVENT_CTL_ADD, 1, &one) == 0 && close(own) == 0);
	EXPECT(kevent_put(queue, &one) == 0);
	return 0;
}

/* A child shares the ring alone; killed in the middle of its work it leaves it whole. */
static int children(void)
{
	struct ukevent one = record(KEVENT_TIMER, 7, KEVENT_TIMER_FIRED, 0);
	int status;
	pid_t child = fork();

	EXPECT(child >= 0);
	if (child == 0)
		_exit(in_child());
	EXPECT(waitpid(child, &status, 0) == child);
	if (status != 0)
		return WEXITSTATUS(status);
	EXPECT(kevent_ring_count(ring, ring->ring_consumed, SIZE) == 2);
	for (int i = 0; i < 20; i++) {
		child = fork();
		EXPECT(child >= 0);
		while (child == 0) {
			kevent_put(queue, &one);
			kevent_commit(queue, ring->ring_kidx, ring->ring_kover);
		}
		while (kevent_ring_count(ring, ring->ring_consumed, SIZE) == 0)
			;
		EXPECT(kill(child, SIGKILL) == 0 && waitpid(child, &status, 0) == child && WIFSIGNALED(status));
		EXPECT(kevent_commit(queue, ring->ring_kidx, ring->ring_kover) >= 0);
		EXPECT(kevent_put(queue, &one) == 0 && kevent_commit(queue, ring->ring_kidx, ring->ring_kover) == 1);
	}
	return 0;
}

/* K-17: the end of an origin is told; a queue ends with its descriptor. */
static int ends(void)
{
	uint32_t index = ring->ring_uidx;
	int pair[2], plain = kevent_init(NULL, 0, 0);
	struct ukevent one;

	EXPECT(plain >= 0 && close(plain) == 0);
	FAILS(kevent_commit(plain, 0, 0), EBADF);
	EXPECT(socketpair(AF_UNIX, SOCK_STREAM, 0, pair) == 0);
	one = record(KEVENT_SOCKET, (uint64_t)pair[0], KEVENT_SOCKET_RECV, 0);
	EXPECT(kevent_ctl(queue, KEVENT_CTL_ADD, 1, &one) == 0 && close(pair[0]) == 0);
	EXPECT(kevent_wait(queue, SIZE, index, never, 0) == 1);
	EXPECT(ring->event[index].ret_flags & KEVENT_RET_BROKEN && ring->event[index].user_u64 == one.user_u64);
	return close(pair[1]);
}

int main(int argc, char **argv)
{
	int (*const parts[])(void) = { layout, init, refused, control, get_events, rounds, children, ends };
	size_t count = sizeof parts / sizeof parts[0] - (argc > 1 && strcmp(argv[1], "static") == 0);

	for (size_t i = 0; i < count; i++) {
		int line = parts[i]();

		if (line != 0)
			return line;
	}
	return close(queue) | kevent_ring_unmap(ring);
}
