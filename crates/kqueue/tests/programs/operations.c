/* corelane/aio.h in C and C++: a page is read, sent and received by operations, each told by the queue. Ends with 0 where all holds. */
#include <corelane/aio.h>

#include <string.h>
#include <unistd.h>

#define EXPECT(what) \
	do { \
		if (!(what)) \
			return __LINE__; \
	} while (0)

int main(int count, char **arguments)
{
	struct corelane_aio received, sent;
	struct kevent told;
	char text[64] = { 0 };
	int ends[2], queue = kqueue(), ends_told = 0;
	int64_t left = -1;

	EXPECT(count == 2 && queue >= 0);
	EXPECT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) == 0);
	memset(&received, 0, sizeof(received));
	memset(&sent, 0, sizeof(sent));
	received.operation = CORELANE_AIO_RECV;
	received.descriptor = ends[0];
	received.buffer = text;
	received.length = 5;
	received.udata = text;
	EXPECT(corelane_aio_submit(queue, &received) == 0);
	EXPECT(corelane_aio_progress(queue, &received, &left) == 0 && left == 5);
	sent.operation = CORELANE_AIO_SENDPATH;
	sent.descriptor = ends[1];
	sent.path = arguments[1];
	sent.length = 5;
	EXPECT(corelane_aio_submit(queue, &sent) == 0);
	while (ends_told < 2) {
		EXPECT(kevent(queue, NULL, 0, &told, 1, NULL) == 1);
		EXPECT(told.filter == EVFILT_AIO && told.data == 5 && told.fflags == 0);
		EXPECT(told.ident == (uintptr_t)(told.udata == text ? &received : &sent));
		ends_told++;
	}
	EXPECT(strcmp(text, "/* co") == 0);
	EXPECT(corelane_aio_cancel(queue, &received) == -1);
	return close(queue);
}
