/*
 * What an event costs by one of several systems of events. Prints one line: events, nanoseconds of CPU, nanoseconds, waits.
 *
 *     events SYSTEM sockets REGISTERED ACTIVE MILLISECONDS CPU   of REGISTERED sockets each time ACTIVE become readable; CPU is the writer's
 *     events SYSTEM rounds  REGISTERED ACTIVE ROUNDS CPU         the same, so often, with nothing that does not count
 *     events SYSTEM changes REGISTERED MILLISECONDS              each is added, and then removed; both are one event
 *     events SYSTEM timers  REGISTERED MILLISECONDS              each expires every 10 ms
 *
 * SPDX-License-Identifier: MIT OR Apache-2.0
 */
#define _GNU_SOURCE
#include "events.h"

#include <sched.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE = 64, PERIOD_NS = 10000000, WARM_UP_MS = 200 };

static const struct system *chosen;
static int ours[HIGHEST], theirs[HIGHEST];
static long events, cpu_ns, wall_ns, waits;

long bytes_at(int fd)
{
	int count = 0;

	checked(ioctl(fd, FIONREAD, &count), "FIONREAD");
	return count;
}

static long now(clockid_t clock)
{
	struct timespec time;

	clock_gettime(clock, &time);
	return time.tv_sec * 1000000000 + time.tv_nsec;
}

static long begun_cpu, begun_wall;

static void begin(void)
{
	begun_wall = now(CLOCK_MONOTONIC);
	begun_cpu = now(CLOCK_PROCESS_CPUTIME_ID);
}

static void end(void)
{
	cpu_ns += now(CLOCK_PROCESS_CPUTIME_ID) - begun_cpu;
	wall_ns += now(CLOCK_MONOTONIC) - begun_wall;
}

static int number(const char *word, int least, int most)
{
	int value = word ? atoi(word) : -1;

	if (value < least || value > most) {
		fprintf(stderr, "expected a number of %d to %d, got %s\n", least, most, word ? word : "nothing");
		exit(2);
	}
	return value;
}

/* Sockets. */

static void pairs(int registered)
{
	for (int i = 0; i < registered; i++) {
		int both[2];

		checked(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both), "socketpair");
		ours[i] = both[0];
		theirs[i] = both[1];
	}
}

/* Writes to ACTIVE of them, others each time and evenly among all, whenever it is told to. */
static void write_when_told(int registered, int active, int cpu, int told, int tells)
{
	cpu_set_t one;
	char message[MESSAGE], byte;
	int first = 0;

	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	sched_setaffinity(0, sizeof one, &one);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	memset(message, 'm', MESSAGE);
	while (read(told, &byte, 1) == 1) {
		for (int i = 0; i < active; i++) {
			int which = (int)(((long)i * registered / active + first) % registered);

			if (write(theirs[which], message, MESSAGE) != MESSAGE)
				checked(-1, "write");
		}
		first = (first + 1) % registered;
		checked(write(tells, "d", 1), "write");
	}
	_exit(0);
}

/* Takes what is there until all that was written has come. */
static void collect(int active)
{
	struct event told[BATCH];
	char bytes[MESSAGE];
	int taken = 0;

	while (taken < active) {
		int count = chosen->wait(told);

		waits++;
		for (int i = 0; i < count; i++) {
			if (told[i].count != MESSAGE || read(ours[told[i].which], bytes, (size_t)told[i].count) != MESSAGE) {
				fprintf(stderr, "%s told %ld bytes of %d\n", chosen->name, told[i].count, told[i].which);
				exit(1);
			}
		}
		taken += count;
	}
	if (taken > active) {
		fprintf(stderr, "%s told %d events of %d\n", chosen->name, taken, active);
		exit(1);
	}
	events += active;
}

