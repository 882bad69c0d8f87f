/*
 * Three threads make queues, and use one of all, at once. Built with ThreadSanitizer it ends with 0 where that has nothing to say.
 */
#include <sys/event.h>

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define ROUNDS 200
#define THREADS 3

static int shared;

static void change(int queue, int ident, short filter, int data)
{
	struct kevent event;

	EV_SET(&event, ident, filter, EV_ADD, 0, data, NULL);
	if (kevent(queue, &event, 1, NULL, 0, NULL) != 0)
		abort();
}

static void *use(void *nothing)
{
	const struct timespec at_once = { 0, 0 };
	struct kevent events[8];

	for (int round = 0; round < ROUNDS; round++) {
		int ends[2], queue = kqueue();

		if (queue < 0 || pipe(ends) != 0 || write(ends[1], "a", 1) != 1)
			abort();
		change(queue, ends[0], EVFILT_READ, 0);
		change(shared, ends[0], EVFILT_READ, 0);
		change(shared, round, EVFILT_TIMER, 1);
		if (kevent(queue, NULL, 0, events, 8, &at_once) != 1 || kevent(shared, NULL, 0, events, 8, &at_once) < 0)
			abort();
		close(queue);
		close(ends[0]);
		close(ends[1]);
	}
	return nothing;
}

int main(void)
{
	pthread_t threads[THREADS];

	shared = kqueue();
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, use, NULL) != 0)
			abort();
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return close(shared);
}
