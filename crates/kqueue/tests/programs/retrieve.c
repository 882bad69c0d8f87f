/* Takes one event, as often as its argument says, from a pipe that stays readable. Ends with 0 where each is told. */
#include <sys/event.h>

#include <stdlib.h>
#include <unistd.h>

int main(int count, char **words)
{
	struct kevent event;
	int ends[2], queue = kqueue();
	long left = count == 2 ? strtol(words[1], NULL, 10) : 0;

	if (queue < 0 || pipe(ends) != 0 || write(ends[1], "abc", 3) != 3)
		return 1;
	EV_SET(&event, ends[0], EVFILT_READ, EV_ADD, 0, 0, NULL);
	if (kevent(queue, &event, 1, NULL, 0, NULL) != 0)
		return 2;
	for (; left > 0; left--)
		if (kevent(queue, NULL, 0, &event, 1, NULL) != 1 || event.data != 3)
			return 3;
	return 0;
}
