/*
 * Takes one event, as often as its first argument says, from a pipe that stays readable, or with a second one from a socket that three connections wait at.
 * Ends with 0 where each is told.
 */
#include <sys/event.h>

#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

static int readable_pipe(void)
{
	int ends[2];

	return pipe(ends) == 0 && write(ends[1], "abc", 3) == 3 ? ends[0] : -1;
}

static int full_listener(void)
{
	struct sockaddr_in address = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t length = sizeof address;
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	if (bind(listener, (struct sockaddr *)&address, length) != 0 || listen(listener, 8) != 0)
		return -1;
	if (getsockname(listener, (struct sockaddr *)&address, &length) != 0)
		return -1;
	for (int i = 0; i < 3; i++)
		if (connect(socket(AF_INET, SOCK_STREAM, 0), (struct sockaddr *)&address, length) != 0)
			return -1;
	return listener;
}

int main(int count, char **words)
{
	struct kevent event;
	int queue = kqueue(), from = count > 2 ? full_listener() : readable_pipe();
	long left = count > 1 ? strtol(words[1], NULL, 10) : 0;

	if (queue < 0 || from < 0)
		return 1;
	EV_SET(&event, from, EVFILT_READ, EV_ADD, 0, 0, NULL);
	if (kevent(queue, &event, 1, NULL, 0, NULL) != 0)
		return 2;
	for (; left > 0; left--)
		if (kevent(queue, NULL, 0, &event, 1, NULL) != 1 || event.data != 3)
			return 3;
	return 0;
}
