/*
 * Memory is refused for a while: what needs some fails with ENOMEM, what is registered is told all the same, and nothing ends the program. Ends with the line
 * that went wrong, or 0.
 */
#include <sys/event.h>

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define PIPES 64
#define USERS 3000
#define CHECK(what) do { if (!(what)) _exit(__LINE__ % 255 + 1); } while (0)

/* The C library's own. */
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t bytes);
void *__libc_realloc(void *place, size_t bytes);
void *__libc_memalign(size_t alignment, size_t bytes);

static int refusing;

static void *refuse(void)
{
	errno = ENOMEM;
	return NULL;
}

void *malloc(size_t bytes)
{
	return refusing ? refuse() : __libc_malloc(bytes);
}

void *calloc(size_t count, size_t bytes)
{
	return refusing ? refuse() : __libc_calloc(count, bytes);
}

void *realloc(void *place, size_t bytes)
{
	return refusing ? refuse() : __libc_realloc(place, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes)
{
	return refusing ? refuse() : __libc_memalign(alignment, bytes);
}

int posix_memalign(void **place, size_t alignment, size_t bytes)
{
	*place = refusing ? NULL : __libc_memalign(alignment, bytes);
	return *place ? 0 : ENOMEM;
}

static int change(int queue, uintptr_t ident, short filter, unsigned short flags, unsigned int notes)
{
	struct kevent event;

	EV_SET(&event, ident, filter, flags, notes, 0, NULL);
	return kevent(queue, &event, 1, NULL, 0, NULL);
}

static void refused(int queue, uintptr_t ident, short filter)
{
	refusing = 1;
	CHECK(change(queue, ident, filter, EV_ADD | EV_CLEAR, 0) == -1 && errno == ENOMEM);
	refusing = 0;
	CHECK(change(queue, ident, filter, EV_ADD | EV_CLEAR, 0) == 0);
}

int main(void)
{
	static struct kevent events[PIPES + USERS + 1];
	int queue = kqueue(), ends[PIPES][2];

	CHECK(queue >= 0);
	refusing = 1;
	CHECK(kqueue() == -1 && errno == ENOMEM);
	refusing = 0;
	for (int i = 0; i < PIPES; i++) {
		CHECK(pipe(ends[i]) == 0);
		refused(queue, (uintptr_t)ends[i][0], EVFILT_READ);
	}
	for (int i = 0; i < USERS; i++)
		refused(queue, (uintptr_t)i, EVFILT_USER);
	for (int i = 0; i < PIPES; i++)
		CHECK(write(ends[i][1], "a", 1) == 1);
	refusing = 1;
	for (int i = 0; i < USERS; i++)
		CHECK(change(queue, (uintptr_t)i, EVFILT_USER, 0, NOTE_TRIGGER) == 0);
	CHECK(kevent(queue, NULL, 0, events, PIPES + USERS + 1, NULL) == PIPES + USERS);
	CHECK(change(queue, 0, EVFILT_USER, EV_DELETE, 0) == 0);
	refusing = 0;
	refused(queue, 0, EVFILT_USER);
	return close(queue);
}
