/*
 * Threads are cancelled: while they wait for the ring of kevent, whose events are then taken by who comes after; while they wait by kqueue(2) and register files;
 * and while they close descriptors. Ends with 0 where all holds, else with the number of the line modulo 251.
 */
#include <corelane/kevent.h>
#include <sys/event.h>

#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#define EXPECT(what) \
	do { \
		if (!(what)) \
			return __LINE__ % 251; \
	} while (0)

#define SIZE 7
#define THREADS 4
#define EVENTS 50

static const struct timespec at_once = { 0, 0 }, soon = { 0, 1000000 };
static struct kevent_ring *ring;
static int queue;

static void *wait_on(void *unused)
{
	(void)unused;
	for (;;) {
		kevent_wait(queue, SIZE, ring->ring_uidx, soon, 0);
		pthread_testcancel();
	}
	return NULL;
}

/* Registers a file, and waits; ends at the next call of the C library that may wait. */
static void *use_queue(void *file)
{
	int queue = kqueue();
	struct kevent event;

	for (;;) {
		EV_SET(&event, *(int *)file, EVFILT_VNODE, EV_ADD | EV_CLEAR, NOTE_WRITE, 0, NULL);
		kevent(queue, &event, 1, NULL, 0, NULL);
		kevent(queue, NULL, 0, &event, 1, &soon);
		EV_SET(&event, *(int *)file, EVFILT_VNODE, EV_DELETE, 0, 0, NULL);
		kevent(queue, &event, 1, NULL, 0, NULL);
		pthread_testcancel();
	}
	return NULL;
}

static void *use_descriptors(void *file)
{
	for (;;)
		close(dup(*(int *)file));
	return NULL;
}

static int cancelled_elsewhere(void *(*routine)(void *))
{
	static int file;
	pthread_t thread;
	void *result;

	file = open("/", O_RDONLY);
	EXPECT(file >= 0);
	EXPECT(pthread_create(&thread, NULL, routine, &file) == 0);
	EXPECT(pthread_cancel(thread) == 0);
	EXPECT(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
	return close(file);
}

/* Takes what there is; whether it was the numbers from `next` on. */
static int take(uint64_t *next)
{
	uint64_t position = __atomic_load_n(&ring->ring_consumed, __ATOMIC_ACQUIRE);
	uint32_t count = kevent_ring_count(ring, position, SIZE), index = (uint32_t)position, over = (uint32_t)(position >> 32);

	for (uint32_t i = 0; i < count; i++) {
		if (ring->event[index].user_u64 != (*next)++)
			return 0;
		if (++index == SIZE) {
			index = 0;
			over++;
		}
	}
	return kevent_commit(queue, index, over) == (int)count;
}

static int cancelled(uint64_t *number, uint64_t *next)
{
	pthread_t threads[THREADS];
	struct ukevent one;

	for (int i = 0; i < THREADS; i++)
		EXPECT(pthread_create(&threads[i], NULL, wait_on, NULL) == 0);
	for (int i = 0; i < THREADS; i++) {
		memset(&one, 0, sizeof one);
		one.type = KEVENT_TIMER;
		one.id.raw[0] = 100000;
		one.event = KEVENT_TIMER_FIRED;
		one.req_flags = KEVENT_REQ_ONESHOT | KEVENT_REQ_ALWAYS_QUEUE;
		one.user_u64 = (*number)++;
		EXPECT(kevent_ctl(queue, KEVENT_CTL_ADD, 1, &one) == 0);
		EXPECT(kevent_ctl(queue, KEVENT_CTL_READY, 1, &one) == 1);
		EXPECT(pthread_cancel(threads[i]) == 0);
		EXPECT(pthread_join(threads[i], NULL) == 0);
		while (*next < *number) {
			kevent_wait(queue, SIZE, ring->ring_uidx, at_once, 0);
			EXPECT(take(next));
		}
	}
	return 0;
}

int main(void)
{
	uint64_t number = 0, next = 0;

	ring = kevent_ring_map(SIZE);
	queue = kevent_init(ring, SIZE, 0);
	EXPECT(queue >= 0);
	for (int i = 0; i < EVENTS; i++) {
		int line = cancelled(&number, &next);

		if (line == 0)
			line = cancelled_elsewhere(use_queue);
		if (line == 0)
			line = cancelled_elsewhere(use_descriptors);
		if (line != 0)
			return line;
	}
	return close(queue) | kevent_ring_unmap(ring);
}
