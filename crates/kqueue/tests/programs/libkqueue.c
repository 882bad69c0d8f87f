/*
 * A program that was built against libkqueue, as far as the two differ: the record of 32 bytes, and the notes of timers. Nothing of this
 * project's header is seen here; the numbers are those of the other one's. Ends with 0 where all holds.
 */
#include <errno.h>
#include <stdint.h>
#include <time.h>
#include <unistd.h>

struct kevent {
	uintptr_t ident;
	short filter;
	unsigned short flags;
	unsigned int fflags;
	intptr_t data;
	void *udata;
};

int kqueue(void);
int kevent(int, const struct kevent *, int, struct kevent *, int, const struct timespec *);

enum { READS = -1, TIMER = -7, ADD = 1, ONESHOT = 0x10, RECEIPT = 0x40, ERROR = 0x4000 };
enum { SECONDS = 1, ABSOLUTE = 8, NEITHER = 0x10 };

#define EXPECT(what) \
	do { \
		if (!(what)) \
			return __LINE__; \
	} while (0)

int main(void)
{
	struct timespec at_once = { 0, 0 };
	struct kevent changes[2], events[3];
	int one[2], two[2], queue = kqueue();

	EXPECT(queue >= 0 && pipe(one) == 0 && pipe(two) == 0);
	changes[0] = (struct kevent){ (uintptr_t)one[0], READS, ADD, 0, 0, one };
	changes[1] = (struct kevent){ (uintptr_t)two[0], READS, ADD, 0, 0, two };
	EXPECT(kevent(queue, changes, 2, NULL, 0, NULL) == 0);
	EXPECT(write(one[1], "a", 1) == 1 && write(two[1], "bc", 2) == 2);
	events[2].ident = 77;
	EXPECT(kevent(queue, NULL, 0, events, 2, NULL) == 2);
	EXPECT(events[2].ident == 77);
	for (int i = 0; i < 2; i++) {
		int *whose = events[i].udata;

		EXPECT(whose == one || whose == two);
		EXPECT(events[i].ident == (uintptr_t)whose[0] && events[i].filter == READS);
		EXPECT(events[i].data == (whose == one ? 1 : 2));
	}
	EXPECT(close(one[0]) == 0 && close(two[0]) == 0);

	/* The fifth second after 1970. */
	changes[0] = (struct kevent){ 9, TIMER, ADD | ONESHOT | RECEIPT, SECONDS | ABSOLUTE, 5, changes };
	EXPECT(kevent(queue, changes, 1, events, 1, NULL) == 1);
	EXPECT(events[0].flags & ERROR && events[0].data == 0 && events[0].fflags == (SECONDS | ABSOLUTE));
	EXPECT(kevent(queue, NULL, 0, events, 3, NULL) == 1);
	EXPECT(events[0].ident == 9 && events[0].filter == TIMER && events[0].udata == changes);

	changes[0] = (struct kevent){ 9, TIMER, ADD, NEITHER, 5, NULL };
	EXPECT(kevent(queue, changes, 1, NULL, 0, NULL) == -1 && errno == EINVAL);
	EXPECT(kevent(queue, NULL, 0, events, 3, &at_once) == 0);
	return close(queue);
}
