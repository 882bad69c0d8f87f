/*
 * evtest: shows what a queue tells. `evtest [TIMERS [EVENTS [AT_ONCE]]]` registers so many timers of 1, 2, 3... milliseconds and ends when so
 * many events have come, taking at most AT_ONCE by a call.
 *
 * A line for each wake-up: the time, how many events came, how many were asked for, and how many microseconds have passed since the one before;
 * then a line for each event with two pairs of hexadecimal words: filter and flags with ident, and fflags with data.
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#include <sys/event.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

enum { MOST = 64 };

static int64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_REALTIME, &time);
	return (int64_t)time.tv_sec * 1000000 + time.tv_nsec / 1000;
}

static void show(const struct kevent *event)
{
	printf("  %04x%04x.%08" PRIxPTR " %08x.%08" PRIx64 "\n", (unsigned)(uint16_t)event->filter, (unsigned)event->flags, event->ident,
	    event->fflags, (uint64_t)event->data);
}

static int add_timers(int queue, int timers)
{
	for (int i = 0; i < timers; i++) {
		struct kevent change;

		EV_SET(&change, i, EVFILT_TIMER, EV_ADD, NOTE_MSECONDS, i + 1, NULL);
		if (kevent(queue, &change, 1, NULL, 0, NULL) < 0)
			return -1;
	}
	return 0;
}

/* Shows one wake-up; how many events it brought. */
static int show_wake(int queue, int room, int64_t *before)
{
	struct kevent events[MOST];
	int count = kevent(queue, NULL, 0, events, room, NULL);
	int64_t time = now();

	if (count < 0)
		return -1;
	printf("%" PRId64 ".%06" PRId64 ": num: %d, requested: %d, diff: %" PRId64 " usec.\n", time / 1000000, time % 1000000, count, room,
	    time - *before);
	for (int i = 0; i < count; i++)
		show(&events[i]);
	*before = time;
	return count;
}

int main(int argc, char **argv)
{
	int timers = argc > 1 ? atoi(argv[1]) : 1;
	long left = argc > 2 ? atol(argv[2]) : 10;
	int room = argc > 3 ? atoi(argv[3]) : MOST;
	int queue = kqueue();
	int64_t before = now();

	if (room < 1 || room > MOST) {
		fprintf(stderr, "evtest: AT_ONCE is 1 to %d\n", MOST);
		return 2;
	}
	if (queue < 0 || add_timers(queue, timers) < 0) {
		perror("evtest");
		return 1;
	}
	while (left > 0) {
		int count = show_wake(queue, room, &before);

		if (count < 0) {
			perror("kevent");
			return 1;
		}
		left -= count;
	}
	return 0;
}