/* Has a process of its own write to them. */
static void start_writer(int registered, int active, int cpu, int *go, int *done)
{
	int to[2], from[2];

	pairs(registered);
	checked(pipe(to) | pipe(from), "pipe");
	if (checked(fork(), "fork") == 0) {
		close(to[1]);
		write_when_told(registered, active, cpu, to[0], from[1]);
	}
	for (int i = 0; i < registered; i++)
		close(theirs[i]);
	*go = to[1];
	*done = from[0];
}

static void one_round(int active, int go, int done)
{
	char byte;

	checked(write(go, "g", 1), "write");
	if (checked(read(done, &byte, 1), "read") != 1)
		exit(1);
	begin();
	collect(active);
	end();
}

static void sockets(int registered, int active, long milliseconds, int rounds, int cpu)
{
	int go, done;

	start_writer(registered, active, cpu, &go, &done);
	chosen->open();
	for (int i = 0; i < registered; i++)
		chosen->add(i, ours[i]);
	for (int i = 0; i < rounds; i++)
		one_round(active, go, done);
	if (rounds)
		return;
	long warm = now(CLOCK_MONOTONIC) + WARM_UP_MS * 1000000L, last = warm + milliseconds * 1000000L;
	while (now(CLOCK_MONOTONIC) < warm)
		one_round(active, go, done);
	events = cpu_ns = wall_ns = waits = 0;
	/* One at least, however long another program has kept the CPU. */
	do
		one_round(active, go, done);
	while (now(CLOCK_MONOTONIC) < last);
}

/* Changes. */

static void changes(int registered, long milliseconds)
{
	pairs(registered);
	chosen->open();
	long last = now(CLOCK_MONOTONIC) + (WARM_UP_MS + milliseconds) * 1000000L;
	for (int round = 0; round < 2 || now(CLOCK_MONOTONIC) < last; round++) {
		if (round == 1)
			events = cpu_ns = wall_ns = 0;
		begin();
		for (int i = 0; i < registered; i++)
			chosen->add(i, ours[i]);
		for (int i = 0; i < registered; i++)
			chosen->remove(i, ours[i]);
		end();
		events += registered;
	}
}

/* Timers. */

static void timers(int registered, long milliseconds)
{
	struct event told[BATCH];

	chosen->open();
	for (int i = 0; i < registered; i++)
		chosen->timer(i, PERIOD_NS);
	long warm = now(CLOCK_MONOTONIC) + WARM_UP_MS * 1000000L, last = warm + milliseconds * 1000000L;
	while (now(CLOCK_MONOTONIC) < warm)
		chosen->wait(told);
	begin();
	do {
		int count = chosen->wait(told);

		waits++;
		for (int i = 0; i < count; i++)
			events += told[i].count;
	} while (now(CLOCK_MONOTONIC) < last);
	end();
}

static const struct system *const systems[] = {
	&epoll_system,
	&uring_system,
#ifdef WITH_KQUEUE
	&kqueue_system,
#endif
#ifdef HAVE_KEVENT
	&ring_system,
#endif
};

int main(int argc, char **argv)
{
	for (size_t i = 0; argc > 4 && i < sizeof systems / sizeof systems[0]; i++)
		if (strcmp(argv[1], systems[i]->name) == 0)
			chosen = systems[i];
	if (!chosen) {
		fprintf(stderr, "usage: events SYSTEM sockets|changes|timers REGISTERED ...\n");
		return 2;
	}
	int registered = number(argv[3], 1, HIGHEST);
	if (strcmp(argv[2], "sockets") == 0 || strcmp(argv[2], "rounds") == 0) {
		int active = number(argv[4], 1, registered), much = number(argv[5], 1, 600000);
		int cpu = number(argc > 6 ? argv[6] : NULL, 0, 1023), is_timed = argv[2][0] == 's';

		sockets(registered, active, is_timed ? much : 0, is_timed ? 0 : much, cpu);
	} else if (strcmp(argv[2], "changes") == 0) {
		changes(registered, number(argv[4], 1, 600000));
	} else {
		timers(registered, number(argv[4], 1, 600000));
	}
	printf("%ld %ld %ld %ld\n", events, cpu_ns, wall_ns, waits);
	return 0;
}
