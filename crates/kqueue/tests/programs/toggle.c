/*
 * Registers that a socket is to be written to, and removes it again, as often as its first argument says: with EVFILT_READ registered all the while, as programs do that wait for room
 * only while they have something to send. Each time the room is told. Ends with 0 where it is.
 */
#include <sys/event.h>

#include <stdlib.h>
#include <sys/socket.h>

int main(int count, char **words)
{
	struct kevent event;
	int queue = kqueue(), ends[2];
	long left = count > 1 ? strtol(words[1], NULL, 10) : 0;

	if (queue < 0 || socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0)
		return 1;
	EV_SET(&event, ends[0], EVFILT_READ, EV_ADD | EV_CLEAR, 0, 0, NULL);
	if (kevent(queue, &event, 1, NULL, 0, NULL) != 0)
		return 2;
	for (; left > 0; left--) {
		EV_SET(&event, ends[0], EVFILT_WRITE, EV_ADD | EV_CLEAR, 0, 0, NULL);
		if (kevent(queue, &event, 1, &event, 1, NULL) != 1 || event.filter != EVFILT_WRITE || event.data <= 0)
			return 3;
		EV_SET(&event, ends[0], EVFILT_WRITE, EV_DELETE, 0, 0, NULL);
		if (kevent(queue, &event, 1, NULL, 0, NULL) != 0)
			return 4;
	}
	return 0;
}
