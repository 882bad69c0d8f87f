/* Rounds of one byte in one pipe of many that are watched: `idle ROUNDS PIPES`. Ends with 0 where each byte is told, and nothing else. */
#include <sys/event.h>

#include <stdlib.h>
#include <unistd.h>

#define MOST 2000

static int ends[MOST][2];

int main(int count, char **words)
{
	int queue = kqueue();
	long rounds = count == 3 ? strtol(words[1], NULL, 10) : 0, pipes = count == 3 ? strtol(words[2], NULL, 10) : MOST + 1;
	struct kevent event;
	char byte;

	if (queue < 0 || pipes > MOST)
		return 1;
	for (long i = 0; i < pipes; i++) {
		if (pipe(ends[i]) != 0)
			return 2;
		EV_SET(&event, ends[i][0], EVFILT_READ, EV_ADD, 0, 0, NULL);
		if (kevent(queue, &event, 1, NULL, 0, NULL) != 0)
			return 3;
	}
	for (long i = 0; i < rounds; i++) {
		int *pair = ends[i % 10];

		if (write(pair[1], "x", 1) != 1 || kevent(queue, NULL, 0, &event, 1, NULL) != 1)
			return 4;
		if (event.ident != (uintptr_t)pair[0] || event.data != 1 || read(pair[0], &byte, 1) != 1)
			return 5;
	}
	return 0;
}
