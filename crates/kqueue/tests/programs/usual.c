/* The header in C and C++, and a queue as programs use it: a pipe, a change, an event, a close. Ends with 0 where all holds. */
#include <sys/event.h>

#include <unistd.h>

#define EXPECT(what) \
	do { \
		if (!(what)) \
			return __LINE__; \
	} while (0)

int main(void)
{
	struct kevent change[2];
	struct timespec at_once = { 0, 0 };
	int ends[2], queue = kqueue(), evaluated = 0;

	EXPECT(queue >= 0 && pipe(ends) == 0);
	EV_SET(&change[evaluated++], ends[0], EVFILT_READ, EV_ADD, 0, 0, &evaluated);
	EXPECT(evaluated == 1 && change[0].udata == &evaluated && change[0].ext[3] == 0);
	EXPECT(kevent(queue, change, 1, NULL, 0, NULL) == 0);
	EXPECT(kevent(queue, NULL, 0, change, 2, &at_once) == 0);
	EXPECT(write(ends[1], "abc", 3) == 3);
	EXPECT(kevent(queue, NULL, 0, change, 2, NULL) == 1);
	EXPECT(change[0].ident == (uintptr_t)ends[0] && change[0].data == 3 && change[0].udata == &evaluated);
	EXPECT(close(ends[0]) == 0);
	EXPECT(kevent(queue, NULL, 0, change, 2, &at_once) == 0);
	return close(queue);
}
